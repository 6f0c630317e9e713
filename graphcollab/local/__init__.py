"""The local slot: what a node does on its own data."""

from graphcollab.local.combine import ClippedMean, Combine, ProjectedGradient
from graphcollab.local.cross_gradients import CrossGradients
from graphcollab.local.fit import Fit, FitPersonal
from graphcollab.local.prototypes import PrototypeDistance
from graphcollab.local.reference import FitWithReference

__all__ = [
    "ClippedMean",
    "Combine",
    "CrossGradients",
    "Fit",
    "FitPersonal",
    "FitWithReference",
    "ProjectedGradient",
    "PrototypeDistance",
]
