"""What is computed with models: rows, the engine and its backends, objectives and optimisers."""

from graphcollab.engine.contrastive import PrototypeContrast, PrototypeUniformity, SupervisedContrast
from graphcollab.engine.engine import Engine
from graphcollab.engine.frozen import FrozenWeightsError
from graphcollab.engine.keyed_checkpoint import keyed_checkpoint
from graphcollab.engine.latents import require_latents
from graphcollab.engine.losses import Loss, Proximal, as_objective
from graphcollab.engine.objective import Context, FirstView, Objective, Reads
from graphcollab.engine.optimizer import SGD, Adam, AdamW, LocalSteps, RowOptimizer, as_row_optimizer
from graphcollab.engine.plan import Plan
from graphcollab.engine.rows import NonFiniteLossError, Rows
from graphcollab.engine.views import AddNoise, Augment, ImageAugment, Views

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AddNoise",
    "Augment",
    "Context",
    "Engine",
    "FirstView",
    "FrozenWeightsError",
    "ImageAugment",
    "LocalSteps",
    "Loss",
    "NonFiniteLossError",
    "Objective",
    "Plan",
    "PrototypeContrast",
    "PrototypeUniformity",
    "Proximal",
    "Reads",
    "RowOptimizer",
    "Rows",
    "SupervisedContrast",
    "Views",
    "as_objective",
    "as_row_optimizer",
    "keyed_checkpoint",
    "require_latents",
]
