"""What is computed with models: rows, the engine and its backends, objectives and optimisers."""

from __future__ import annotations

from graphcollab.engine.augment import AddNoise, ImageAugment
from graphcollab.engine.backend import Backend
from graphcollab.engine.contrastive import FirstView, PrototypeContrast, PrototypeUniformity, SupervisedContrast
from graphcollab.engine.cosine_pull import CosinePull
from graphcollab.engine.engine import Engine
from graphcollab.engine.feed import Feed
from graphcollab.engine.latents import require_latents
from graphcollab.engine.local_steps import LocalSteps
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.losses import BinaryCrossEntropy, CrossEntropy, SquaredError, UserLoss, as_objective
from graphcollab.engine.non_finite_loss_error import NonFiniteLossError
from graphcollab.engine.objective import Context, Objective, Proximal, Reads
from graphcollab.engine.optimizer import SGD, Adam, AdamW, RowOptimizer, as_row_optimizer
from graphcollab.engine.plan import Plan, make_plan
from graphcollab.engine.prototype_distance import PrototypeDistance
from graphcollab.engine.row_results import BatchGradient, FitState, Fitted, Outputs
from graphcollab.engine.rows import Rows
from graphcollab.engine.tune import tune
from graphcollab.engine.views import Augment, Views
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
