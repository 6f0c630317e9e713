"""CoBo's exchange: every model is pulled towards those of the nodes that its node collaborates with."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch_geometric.data import Data

from graphcollab.exchange.exchange import Exchange
from graphcollab.ops import laplacian_bound, laplacian_radius
from graphcollab.piece import Field
from graphcollab.settings import NonNegative, Positive
from graphcollab.typing import Env

__all__ = ["LaplacianPull"]


@dataclass(frozen=True)
class LaplacianPull(Exchange):
    r"""An `Exchange` along the weighted Laplacian at the round's start, that warns where its step is too large.

    From `CoBo: Collaborative Learning via Bilevel Optimization (Hashemi, He, Jaggi, NeurIPS 2024)
    <https://arxiv.org/abs/2409.05539>`_, eq. 2 and 4:

    .. math::
        x_i \leftarrow x_i - \eta \rho \sum_k w_{ik} (x_i^0 - x_k^0), \qquad X \leftarrow X - \eta\rho\, L_w X^0

    with :math:`x^0` the models at the round's start and x those after the local step of size η. The step is stable if
    :math:`\eta (L + \rho \lambda_{\max}(L_w)) < 2` for L-smooth losses; with all K nodes at weight 1
    :math:`\lambda_{\max} = K`, so ρ must shrink as K grows. A run whose step is outside that bound warns, once, with
    the number. Nodes that are late or away pull at nobody.

    Args:
        scale: ηρ.
        lr: η, the local step's.
        smoothness: L, where it is known. Default: 0, with which only the pull's own part is judged.

    Example:
        >>> pull = LaplacianPull(scale=0.05, lr=0.1)
        >>> pull.base, pull.message, pull.against
        ('x', 'x_start', 'x_start')
    """

    base: Literal["zero", "x", "x_start", "update"] = "x"
    message: Literal["x", "x_start", "update"] = "x_start"
    against: Literal["x", "x_start", "update"] | None = "x_start"
    scale: Positive = 5e-4
    lr: Positive = 0.01
    smoothness: NonNegative = 0.0

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("pull_warned", "scalar", "whether the warning about the step size has been given"),
    )

    def init(self, data: Data, env: Env) -> Data:
        """Check the part, and the step size on the graph as it is at first."""
        data = copy.copy(super().init(data, env))
        data.pull_warned = False
        return self._check_step(data, env)

    def __call__(self, data: Data, env: Env) -> Data:
        """Pull, and count the models that travelled."""
        return super().__call__(self._check_step(data, env), env)

    def _check_step(self, data: Data, env: Env) -> Data:
        """Warn, once in a run, if the step size is outside the bound."""
        rho = self.scale / self.lr

        def reach(eigenvalue: float) -> float:
            return self.lr * self.smoothness + self.scale * eigenvalue

        if data.pull_warned:
            return data
        sender, receiver = data.edge_index
        known = env.plane.tell(data.edge_weight, receiver)
        if reach(laplacian_bound(data.edge_index, known, data.num_nodes)) < 2:
            return data
        weight = known.masked_fill(~(data.present[sender] & data.present[receiver]), 0)
        largest = laplacian_radius(data.edge_index, weight, data.num_nodes)
        if reach(largest) < 2:
            return data
        warnings.warn(
            f"round {data.round}: lr (L + rho λ) = {self.lr:g} ({self.smoothness:g} + {rho:g} · {largest:g}) = "
            f"{reach(largest):.3g} is not below 2, the bound of stability (λ: the largest eigenvalue of the graph's "
            f"Laplacian): models may diverge; use rho below {max(2 / self.lr - self.smoothness, 0) / largest:.3g} or a "
            "smaller lr",
            RuntimeWarning,
            stacklevel=2,
        )
        data = copy.copy(data)
        data.pull_warned = True
        return data
