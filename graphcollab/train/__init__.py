"""Training: the outer loop, its checkpoints and logs, fair comparisons, and nodes that join later."""

from graphcollab.env import Isolate
from graphcollab.train.callbacks import (
    Callback,
    HistoryLog,
    ProbeSimilarity,
    Progress,
    RecordGraph,
    WatchMerging,
    WatchMetrics,
)
from graphcollab.train.checkpoint import latest_checkpoint, load_checkpoint
from graphcollab.train.compare import compare
from graphcollab.train.comparison import Comparison
from graphcollab.train.evaluation import evaluate
from graphcollab.train.graph_input import Graph
from graphcollab.train.health_check import HealthCheck
from graphcollab.train.history import Finding, History
from graphcollab.train.join import Joined, join
from graphcollab.train.learned_graph import LearnedGraph
from graphcollab.train.result import Result
from graphcollab.train.run import run
from graphcollab.train.saved_models import Models, load
from graphcollab.train.saver import save_checkpoint
from graphcollab.train.start import Architecture, Model, build_graph, build_modules
from graphcollab.train.trial import Trial
from graphcollab.train.watch_weights import WatchWeights

__all__ = [
    "Architecture",
    "Callback",
    "Comparison",
    "Finding",
    "Graph",
    "HealthCheck",
    "History",
    "HistoryLog",
    "Isolate",
    "Joined",
    "LearnedGraph",
    "Model",
    "Models",
    "ProbeSimilarity",
    "Progress",
    "RecordGraph",
    "Result",
    "Trial",
    "WatchMerging",
    "WatchMetrics",
    "WatchWeights",
    "build_graph",
    "build_modules",
    "compare",
    "evaluate",
    "join",
    "latest_checkpoint",
    "load",
    "load_checkpoint",
    "run",
    "save_checkpoint",
]
