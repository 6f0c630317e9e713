"""The local slot: what a node does on its own data."""

from __future__ import annotations

from graphcollab.local.clipped_mean import ClippedMean
from graphcollab.local.cross_gradients import Combine, CrossGradients
from graphcollab.local.fit import Fit
from graphcollab.local.fit_personal import FitPersonal
from graphcollab.local.fit_through_mixture import FitThroughMixture
from graphcollab.local.fit_to_prototypes import FitToPrototypes
from graphcollab.local.projected_gradient import ProjectedGradient

__all__ = [
    "ClippedMean",
    "Combine",
    "CrossGradients",
    "Fit",
    "FitPersonal",
    "FitThroughMixture",
    "FitToPrototypes",
    "ProjectedGradient",
]
