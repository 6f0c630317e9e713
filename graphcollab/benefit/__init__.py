"""Which sites gain by collaborating, by whom, and by how much."""

from graphcollab.benefit.benefit import benefit
from graphcollab.benefit.inference import Differences, corrected_differences, holm
from graphcollab.benefit.outcome import Benefit, Gain
from graphcollab.benefit.resplit import resplit

__all__ = ["Benefit", "Differences", "Gain", "benefit", "corrected_differences", "holm", "resplit"]
