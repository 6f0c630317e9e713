"""`ThroughMixture`: an optimiser's step on a model that is only a share of the mixture the loss sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from graphcollab.engine.optimizer import SGD, RowOptimizer, State

__all__ = ["OWN_SHARE", "ThroughMixture"]

OWN_SHARE = "own_share"
"""Name of the state slot with the own model's coefficients in the mixture."""


@dataclass(frozen=True)
class ThroughMixture(RowOptimizer):
    r"""Update of h where the loss is of h̄ = s h + r, for a fixed r; the parameters given and returned are h̄'s.

    .. math::
        \nabla_h L(s h + r) = s \nabla L(\bar h), \qquad \bar h \leftarrow \bar h + s\, \Delta h

    so plain SGD moves h̄ by :math:`-s^2 \eta \nabla L(\bar h)`. The coefficients s are one more slot of the optimiser's
    state, ``own_share``, which is read and never written; where s is 1 the update is the inner optimiser's, bit for
    bit, and where it is 0 nothing moves. Coupled weight decay is part of the loss and so acts on h̄.

    Args:
        inner: The update of h.

    Example:
        >>> x = [torch.tensor([[1.5]])]  # 0.5 h + 1.5 at h = 0; the gradient of ½ (h̄ − 1)² is 0.5 there
        >>> ThroughMixture(SGD(lr=1.0)).update(x, [torch.tensor([[0.5]])], {"own_share": [torch.tensor([[0.5]])]}, 0)
        >>> x[0].item()
        1.375
    """

    lr: float = field(init=False, repr=False)
    weight_decay: float = field(init=False, repr=False)
    inner: RowOptimizer = field(default_factory=SGD)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lr", self.inner.lr)
        object.__setattr__(self, "weight_decay", self.inner.weight_decay)

    @property
    def slots(self) -> tuple[str, ...]:
        """The inner optimiser's slots, and ``own_share``."""
        return (*self.inner.slots, OWN_SHARE)

    def update(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State, step: Tensor | int) -> None:
        """Take one step."""
        params, grads, share, inner = list(params), list(grads), list(state[OWN_SHARE]), self.inner
        if inner.weight_decay and not getattr(inner, "decoupled", False):
            grads = list(torch._foreach_add(grads, params, alpha=inner.weight_decay))
            inner = replace(inner, weight_decay=0.0)
        moved = [param.clone() for param in params]
        inner.update(params, torch._foreach_mul(grads, share), state, step)
        torch._foreach_lerp_(moved, params, share)  # exact at both ends, unlike old + s (new - old)
        torch._foreach_copy_(params, moved)
