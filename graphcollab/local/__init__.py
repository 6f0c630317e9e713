"""Work on models: rows, the engine and its two backends, objectives, optimisers, and the local update `Fit`."""

from __future__ import annotations

from graphcollab.local.backend import Backend, Feed
from graphcollab.local.engine import Engine, Fitted, Outputs
from graphcollab.local.fit import Fit
from graphcollab.local.loop_backend import LoopBackend
from graphcollab.local.objective import (
    BinaryCrossEntropy,
    Context,
    CrossEntropy,
    Objective,
    Proximal,
    SquaredError,
    UserLoss,
    as_objective,
)
from graphcollab.local.optimizer import SGD, Adam, AdamW, RowOptimizer, as_row_optimizer
from graphcollab.local.plan import Plan, make_plan
from graphcollab.local.rows import Rows
from graphcollab.local.tune import tune
from graphcollab.local.vmap_backend import VmapBackend

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Backend",
    "BinaryCrossEntropy",
    "Context",
    "CrossEntropy",
    "Engine",
    "Feed",
    "Fit",
    "Fitted",
    "LoopBackend",
    "Objective",
    "Outputs",
    "Plan",
    "Proximal",
    "RowOptimizer",
    "Rows",
    "SquaredError",
    "UserLoss",
    "VmapBackend",
    "as_objective",
    "as_row_optimizer",
    "make_plan",
    "tune",
]
