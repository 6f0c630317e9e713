"""Which sites gain by collaborating, by whom, and by how much."""

from graphcollab.gains.benefit import benefit
from graphcollab.gains.inference import Differences, corrected_differences, holm
from graphcollab.gains.outcome import Benefit, Gain
from graphcollab.gains.resplit import resplit

__all__ = ["Benefit", "Differences", "Gain", "benefit", "corrected_differences", "holm", "resplit"]
