"""What is computed with models: rows, the engine and its backends, objectives and optimisers."""

from graphcollab.engine.backend import Backend
from graphcollab.engine.choice import make_plan
from graphcollab.engine.contrastive import PrototypeContrast, PrototypeUniformity, SupervisedContrast
from graphcollab.engine.engine import Engine
from graphcollab.engine.frozen import FrozenWeightsError
from graphcollab.engine.keyed_checkpoint import keyed_checkpoint
from graphcollab.engine.latents import require_latents
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.losses import Loss, Proximal, as_objective
from graphcollab.engine.objective import Context, FirstView, Objective, Reads
from graphcollab.engine.optimizer import SGD, Adam, AdamW, LocalSteps, RowOptimizer, as_row_optimizer
from graphcollab.engine.plan import Plan
from graphcollab.engine.rows import Fitted, NonFiniteLossError, Outputs, Rows
from graphcollab.engine.samples import Feed
from graphcollab.engine.views import AddNoise, Augment, ImageAugment, Views
from graphcollab.engine.vmap_backend import VmapBackend

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AddNoise",
    "Augment",
    "Backend",
    "Context",
    "Engine",
    "Feed",
    "FirstView",
    "Fitted",
    "FrozenWeightsError",
    "ImageAugment",
    "LocalSteps",
    "LoopBackend",
    "Loss",
    "NonFiniteLossError",
    "Objective",
    "Outputs",
    "Plan",
    "PrototypeContrast",
    "PrototypeUniformity",
    "Proximal",
    "Reads",
    "RowOptimizer",
    "Rows",
    "SupervisedContrast",
    "Views",
    "VmapBackend",
    "as_objective",
    "as_row_optimizer",
    "keyed_checkpoint",
    "make_plan",
    "require_latents",
]
