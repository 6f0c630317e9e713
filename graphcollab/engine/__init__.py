"""Computation with models: rows, the engine and its backends, objectives and optimizers."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.engine.contrastive import (
        PrototypeContrast as PrototypeContrast,
        PrototypeUniformity as PrototypeUniformity,
        SupervisedContrast as SupervisedContrast,
    )
    from graphcollab.engine.engine import Engine as Engine
    from graphcollab.engine.losses import Loss as Loss, Proximal as Proximal, as_objective as as_objective
    from graphcollab.engine.objective import Objective as Objective
    from graphcollab.engine.optimizer import (
        SGD as SGD,
        Adam as Adam,
        AdamW as AdamW,
        LocalSteps as LocalSteps,
        RowOptimizer as RowOptimizer,
        as_row_optimizer as as_row_optimizer,
    )
    from graphcollab.engine.param_spec import ParamSpec as ParamSpec
    from graphcollab.engine.rows import NonFiniteLossError as NonFiniteLossError, Rows as Rows
    from graphcollab.engine.stack import Stacks as Stacks
    from graphcollab.engine.views import AddNoise as AddNoise, ImageAugment as ImageAugment, Views as Views

__all__ = make_lazy(__name__)
