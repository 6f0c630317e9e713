"""The local slot: what a node does on its own data."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.local.combine import (
        ClippedMean as ClippedMean,
        Combine as Combine,
        ProjectedGradient as ProjectedGradient,
    )
    from graphcollab.local.cross_gradients import CrossGradients as CrossGradients
    from graphcollab.local.fit import Fit as Fit, FitPersonal as FitPersonal, FitWithReference as FitWithReference
    from graphcollab.local.prototypes import PrototypeDistance as PrototypeDistance

__all__ = make_lazy(__name__)
