"""Figures and tables of what runs have shown.

Figures are ``matplotlib.figure.Figure`` objects that no global state knows of, so they can be drawn in any thread, on
machines without a display, and shown by a notebook as they are.
"""

from __future__ import annotations

from graphcollab.report.accuracy_curves import accuracy_curves
from graphcollab.report.budget_table import budget_table
from graphcollab.report.comparison_figures import comparison_figures
from graphcollab.report.contact_heatmap import contact_heatmap
from graphcollab.report.latent_figure import latent_figure
from graphcollab.report.merge_curves import merge_curves
from graphcollab.report.paired_table import paired_table
from graphcollab.report.peer_table import peer_table
from graphcollab.report.results_json import results_json
from graphcollab.report.results_table import results_table
from graphcollab.report.save_figure import save_figure
from graphcollab.report.similarity_curves import similarity_curves
from graphcollab.report.time_to_table import time_to_table
from graphcollab.report.traffic_curves import traffic_curves
from graphcollab.report.weight_by_overlap_figure import weight_by_overlap_figure
from graphcollab.report.weight_curves import weight_curves
from graphcollab.report.weight_heatmaps import weight_heatmaps
from graphcollab.report.weight_table import weight_table

__all__ = [
    "accuracy_curves",
    "budget_table",
    "comparison_figures",
    "contact_heatmap",
    "latent_figure",
    "merge_curves",
    "paired_table",
    "peer_table",
    "results_json",
    "results_table",
    "save_figure",
    "similarity_curves",
    "time_to_table",
    "traffic_curves",
    "weight_by_overlap_figure",
    "weight_curves",
    "weight_heatmaps",
    "weight_table",
]
