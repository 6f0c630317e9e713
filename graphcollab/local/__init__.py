"""The local slot: what a node does on its own data."""

from __future__ import annotations

from graphcollab.local.clipped_mean import ClippedMean
from graphcollab.local.combine import Combine
from graphcollab.local.cross_gradients import CrossGradients
from graphcollab.local.fit import Fit
from graphcollab.local.fit_personal import FitPersonal
from graphcollab.local.mixture import Mixture
from graphcollab.local.projected_gradient import ProjectedGradient

__all__ = [
    "ClippedMean",
    "Combine",
    "CrossGradients",
    "Fit",
    "FitPersonal",
    "Mixture",
    "ProjectedGradient",
]
