"""CoBo's exchange: every model is pulled towards those of the nodes that its node collaborates with."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch_geometric.data import Data

from graphcollab.exchange.exchange import Exchange
from graphcollab.ops import laplacian_bound, laplacian_radius

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["LaplacianPull"]


@dataclass(frozen=True)
class LaplacianPull(Exchange):
    r"""A step along the weighted Laplacian at the round's start, on top of the local update.

    From `CoBo: Collaborative Learning via Bilevel Optimization (Hashemi, He, Jaggi, NeurIPS 2024)
    <https://arxiv.org/abs/2409.05539>`_, eq. 2 and 4:

    .. math::
        x_i \leftarrow x_i - \eta \rho \sum_k w_{ik} (x_i^0 - x_k^0), \qquad X \leftarrow X - \eta\rho\, L_w X^0

    with :math:`x^0` the models at the round's start and x those after the local step of size η. The step is stable if
    :math:`\eta (L + \rho \lambda_{\max}(L_w)) < 2` for L-smooth losses; with all K nodes at weight 1
    :math:`\lambda_{\max} = K`, so ρ must shrink as K grows. A run whose step is outside that bound warns, once, with
    the number. Nodes that are late or away pull at nobody.

    Args:
        part: Part of the model that is pulled.
        buffers: ``"keep"``: every node keeps its running statistics; ``"average"``: they are pulled with the same
            strength, as they are after the local step.
        rho: ρ.
        lr: η, the local step's.
        smoothness: L, where it is known. Default: 0, with which only the pull's own part is judged.

    Raises:
        ValueError: If ρ or η is not a positive finite number, or L is negative.

    Example:
        >>> LaplacianPull(rho=0.5, lr=0.1).scale
        0.05
    """

    base: str = field(default="x", init=False, repr=False)
    message: str = field(default="x_start", init=False, repr=False)
    neighbors_only: bool = field(default=False, init=False, repr=False)
    against: str | None = field(default="x_start", init=False, repr=False)
    scale: float = field(default=1.0, init=False, repr=False)
    rho: float = 0.05
    lr: float = 0.01
    smoothness: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rho", "lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive finite number, got {getattr(self, name)}")
        if not 0 <= self.smoothness < math.inf:
            raise ValueError(f"smoothness must be a finite number that is not negative, got {self.smoothness}")
        object.__setattr__(self, "scale", self.lr * self.rho)
        super().__post_init__()

    def init(self, data: Data, env: Env) -> Data:
        """Check the part, and the step size on the graph as it is at first."""
        data = copy.copy(super().init(data, env))
        data.pull_warned = False
        return self._check_step(data)

    def __call__(self, data: Data, env: Env) -> Data:
        """Pull, and count the models that travelled."""
        return super().__call__(self._check_step(data), env)

    def _check_step(self, data: Data) -> Data:
        """Warn, once in a run, if the step size is outside the bound."""

        def reach(eigenvalue: float) -> float:
            return self.lr * (self.smoothness + self.rho * eigenvalue)

        if data.pull_warned or reach(laplacian_bound(data.edge_index, data.edge_weight, data.num_nodes)) < 2:
            return data
        sender, receiver = data.edge_index
        weight = data.edge_weight.masked_fill(~(data.present[sender] & data.present[receiver]), 0)
        largest = laplacian_radius(data.edge_index, weight, data.num_nodes)
        if reach(largest) < 2:
            return data
        warnings.warn(
            f"round {data.round}: lr (L + rho λ) = {self.lr:g} ({self.smoothness:g} + {self.rho:g} · {largest:g}) = "
            f"{reach(largest):.3g} is not below 2, the bound of stability (λ: the largest eigenvalue of the graph's "
            f"Laplacian): models may diverge; use rho below {max(2 / self.lr - self.smoothness, 0) / largest:.3g} or a "
            "smaller lr",
            RuntimeWarning,
            stacklevel=2,
        )
        data = copy.copy(data)
        data.pull_warned = True
        return data
