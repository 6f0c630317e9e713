"""The exchange slot, filled by a PyTorch Geometric layer."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab._base.device import beside
from graphcollab._base.errors import ContractError, InvalidTypeError, UnsupportedError
from graphcollab._base.piece import Readers, updated
from graphcollab.components.env import Env
from graphcollab.components.exchange.exchange import term
from graphcollab.components.exchange.route import AlongEdges
from graphcollab.components.slots import Exchanger
from graphcollab.nn.functional.by_receiver import receives
from graphcollab.nn.mix_conv import MixConv

_ROUTE = AlongEdges()
_WEIGHTS = ("edge_weight", "edge_attr")  # names of the argument in layers


@dataclass(frozen=True)
class Layer(Exchanger):
    r"""A base plus the output of a PyTorch Geometric layer on the messages along the edges.

    .. math::
        x_i \leftarrow b_i + \operatorname{layer}(m, \mathcal E, w)_i

    With `MixConv`, the default, it equals `Exchange`. (PyG's ``SimpleConv(aggr="median")`` multiplies by weights before
    it takes the median; the layer in the example takes the median of models.) A layer is called as ``layer((m_src,
    m_dst), edge_index, edge_weight=w)``, or ``edge_attr=w``, with the messages of the senders, [S, P], those of the
    receivers, [D, P], the edges between them, [2, E], and their weights, [E]; it returns [D, P]. It is in evaluation
    mode, and its output for a receiver may depend on this receiver's edges only, since processes and sites have no
    others.

    Edges of weight 0 are left out, so their weights get no gradient. A node without other edges keeps its model.
    Weights are learned by autograd through any layer that uses them.

    Args:
        layer: The layer. It is copied; its parameters must be frozen, since they are not trained.
        base: b, ``"zero"`` or one of the messages.
        message: m, ``"x"`` (after the local update), ``"x_start"`` (before it) or ``"update"`` (x − x_start).
        part: Part of the model that is exchanged; the rest stays with the node, and so do buffers.

    Raises:
        ValueError: If a parameter of the layer requires gradients, or, at the start of a run, the layer does not
            return a row per receiver.

    Example:
        >>> from torch_geometric.nn import MessagePassing
        >>> class Median(MessagePassing):
        ...     def forward(self, x, edge_index, edge_weight):
        ...         return self.propagate(edge_index, x=x)
        >>> exchange = Layer(Median(aggr="median"))
    """

    layer: nn.Module = field(default_factory=MixConv)
    base: Literal["zero", "x", "x_start", "update"] = "zero"
    message: Literal["x", "x_start", "update"] = "x"
    part: str = "all"

    along_edges: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("part",)
    told: ClassVar[Readers] = {"listeners": "the part of its model that is mixed"}
    travels: ClassVar[str] = AlongEdges.travels

    def __post_init__(self) -> None:
        super().__post_init__()
        trained = [name for name, value in self.layer.named_parameters() if value.requires_grad]
        if trained:
            raise ContractError(
                "layer",
                f"nothing trains the parameter {trained[0]!r} here: freeze the layer by requires_grad_(False)",
            )
        object.__setattr__(self, "layer", copy.deepcopy(self.layer).eval())

    @property
    def serves_start(self) -> bool:
        return self.message in ("x_start", "update")

    @property
    def given(self) -> Mapping[str, Tensor]:
        return self.layer.state_dict()

    def init(self, data: Data, env: Env) -> Data:
        row = data.x.part(self.part)[:1]
        try:
            found = self._tried(row, torch.ones(1))
        except (TypeError, ValueError, RuntimeError, AssertionError, LookupError) as error:
            raise ContractError(
                "layer",
                f"{type(self.layer).__name__} fails as layer((m_src, m_dst), edge_index, edge_weight) with messages "
                f"[1, {row.shape[1]}] of {row.dtype} and one edge: {type(error).__name__}: {error}",
            ) from error
        if found.shape != row.shape or found.dtype != row.dtype:
            raise ContractError(
                "layer",
                f"{type(self.layer).__name__} returns {list(found.shape)} of {found.dtype} for one receiver, expected "
                f"[1, {row.shape[1]}] of {row.dtype}, as the messages are",
            )
        return data

    def require_weights(self, data: Data) -> None:
        """Check that the layer uses weights, for a method that learns them."""
        with torch.enable_grad():
            found = self._tried(data.x.part(self.part)[:1], torch.ones(1, requires_grad=True))
        if not found.requires_grad:
            raise UnsupportedError(
                "layer", f"{type(self.layer).__name__} does not use edge weights, so none can be learned"
            )

    def _tried(self, row: Tensor, weight: Tensor) -> Tensor:
        return call_layer(self.layer, row, row, torch.zeros(2, 1, dtype=torch.int64), weight)

    def hears(self, data: Data, env: Env) -> Sequence[Tensor]:
        return [term(data, env, self.message, self.part)]

    def __call__(self, data: Data, env: Env) -> Data:
        ways = _ROUTE.ways(data)
        alone = ~receives(ways.weight != 0, ways.edge_index[1], data.num_nodes)
        ways = ways._replace(keeps=alone if ways.keeps is None else alone | ways.keeps)
        mixed = self._mixed(data, env, ways.weight)
        before = data.x
        new = ways.unless_kept(env, mixed, before.part(self.part))
        data = _ROUTE.charge(data, env, ways, mixed.shape[1])
        return updated(data, x=before.with_part(self.part, new), x_local=before)

    def shares(self, data: Data) -> Tensor:
        return _ROUTE.shares(data)[0]

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """Computed by autograd; only valid in the round of the exchange."""
        sent = updated(data, x=data.x_local, edge_weight=data.edge_weight.detach().requires_grad_())
        with torch.enable_grad():
            mixed = self._mixed(sent, env, _ROUTE.shares(sent)[0])
            (gradient,) = torch.autograd.grad(mixed, sent.edge_weight, cotangent)
        return gradient

    def _mixed(self, data: Data, env: Env, weight: Tensor) -> Tensor:
        rows = term(data, env, self.message, self.part)
        mixed = env.plane.mix(rows, weight, data.edge_index, layer=partial(call_layer, self.layer))
        return mixed if self.base == "zero" else mixed + term(data, env, self.base, self.part)


def call_layer(layer: nn.Module, messages: Tensor, own: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    """Return the output of a layer on messages [S, P], the receivers' own [D, P] first.

    Edges of weight 0 are left out; receivers without other edges get a self-loop, as layers may fail without one.
    """
    names = inspect.signature(layer.forward).parameters
    name = next((name for name in _WEIGHTS if name in names), None)
    if name is None:
        raise InvalidTypeError("layer", f"it takes neither {' nor '.join(_WEIGHTS)}, but {', '.join(names)}")
    used = weight.detach() != 0
    alone = (~receives(used, edge_index[1], len(own))).nonzero().flatten()
    edges = torch.cat([edge_index[:, used], alone.expand(2, -1)], 1)
    weight = torch.cat([weight[used], weight.new_ones(len(alone))]).to(own.dtype)
    given = {name: beside(weight, own)}
    found: Tensor = layer.to(own.device)((messages, own), beside(edges, own), **given)
    return found
