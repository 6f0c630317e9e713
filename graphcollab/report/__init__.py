"""Figures and tables of the results of runs.

Figures (``pip install 'graphcollab[figures]'``) are ``matplotlib.figure.Figure`` objects outside matplotlib's global
state, so they can be drawn in any thread and on machines without a display, and notebooks display them directly. A
``ValueError`` is raised if there is nothing to show, or if arguments do not fit K nodes or name no method.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.report.benefit_answer import benefit_answer as benefit_answer
    from graphcollab.report.benefit_table import benefit_table as benefit_table
    from graphcollab.report.comparison_answer import comparison_answer as comparison_answer
    from graphcollab.report.description import describe_table as describe_table
    from graphcollab.report.figures._style import save_figure as save_figure
    from graphcollab.report.figures.curves import accuracy_curves as accuracy_curves
    from graphcollab.report.figures.heatmaps import weight_heatmaps as weight_heatmaps
    from graphcollab.report.group_table import group_table as group_table
    from graphcollab.report.inside import coefficient_table as coefficient_table, importance_table as importance_table
    from graphcollab.report.page.page import page as page
    from graphcollab.report.site_table import SiteScores as SiteScores, site_table as site_table
    from graphcollab.report.tables import (
        paired_table as paired_table,
        results_json as results_json,
        results_table as results_table,
    )

__all__ = make_lazy(__name__)
