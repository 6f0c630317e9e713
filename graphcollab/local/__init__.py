"""Work on models: rows, the engine and its two backends, objectives, optimisers, and the local update `Fit`."""

from __future__ import annotations

from graphcollab.local.augment import AddNoise, ImageAugment
from graphcollab.local.backend import Backend
from graphcollab.local.batch_gradient import batch_gradient
from graphcollab.local.contrastive import FirstView, PrototypeContrast, PrototypeUniformity, SupervisedContrast
from graphcollab.local.engine import Engine
from graphcollab.local.feed import Feed
from graphcollab.local.fine_tuned import FineTuned
from graphcollab.local.fit import Fit
from graphcollab.local.fit_personal import FitPersonal, PersonalModel
from graphcollab.local.fit_through_mixture import FitThroughMixture
from graphcollab.local.fit_to_prototypes import FitToPrototypes
from graphcollab.local.latents import require_latents
from graphcollab.local.loop_backend import LoopBackend
from graphcollab.local.losses import BinaryCrossEntropy, CrossEntropy, SquaredError, UserLoss, as_objective
from graphcollab.local.non_finite_loss_error import NonFiniteLossError
from graphcollab.local.objective import Context, Objective, Proximal
from graphcollab.local.optimizer import SGD, Adam, AdamW, RowOptimizer, as_row_optimizer
from graphcollab.local.plan import Plan, make_plan
from graphcollab.local.prototype_distance import PrototypeDistance
from graphcollab.local.row_results import Fitted, Outputs
from graphcollab.local.rows import Rows
from graphcollab.local.through_mixture import ThroughMixture
from graphcollab.local.tune import tune
from graphcollab.local.views import Augment, Views
from graphcollab.local.vmap_backend import VmapBackend

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AddNoise",
    "Augment",
    "Backend",
    "BinaryCrossEntropy",
    "Context",
    "CrossEntropy",
    "Engine",
    "Feed",
    "FineTuned",
    "FirstView",
    "Fit",
    "FitPersonal",
    "FitThroughMixture",
    "FitToPrototypes",
    "Fitted",
    "ImageAugment",
    "LoopBackend",
    "NonFiniteLossError",
    "Objective",
    "Outputs",
    "PersonalModel",
    "Plan",
    "PrototypeContrast",
    "PrototypeDistance",
    "PrototypeUniformity",
    "Proximal",
    "RowOptimizer",
    "Rows",
    "SquaredError",
    "SupervisedContrast",
    "ThroughMixture",
    "UserLoss",
    "Views",
    "VmapBackend",
    "as_objective",
    "as_row_optimizer",
    "batch_gradient",
    "make_plan",
    "require_latents",
    "tune",
]
