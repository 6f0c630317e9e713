"""Training: the loop over rounds, callbacks, and nodes that join after training."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab._base.findings import Finding as Finding
    from graphcollab.train.callbacks import (
        Callback as Callback,
        Progress as Progress,
        RecordGraph as RecordGraph,
        WatchMetrics as WatchMetrics,
    )
    from graphcollab.train.evaluation import evaluate as evaluate
    from graphcollab.train.graph_input import Graph as Graph
    from graphcollab.train.join import Joined as Joined
    from graphcollab.train.result import Result as Result
    from graphcollab.train.settings import Checkpoint as Checkpoint, Compute as Compute

__all__ = make_lazy(__name__)
