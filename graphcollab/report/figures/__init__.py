"""Figures of what runs have shown, drawn by matplotlib (``pip install 'graphcollab[figures]'``)."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy
from graphcollab.extras import import_extra

if TYPE_CHECKING:
    from graphcollab.report.figures.benefit import benefit_figure
    from graphcollab.report.figures.comparison import comparison_figures, weight_by_overlap_figure
    from graphcollab.report.figures.curves import (
        accuracy_curves,
        merge_curves,
        similarity_curves,
        traffic_curves,
        weight_curves,
    )
    from graphcollab.report.figures.heatmaps import contact_heatmap, weight_heatmaps
    from graphcollab.report.figures.latents import latent_figure
    from graphcollab.report.figures.own_weights import own_weight_curves
    from graphcollab.report.figures.save import save_figure

__all__ = [
    "accuracy_curves",
    "benefit_figure",
    "comparison_figures",
    "contact_heatmap",
    "latent_figure",
    "merge_curves",
    "own_weight_curves",
    "save_figure",
    "similarity_curves",
    "traffic_curves",
    "weight_by_overlap_figure",
    "weight_curves",
    "weight_heatmaps",
]

import_extra("matplotlib", "figures", "figures")
make_lazy(__name__)
