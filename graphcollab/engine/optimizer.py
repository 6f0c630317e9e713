"""Optimizers of local steps with state per row, so that an idle node keeps its moments and its step count.

One ``torch.optim`` optimizer over stacked parameters equals K separate ones only while every row steps, since it has a
single step count; these count per row. Their update rules are those of the ``torch.optim`` classes of the same name.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.errors import ConflictError
from graphcollab._base.piece import Piece
from graphcollab._base.settings import Count, NonNegative, Positive, Real, SettingError, check_setting

State: TypeAlias = Mapping[str, Sequence[Tensor]]
Decay: TypeAlias = Annotated[float, Real(least=0, below=1)]


@dataclass(frozen=True)
class RowOptimizer(Piece, ABC):
    """An elementwise update of parameters whose leading dimension, if any, is rows.

    Args:
        lr: Learning rate. With 0, nothing moves, which isolates the effect of the rest of a method.
        weight_decay: Coefficient of the L2 penalty.
    """

    lr: NonNegative = 0.01
    weight_decay: NonNegative = 0.0

    decoupled: ClassVar[bool] = False
    """Whether weight decay is separate from the gradient step."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the state tensors, each with the parameters' shape."""
        return ()

    @abstractmethod
    def _step(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State, step: Tensor | int) -> None:
        """Update parameters and state in place; the gradients may be overwritten."""

    def update(
        self,
        params: Sequence[Tensor],
        grads: Sequence[Tensor],
        state: State,
        step: Tensor | int,
        share: Sequence[Tensor] | None = None,
    ) -> None:
        r"""Take a step: update parameters and state in place; the gradients may be overwritten.

        With a share s, it is a step of h for a loss of h̄ = s h + r with fixed r; parameters and gradients are those of
        h̄:

        .. math::
            \nabla_h L(s h + r) = s \nabla L(\bar h), \qquad \bar h \leftarrow \bar h + s\, \Delta h

        so plain SGD moves h̄ by :math:`-s^2 \eta \nabla L(\bar h)`. If s is 1, this is a plain step, bit for bit, and
        if it is 0, nothing moves. Weight decay in the gradient is part of the loss and thus acts on h̄.

        Parameters are [R, ...] each, or of a single row without R; ``state`` has one tensor per parameter for every
        slot, initially zero; ``step`` counts previous steps, for all or per row [R]; s broadcasts to its parameter.

        Example:
            >>> x = [torch.tensor([[1.5]])]  # 0.5 h + 1.5 at h = 0; the gradient of ½ (h̄ − 1)² is 0.5 there
            >>> SGD(lr=1.0).update(x, [torch.tensor([[0.5]])], {}, 0, [torch.tensor([[0.5]])])
            >>> x[0].item()
            1.375
        """
        params, grads, inner = list(params), list(grads), self
        if share is None:
            return self._step(params, grads, state, step)
        if self.weight_decay and not self.decoupled:
            grads = list(torch._foreach_add(grads, params, alpha=self.weight_decay))
            inner = dataclasses.replace(self, weight_decay=0.0)
        moved = [param.clone() for param in params]
        inner._step(params, torch._foreach_mul(grads, list(share)), state, step)
        torch._foreach_lerp_(moved, params, list(share))  # exact at both ends, unlike old + s (new - old)
        torch._foreach_copy_(params, moved)
        return None


@dataclass(frozen=True)
class SGD(RowOptimizer):
    """Stochastic gradient descent: v ← μ v + g + λ θ, θ ← θ − lr v (Nesterov: θ ← θ − lr (g + λ θ + μ v))."""

    momentum: Decay = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise ConflictError(
                "momentum", "nesterov=True is a form of momentum: give a momentum above 0 with it, got momentum=0"
            )

    @property
    def slots(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def _step(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State, step: Tensor | int) -> None:
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

    lr: NonNegative = 1e-3
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    eps: Positive = 1e-8

    slots: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")

    def _step(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State, step: Tensor | int) -> None:
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
        pace = self.lr / correction1
        if isinstance(step, Tensor) or params[0].device.type == "cpu":  # on a CPU, one tensor at a time suits the cache
            for param, m, v in zip(params, first, second, strict=True):
                denominator = (v.sqrt() / _per_row(correction2, v)).add_(self.eps)
                param.sub_(m / denominator * _per_row(pace, m))
            return
        denominators = torch._foreach_div(torch._foreach_sqrt(second), correction2)
        torch._foreach_add_(denominators, self.eps)
        moves = torch._foreach_div(first, denominators)
        torch._foreach_mul_(moves, pace)
        torch._foreach_sub_(params, moves)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov, Hutter, 2019), as ``torch.optim.AdamW``."""

    weight_decay: NonNegative = 0.01
    decoupled: ClassVar[bool] = True


def _per_row(value: Tensor | float, like: Tensor) -> Tensor | float:
    if isinstance(value, Tensor) and value.dim() == 1:
        return value.view(-1, *(1,) * (like.dim() - 1)).to(like.dtype)
    return value


_ELEMENTWISE: dict[str, type[RowOptimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def as_row_optimizer(optimizer: str | RowOptimizer, **settings: Any) -> RowOptimizer:
    """Convert a name to a row optimizer.

    Args:
        optimizer: ``"sgd"``, ``"adam"``, ``"adamw"``, or a `RowOptimizer`, which is returned unchanged.
        settings: Its settings, such as ``lr``. Default: those of the class. For a setting that the class does not have,
            0 (no momentum) is accepted and ignored.

    Raises:
        SettingError: If it is anything else, such as a PyTorch optimizer, or has no such setting.

    Example:
        >>> as_row_optimizer("sgd", lr=0.1).lr
        0.1
    """
    lower = optimizer.lower() if isinstance(optimizer, str) else optimizer
    chosen = check_setting("optimizer", Literal["sgd", "adam", "adamw"] | RowOptimizer, lower)
    if isinstance(chosen, RowOptimizer):
        return chosen
    kind = _ELEMENTWISE[chosen]
    *first, last = own = [field.name for field in dataclasses.fields(kind)]
    for name, value in settings.items():
        if name not in own and value:
            what = f"left out, since {kind.__name__} has no {name} (it has {', '.join(first)} and {last})"
            raise SettingError(name, what, value)
    return kind(**{name: value for name, value in settings.items() if name in own})


@dataclass(frozen=True)
class LocalSteps(Piece):
    """Local training on a node's own data, a setting of all pieces with local updates.

    Args:
        epochs: Passes over a node's training samples.
        steps: Number of local steps, instead of ``epochs``.
        batch_size: B; the last batch of a pass may be shorter.
        optimizer: The update rule, also by name (`as_row_optimizer`). Default: SGD with learning rate 0.01 and weight
            decay 5e-4, as in the L2C paper.

    Raises:
        ValueError: If the optimizer has no row-wise form.
    """

    epochs: Count = 1
    steps: Count | None = None
    batch_size: Count = 10
    optimizer: RowOptimizer = field(default_factory=lambda: SGD(lr=0.01, weight_decay=5e-4))

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", as_row_optimizer(self.optimizer))
        super().__post_init__()
