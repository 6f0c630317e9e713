"""Data that outlive a run: its history, checkpoints, the learned graph, and models for use without training code."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.persistence.history import History as History
    from graphcollab.persistence.learned_graph import LearnedGraph as LearnedGraph
    from graphcollab.persistence.saved_models import Models as Models

__all__ = make_lazy(__name__)
