"""Training: the outer loop, its checkpoints and logs, fair comparisons, and nodes that join later."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.env import Isolate as Isolate
    from graphcollab.findings import Finding as Finding
    from graphcollab.train.callbacks import (
        Callback as Callback,
        Progress as Progress,
        RecordGraph as RecordGraph,
        WatchMetrics as WatchMetrics,
    )
    from graphcollab.train.checkpoint import load_checkpoint as load_checkpoint
    from graphcollab.train.compare import compare as compare
    from graphcollab.train.comparison import Comparison as Comparison
    from graphcollab.train.evaluation import evaluate as evaluate
    from graphcollab.train.graph_input import Graph as Graph
    from graphcollab.train.history import History as History
    from graphcollab.train.join import Joined as Joined, join as join
    from graphcollab.train.learned_graph import LearnedGraph as LearnedGraph
    from graphcollab.train.result import Result as Result
    from graphcollab.train.run import run as run
    from graphcollab.train.saved_models import Models as Models, load as load
    from graphcollab.train.start import (
        Architecture as Architecture,
        Model as Model,
        build_graph as build_graph,
        build_modules as build_modules,
    )
    from graphcollab.train.trial import Trial as Trial

__all__ = make_lazy(__name__)
