"""Figures and tables of what runs have shown.

Figures (``pip install 'graphcollab[figures]'``) are ``matplotlib.figure.Figure`` objects that no global state knows of,
so they can be drawn in any thread, on machines without a display, and shown by a notebook as they are. A ``ValueError``
says so where there is nothing to show (no graph, no run, no method), where what is given does not fit K nodes, and
where there is no method of a name.
"""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.report.benefit_answer import benefit_answer
    from graphcollab.report.benefit_table import benefit_table
    from graphcollab.report.cost_tables import budget_table, time_to_table
    from graphcollab.report.figures import (
        accuracy_curves,
        benefit_figure,
        comparison_figures,
        contact_heatmap,
        latent_figure,
        merge_curves,
        own_weight_curves,
        save_figure,
        similarity_curves,
        traffic_curves,
        weight_by_overlap_figure,
        weight_curves,
        weight_heatmaps,
    )
    from graphcollab.report.graph_tables import peer_table, weight_table
    from graphcollab.report.page import page
    from graphcollab.report.results_json import results_json
    from graphcollab.report.site_scores import SiteScores
    from graphcollab.report.site_table import site_table
    from graphcollab.report.tables import paired_table, results_table

__all__ = [
    "SiteScores",
    "accuracy_curves",
    "benefit_answer",
    "benefit_figure",
    "benefit_table",
    "budget_table",
    "comparison_figures",
    "contact_heatmap",
    "latent_figure",
    "merge_curves",
    "own_weight_curves",
    "page",
    "paired_table",
    "peer_table",
    "results_json",
    "results_table",
    "save_figure",
    "similarity_curves",
    "site_table",
    "time_to_table",
    "traffic_curves",
    "weight_by_overlap_figure",
    "weight_curves",
    "weight_heatmaps",
    "weight_table",
]

make_lazy(__name__)
