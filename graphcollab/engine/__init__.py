"""What is computed with models: rows, the engine and its backends, objectives and optimisers."""

from __future__ import annotations

from graphcollab.engine.backend import Backend
from graphcollab.engine.contrastive import FirstView, PrototypeContrast, PrototypeUniformity, SupervisedContrast
from graphcollab.engine.engine import Engine
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.losses import BinaryCrossEntropy, CosinePull, CrossEntropy, SquaredError, UserLoss, as_objective
from graphcollab.engine.modules import require_latents
from graphcollab.engine.objective import Context, Objective, Proximal, Reads
from graphcollab.engine.optimizer import SGD, Adam, AdamW, LocalSteps, RowOptimizer, as_row_optimizer
from graphcollab.engine.plan import Plan, make_plan
from graphcollab.engine.prototypes import PrototypeDistance
from graphcollab.engine.rows import BatchGradient, FitState, Fitted, NonFiniteLossError, Outputs, Rows
from graphcollab.engine.samples import Feed
from graphcollab.engine.tune import tune
from graphcollab.engine.views import AddNoise, Augment, ImageAugment, Views
from graphcollab.engine.vmap_backend import VmapBackend

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AddNoise",
    "Augment",
    "Backend",
    "BatchGradient",
    "BinaryCrossEntropy",
    "Context",
    "CosinePull",
    "CrossEntropy",
    "Engine",
    "Feed",
    "FirstView",
    "FitState",
    "Fitted",
    "ImageAugment",
    "LocalSteps",
    "LoopBackend",
    "NonFiniteLossError",
    "Objective",
    "Outputs",
    "Plan",
    "PrototypeContrast",
    "PrototypeDistance",
    "PrototypeUniformity",
    "Proximal",
    "Reads",
    "RowOptimizer",
    "Rows",
    "SquaredError",
    "SupervisedContrast",
    "UserLoss",
    "Views",
    "VmapBackend",
    "as_objective",
    "as_row_optimizer",
    "make_plan",
    "require_latents",
    "tune",
]
