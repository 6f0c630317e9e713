"""Training: the outer loop, its checkpoints and logs, fair comparisons, and nodes that join later."""

from __future__ import annotations

from graphcollab.control.guard import Isolate
from graphcollab.train.callbacks import Callback, CsvLog, JsonLog, Progress, RecordGraph, RecordScores, TensorBoardLog
from graphcollab.train.checkpoint import latest_checkpoint, load_checkpoint
from graphcollab.train.compare import compare
from graphcollab.train.comparison import Comparison
from graphcollab.train.evaluate import evaluate
from graphcollab.train.health_check import HealthCheck
from graphcollab.train.history import Finding, History
from graphcollab.train.join import Joined, join
from graphcollab.train.observers import ProbeSimilarity, WatchMerging
from graphcollab.train.result import Result
from graphcollab.train.run import run
from graphcollab.train.saver import save_checkpoint
from graphcollab.train.start import build_graph, build_modules
from graphcollab.train.trial import Reached, Trial

__all__ = [
    "Callback",
    "Comparison",
    "CsvLog",
    "Finding",
    "HealthCheck",
    "History",
    "Isolate",
    "Joined",
    "JsonLog",
    "ProbeSimilarity",
    "Progress",
    "Reached",
    "RecordGraph",
    "RecordScores",
    "Result",
    "TensorBoardLog",
    "Trial",
    "WatchMerging",
    "build_graph",
    "build_modules",
    "compare",
    "evaluate",
    "join",
    "latest_checkpoint",
    "load_checkpoint",
    "run",
    "save_checkpoint",
]
