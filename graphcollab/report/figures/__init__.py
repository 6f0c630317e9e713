"""Figures of what runs have shown, drawn by matplotlib (``pip install 'graphcollab[figures]'``)."""

from typing import TYPE_CHECKING

from graphcollab._base.extras import import_extra
from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.report.figures._style import save_figure as save_figure
    from graphcollab.report.figures.curves import accuracy_curves as accuracy_curves
    from graphcollab.report.figures.heatmaps import weight_heatmaps as weight_heatmaps

import_extra("matplotlib", "figures", "figures")
__all__ = make_lazy(__name__)
