"""The local slot: the local update of a node on its own data."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.components.local.combine import (
        ClippedMean as ClippedMean,
        Combine as Combine,
        ProjectedGradient as ProjectedGradient,
    )
    from graphcollab.components.local.cross_gradients import CrossGradients as CrossGradients
    from graphcollab.components.local.fit import (
        Fit as Fit,
        FitPersonal as FitPersonal,
        FitWithReference as FitWithReference,
    )
    from graphcollab.components.local.prototypes import PrototypeDistance as PrototypeDistance

__all__ = make_lazy(__name__)
