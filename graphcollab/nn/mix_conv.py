"""`MixConv`: the aggregation of models as a PyG layer, used by every exchange for mixing."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import MessagePassing

from graphcollab.nn.functional import mix
from graphcollab.nn.functional.structure import Structure, require_plain

_STEPS = ("message", "aggregate", "update")
_HOOKS = [
    f"_{step}_forward_{when}hooks"
    for step in ("propagate", "message", "aggregate", "message_and_aggregate")
    for when in ("pre_", "")
]


class MixConv(MessagePassing):
    r"""Weighted sum of senders' rows at every receiver.

    .. math::
        y_i = b_i + \sum_{j \to i} w_{ij} (x_j - a_i)

    It is one fused ``propagate`` over a bipartite graph; see `mix`. Messages, [E, P], are built only if an explanation
    or a hook needs them, or if a subclass overrides ``message``, ``aggregate`` or ``update``.

    Args:
        kernel: ``"compiled"``, ``"triton"``, ``"dense"``, ``"csr"`` or ``"scatter"``, see `mix`.
            Default: chosen by the rows and density.

    Shapes:
        - x: [K, P], or a pair (x_src [S, P], x_dst) where only the number of receivers of x_dst is used.
        - edge_index: [2, E], sender j in row 0, receiver i in row 1, also an ``EdgeIndex``; edge_weight: [E], the
          weight of j at i.
        - base, against: b and a, one row per receiver, [D, P]; by default 0.
        - Output: [K, P] or [D, P].

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1], [1, 1]])
        >>> MixConv()(torch.tensor([[2.0], [4.0]]), edge_index, torch.tensor([0.25, 0.75])).tolist()
        [[0.0], [3.5]]
    """

    def __init__(self, kernel: str | None = None) -> None:
        super().__init__(aggr="add")
        self.kernel = kernel
        self._fused = all(getattr(type(self), name) is getattr(MixConv, name) for name in _STEPS)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: Tensor,
        edge_weight: Tensor,
        size: tuple[int, int] | None = None,
        base: Tensor | None = None,
        against: Tensor | None = None,
    ) -> Tensor:
        """Return the mixed rows; ``size`` is the number of senders and receivers, by default inferred from ``x``."""
        source, target = x if isinstance(x, tuple) else (x, x)
        require_plain(source, edge_weight)
        if size is None:
            size = (len(source), len(source) if target is None else len(target))
        terms = {"x": (source, target), "edge_weight": edge_weight, "against": (None, against)}
        return self.propagate(edge_index, size=size, **terms, base=base)

    def propagate(self, edge_index: Tensor, size: Any = None, **kwargs: Any) -> Tensor:
        """Aggregate in one step, or by messages if something inspects them; then add the base."""
        if self._fused and not (self.explain or any(getattr(self, name) for name in _HOOKS)):
            return self.message_and_aggregate(Structure.from_edges(edge_index, size), **kwargs)
        base = kwargs.pop("base")
        mixed: Tensor = super().propagate(edge_index, size=size, **kwargs)
        return mixed if base is None else mixed + base

    def message(self, x_j: Tensor, edge_weight: Tensor, against_i: Tensor | None) -> Tensor:
        """Return one message per edge, [E, P]: the definition; the fused path never builds it."""
        return edge_weight[:, None] * (x_j if against_i is None else x_j - against_i)

    def message_and_aggregate(
        self,
        edge_index: Structure,
        x: tuple[Tensor, Tensor | None],
        edge_weight: Tensor,
        against: tuple[None, Tensor | None],
        base: Tensor | None,
    ) -> Tensor:
        return mix(x[0], edge_weight, edge_index, kernel=self.kernel, base=base, against=against[1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel={self.kernel!r})"
