"""Optimisers whose state is per row: a node that idles keeps its moments and its step count.

One ``torch.optim`` optimiser over stacked parameters equals K separate ones only while every row steps, since it counts
steps once for all. These keep a count per row and are elementwise, so stacking changes nothing. They follow the update
rules of the ``torch.optim`` classes of the same name.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

__all__ = ["SGD", "Adam", "AdamW", "RowOptimizer", "as_row_optimizer"]

State = Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True)
class RowOptimizer(ABC):
    """An elementwise update of parameters whose leading dimension, if any, is rows.

    Args:
        lr: Step size.
        weight_decay: Coefficient of the L2 penalty.
    """

    lr: float = 0.01
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.lr < math.inf and 0 <= self.weight_decay < math.inf):
            raise ValueError(
                f"lr and weight_decay must be finite and must not be negative, got {self.lr} and {self.weight_decay}"
            )

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the state tensors, each of the parameters' shape."""
        return ()

    @abstractmethod
    def update(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State, step: Tensor | int) -> None:
        """Change parameters and state in place; the gradients may be overwritten.

        Args:
            params: Parameters, [R, ...] each, or of a single row without R.
            grads: Their gradients.
            state: For every slot one tensor per parameter, zero at first.
            step: Steps taken so far: a number, or one per row [R].
        """


@dataclass(frozen=True)
class SGD(RowOptimizer):
    """Stochastic gradient descent: v ← μ v + g + λ θ, θ ← θ − lr v (Nesterov: θ ← θ − lr (g + λ θ + μ v)).

    Example:
        >>> x = [torch.tensor([[1.0], [2.0]])]
        >>> SGD(lr=0.5).update(x, [torch.ones(2, 1)], {}, 0)
        >>> x[0].tolist()
        [[0.5], [1.5]]
    """

    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < math.inf:
            raise ValueError(f"momentum must be finite and must not be negative, got {self.momentum}")

    @property
    def slots(self) -> tuple[str, ...]:
        """The velocity, where there is momentum."""
        return ("momentum",) if self.momentum else ()

    def update(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State, step: Tensor | int) -> None:
        """Take one step."""
        params, direction = list(params), list(grads)
        if self.weight_decay:
            torch._foreach_add_(direction, params, alpha=self.weight_decay)
        if self.momentum:
            velocity = list(state["momentum"])
            torch._foreach_mul_(velocity, self.momentum)
            torch._foreach_add_(velocity, direction)
            if self.nesterov:
                torch._foreach_add_(direction, velocity, alpha=self.momentum)
            else:
                direction = velocity
        torch._foreach_add_(params, direction, alpha=-self.lr)


@dataclass(frozen=True)
class Adam(RowOptimizer):
    """Adam (Kingma, Ba, 2015) with weight decay coupled into the gradient, as ``torch.optim.Adam``."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    decoupled: bool = field(default=False, init=False, repr=False)

    @property
    def slots(self) -> tuple[str, ...]:
        """First and second moment."""
        return ("exp_avg", "exp_avg_sq")

    def update(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State, step: Tensor | int) -> None:
        """Take one step."""
        params, grads = list(params), list(grads)
        if self.weight_decay and self.decoupled:
            torch._foreach_mul_(params, 1 - self.lr * self.weight_decay)
        elif self.weight_decay:
            torch._foreach_add_(grads, params, alpha=self.weight_decay)
        first, second = list(state["exp_avg"]), list(state["exp_avg_sq"])
        beta1, beta2 = self.betas
        torch._foreach_lerp_(first, grads, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, 1 - beta2)
        count = step.double() + 1 if isinstance(step, Tensor) else step + 1
        correction1, correction2 = 1 - beta1**count, (1 - beta2**count) ** 0.5
        for param, m, v in zip(params, first, second, strict=True):
            denominator = (v.sqrt() / _per_row(correction2, v)).add_(self.eps)
            param.sub_(m / denominator * _per_row(self.lr / correction1, m))


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov, Hutter, 2019), as ``torch.optim.AdamW``."""

    weight_decay: float = 0.01
    decoupled: bool = field(default=True, init=False, repr=False)


def _per_row(value: Tensor | float, like: Tensor) -> Tensor | float:
    """Shape one number per row so that it broadcasts over the rest of ``like``."""
    if isinstance(value, Tensor) and value.dim() == 1:
        return value.view(-1, *(1,) * (like.dim() - 1)).to(like.dtype)
    return value


_ELEMENTWISE: dict[str, type[RowOptimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def as_row_optimizer(
    optimizer: str | type[torch.optim.Optimizer] | type[RowOptimizer] | RowOptimizer, **settings: Any
) -> RowOptimizer:
    """Turn a name or a ``torch.optim`` class into the row optimiser with the same update.

    Args:
        optimizer: ``"sgd"``, ``"adam"``, ``"adamw"``, ``torch.optim.SGD`` and so on, or a `RowOptimizer` or its class.
        settings: Its settings, such as ``lr``. Default: those of the class named.

    Raises:
        ValueError: If its update is not elementwise or it has no row form; it is refused by name.
        TypeError: If it is anything else, such as an optimiser that already holds parameters.

    Example:
        >>> as_row_optimizer(torch.optim.SGD, lr=0.1).lr
        0.1
    """
    if isinstance(optimizer, RowOptimizer):
        return optimizer
    kind = inspect.isclass(optimizer) and issubclass(optimizer, torch.optim.Optimizer | RowOptimizer)
    if not isinstance(optimizer, str) and not kind:
        raise TypeError(
            "expected the name of an optimiser, a torch.optim class or a RowOptimizer, got "
            f"{type(optimizer).__name__}: pass for example Adam(lr=0.001) of graphcollab.local"
        )
    if not isinstance(optimizer, str) and issubclass(optimizer, RowOptimizer):
        return optimizer(**settings)
    name = optimizer if isinstance(optimizer, str) else optimizer.__name__
    if name.lower() not in _ELEMENTWISE or (kind and optimizer is not getattr(torch.optim, name, None)):
        raise ValueError(
            f"{name} is not available for stacked models: an optimiser must be elementwise with state per row; "
            f"available are {', '.join(kind.__name__ for kind in _ELEMENTWISE.values())}"
        )
    if not isinstance(optimizer, str):
        own = inspect.signature(optimizer).parameters
        settings = {key: own[key].default for key in ("lr", "weight_decay")} | settings
    return _ELEMENTWISE[name.lower()](**settings)
