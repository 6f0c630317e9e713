"""Which sites gain by collaborating, by whom, and by how much."""

from graphcollab.gains.benefit import benefit
from graphcollab.gains.evidence import Gain
from graphcollab.gains.outcome import Benefit
from graphcollab.gains.resplit import resplit

__all__ = ["Benefit", "Gain", "benefit", "resplit"]
