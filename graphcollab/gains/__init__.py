"""Which sites gain by collaborating, by whom, and by how much."""

from graphcollab.gains.benefit import benefit
from graphcollab.gains.outcome import Benefit, Gain
from graphcollab.gains.resplit import resplit
from graphcollab.metrics.inference import Differences, corrected_differences, holm

__all__ = ["Benefit", "Differences", "Gain", "benefit", "corrected_differences", "holm", "resplit"]
