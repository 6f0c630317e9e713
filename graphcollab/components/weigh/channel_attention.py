"""Attention whose encoders are learned from validation losses: meta-L2C."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.device import beside, copies
from graphcollab._base.errors import ConflictError, DisconnectedError, MismatchError, MissingError
from graphcollab._base.piece import ALONE, Field, Origin, Readers, updated
from graphcollab._base.settings import Count
from graphcollab.comm.transport import Halo
from graphcollab.components.allowed import components, require_both_ways, without_the_alone
from graphcollab.components.at_work import crossing_edges, edges_in_use
from graphcollab.components.env import Env
from graphcollab.components.slots import Weigher, WeighNew
from graphcollab.components.weigh._encoding import Encoding
from graphcollab.engine import AdamW
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.nn import MixingEncoder
from graphcollab.nn.functional import edge_products
from graphcollab.nn.mixer_file import Form, Own, Score
from graphcollab.nn.mixing_encoder import ODDS

LARGEST = 3.0  # largest logarithm of a ratio of losses
FAST = 0.5  # largest change of log-odds in a round, so that no single round opens or closes a gate


@dataclass(frozen=True)
class ChannelAttention(Weigher):
    """Attention over channel-shared encodings of model changes.

    The encoders are learned from the validation losses of the mixed models, by the closed form for ∂L/∂w: the gradient
    flows through the weights only. All nodes share the encoders (an all-reduce). If edges were given, every connected
    component has its own, all from the same start and trained only by its nodes, which must reach each other in both
    directions. Frozen encoders are the same everywhere. Nodes at rest (see `Exchange`) send nothing and have weight 0;
    a node without neighbors does not take part. See `meta_l2c` and `MixingEncoder`.

    Args:
        part: Part of the model that is compared.
        hidden: Hidden units of an encoder (the paper's 10).
        out: Size of the code of a filter (the paper's 5).
        bias: Give the encoders biases; the paper leaves this open, see `MixingEncoder`.
        optimizer: Update of the encoders. Default: AdamW, lr 0.01, weight decay 0.01, which is decoupled, so its
            strength does not depend on that of the gradient, on K or on ``scale``. The paper uses Adam, lr 0.1, weight
            decay 0.01 (coupled).
        scale: ``"sum"``: every node's validation loss counts fully; ``"mean"``: eq. 6's average over nodes, with which
            coupled weight decay dominates the gradient and weights stay uniform. With decoupled decay it makes no
            difference to Adam. See docs/reproduction.md.
        score: Similarity of two codes; see `MixingEncoder`.
        normalize: Divide a layer's change by its root mean square before encoding.
        own: Weight of the own model; see `MixingEncoder`.
        pretrained: A `MixingEncoder`, its file, or the name of one that ships with the package
            (`graphcollab.nn.mixer_cards`), such as ``"digits"``, to start from; it defines sizes and form, so values
            other than the defaults must not be given beside it.
        frozen: Use pretrained encoders without training; nodes then need no validation samples.

    Shapes:
        Keeps ``mixer`` (with groups, if there are several components) and one ``mixer_<slot>`` per slot of the
        optimizer; writes ``edge_weight`` [E].

    Raises:
        ValueError: If frozen encoders are requested without pretrained ones, settings are given that pretrained ones
            define, or encoders are trained and one-way edges are given, without a reverse path.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("mixer", "replicated", "encoders: a `MixingEncoder`, of every component its own", "run"),
        Field("mixer_*", "replicated", "the state of the encoders' optimizer"),
        Field("mixer_step", "scalar", "steps of the encoders so far"),
        ALONE,
        Field("mixer_forces", "replicated", "norms of the encoders' gradient and of their decay, [2]", "round"),
    )
    origin: ClassVar[Origin] = "learned"  # by these nodes or, if it is frozen, by others
    travels: ClassVar[str] = "changes since the start along every edge (frozen: codes), and an all-reduce of encoders"
    shared: ClassVar[tuple[str, ...]] = ("part",)

    part: str = "all"
    hidden: Count = 10
    out: Count = 5
    bias: bool = True
    optimizer: RowOptimizer = field(default_factory=lambda: AdamW(lr=0.01, weight_decay=0.01))
    scale: Literal["sum", "mean"] = "sum"
    score: Score = "cosine"
    normalize: bool = True
    own: Own = "gate"
    pretrained: MixingEncoder | str | Path | None = field(default=None, repr=False)
    frozen: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen and self.pretrained is None:
            raise MissingError(
                "pretrained", "frozen encoders must have been trained: give `pretrained`, a MixingEncoder or its file"
            )
        if (mixer := self._pretrained()) is not None:
            self._take_form(mixer)

    @property
    def learns(self) -> bool:
        return not self.frozen

    @property
    def compares(self) -> bool:
        """Whether the local slot must train reference models alone, for comparison with mixed ones."""
        return self.learns and self.own == "gate"

    @property
    def beyond_edges(self) -> bool:
        return self.learns

    @property
    def needs(self) -> tuple[str, ...]:
        return () if self.frozen else ("val",)

    @property
    def given(self) -> Mapping[str, Tensor]:
        return {} if (mixer := self._pretrained()) is None else mixer.tensors

    def _pretrained(self) -> MixingEncoder | None:
        return MixingEncoder.load(self.pretrained) if isinstance(self.pretrained, str | Path) else self.pretrained

    def _take_form(self, mixer: MixingEncoder) -> None:
        for name, theirs in mixer.settings.items():
            given, usual = getattr(self, name), type(self).__dataclass_fields__[name].default
            if given not in (theirs, usual):
                raise ConflictError(
                    name,
                    f"{name}={given!r} was given, but the pretrained encoders have {name}={theirs!r}: leave it out",
                )
            object.__setattr__(self, name, theirs)

    @property
    def told(self) -> Readers:
        sums = "gradients of its encoders, and where a share of the own model is learned, validation losses"
        along = "how far its model is from the start"
        return {"listeners": along, "coordinator": sums} if self.learns else {"listeners": along}

    def init(self, data: Data, env: Env) -> Data:
        spec = data.x.specs[0]
        if (mixer := self._pretrained()) is None:
            form: Form = {"score": self.score, "normalize": self.normalize, "own": self.own}
            mixer = MixingEncoder.create(spec, self.part, self.hidden, self.out, self.bias, env.seed, **form)
        else:
            mixer.check(spec, self.part)
            if mixer.group is not None:
                raise MismatchError(
                    "pretrained",
                    "pretrained holds the encoders of several parts of a graph: give one, MixingEncoder.of(node)",
                )
        if mixer.own == "gate" and len(data.edge_index[0][data.edge_index[0] == data.edge_index[1]]) < data.num_nodes:
            raise DisconnectedError(
                "graph", "a share goes to the own model: give every node an edge to itself, prepare=WithSelfLoops()"
            )
        data = updated(data, mixer=mixer.to(data.x.device, data.x.dtype))
        if self.learns:
            require_both_ways(data, env, "nodes train encoders together with those they hear", by_path=True)
            data.mixer = data.mixer.for_groups(without_the_alone(components(data)))
            nothing = {name: torch.zeros_like(tensor) for name, tensor in data.mixer.tensors.items()}
            for slot in self.optimizer.slots:
                data[f"mixer_{slot}"] = data.mixer.with_tensors(nothing)
            if self.compares and "x_alone" not in data:
                raise ConflictError(
                    "own",
                    "own='gate' compares with models trained alone: give FitWithReference(Fit(...)), or own='largest'",
                )
        data.mixer_step = 0
        return data

    def hears(self, data: Data, env: Env) -> Sequence[Tensor]:
        return (self._change(data, env),)

    def __call__(self, data: Data, env: Env) -> Data:
        """With frozen encoders, codes cross every edge instead of changes."""
        halo, encoding = self._encoding(data.mixer, data, env)
        with torch.no_grad():
            code = encoding.codes()
            weight, width = self._attend(data.mixer, halo, code, data), code.shape[1]
        floats = data.x.part(self.part).shape[1] if self.learns else width
        data = env.plane.charge(data, data.edge_index[0], floats * crossing_edges(data))
        data.edge_weight = weight
        return data

    def for_newcomers(self, data: Data, edge_index: Tensor, names: Sequence[str]) -> WeighNew:
        """Return attention between the changes of newcomers and of all nodes since the run's start."""
        mixer = data.mixer.with_newcomers(edge_index, names)

        @torch.no_grad()
        def weigh(new: Data, env: Env, gradient: Callable[[Tensor], Tensor]) -> Tensor:
            x = new.x.part(self.part)
            origin = data.x_init.part(self.part)[:1]
            code = mixer.encode(torch.cat([data.x.part(self.part), x]) - origin, data.x.specs[0], self.part)
            logit = edge_products(code[-len(x) :], code, edge_index)
            return mixer.weigh(logit, edge_index, edge_index[0] >= data.num_nodes, len(x))

        return weigh

    def learn(self, data: Data, env: Env, gradient: Tensor) -> Data:
        before = updated(data, x=data.x_local)
        names, params = list(data.mixer.tensors), copies([*data.mixer.tensors.values()])
        halo, encoding = self._encoding(data.mixer, before, env)
        code, gradients = encoding.with_gradients()
        weight = self._attend(data.mixer, halo, code, before)
        del halo, encoding  # frees their rows as soon as the gradients no longer need them
        group = _groups(data)
        members = (data.trains & data.serves & (group >= 0)).nonzero().flatten()
        at_work = torch.bincount(group[members], minlength=data.num_nodes)[group]  # [K], M of every node's component
        if not bool(data.serves.all()):  # the gradients of late nodes are not waited for
            gradient = gradient.masked_fill(~data.serves[data.edge_index[1]], 0)
        if self.scale == "mean":
            gradient = gradient / at_work[data.edge_index[1]].clamp(min=1)
        known = env.plane.is_local(data.edge_index[1])
        losses = torch.zeros(2, data.mixer.num_groups, dtype=torch.float64)
        if data.mixer.gate is not None:
            losses = losses_of_groups(data, group, env.plane.local(members))
        (slope,) = torch.autograd.grad(weight[known], code, gradient[known])
        *grads, losses = env.plane.all_reduce(*gradients(slope), losses)
        moved, alone = moved_gates(data, group, losses, self.optimizer.lr)
        pull, size = (torch.stack(torch._foreach_norm(some)).norm() for some in (grads, params))
        state = {s: copies([*data[f"mixer_{s}"].tensors.values()]) for s in self.optimizer.slots}
        self.optimizer.update(params, grads, state, data.mixer_step)
        # all-reduce of the encoders: each of the M nodes at work sends 2 (M - 1) / M of their
        # parameters and, in place of a gate's gradient, of two sums of losses
        share = 2 * (at_work[members].double() - 1) / at_work[members]
        data = env.plane.charge(data, members, share * (data.mixer.num_parameters + self.compares))
        for name, tensors in (("mixer", params), *((f"mixer_{slot}", many) for slot, many in state.items())):
            data[name] = moved.with_tensors(dict(zip(names, tensors, strict=True)))
        data.mixer_step = data.mixer_step + 1
        if alone is not None:
            data.alone = alone
        data.mixer_forces = torch.stack([pull, self.optimizer.weight_decay * size])
        return data

    def _attend(self, mixer: MixingEncoder, halo: Halo, code: Tensor, data: Data) -> Tensor:
        """Return the weights of all edges, [E]."""
        logit = edge_products(code[: data.x.num_nodes], code, halo.edge_index)
        # only the edges whose logits are known here: a NaN would make the gate's gradient NaN
        edges, in_use = halo.take(data.edge_index.T).T, edges_in_use(data)
        in_use = None if in_use is None else halo.take(in_use)
        weight = mixer.weigh(logit, edges, edges[0] == edges[1], data.num_nodes, in_use, in_sparse(data))
        return halo.put(weight, data.edge_index.shape[1])

    def _change(self, data: Data, env: Env) -> Tensor:
        """Return every model's change since the start, [k, P_part]."""
        return env.plane.change(data.x.part(self.part), data.x_init.part(self.part))

    def _encoding(self, mixer: MixingEncoder, data: Data, env: Env) -> tuple[Halo, Encoding]:
        """Return the changes that travel, and their encoding at the receivers."""
        halo = env.plane.halo_exchange(self._change(data, env), data.edge_index)
        if not env.plane.complete:
            away = ~env.plane.there[halo.nodes]  # absent nodes, whose models have not changed
            halo = replace(halo, rows=halo.rows.masked_fill(beside(away, halo.rows)[:, None], 0))
        return halo, Encoding(env.engine, mixer, halo.rows, data.x.specs[0], self.part, halo.nodes)


def _groups(data: Data) -> Tensor:
    """Return the encoder group of every node, [K]; -1 for nodes that are alone."""
    return torch.zeros_like(data.node_id) if data.mixer.group is None else data.mixer.group


def losses_of_groups(data: Data, group: Tensor, members: Tensor) -> Tensor:
    """Return the sums of both kinds of validation losses of nodes, by encoder group, [2, G], float64."""
    mine = members[torch.isfinite(data.alone_loss[members])]
    nothing = torch.zeros(data.mixer.num_groups, dtype=torch.float64)
    return torch.stack(
        [nothing.index_add(0, group[mine], data[name][mine].double()) for name in ("val_loss", "alone_loss")]
    )


def moved_gates(data: Data, group: Tensor, losses: Tensor, lr: float) -> tuple[MixingEncoder, Tensor | None]:
    """Move gates according to how mixed models compare with models that hear no other node.

    Given every node's group, [K], -1 for none, and the result of `losses_of_groups`, [2, G], return the mixer, and the
    nodes that continue to compare, [K]; None without a gate.
    """
    if data.mixer.gate is None:
        return data.mixer, None
    shift = lr * (data.mixer_step + 1) * against_alone(*losses)
    gates = (data.mixer.gate + shift.clamp(-FAST, FAST)).clamp(*ODDS)
    return replace(data.mixer, gate=gates), data.alone & (group >= 0) & (gates > ODDS[0])[group]


def against_alone(mixed: Tensor, alone: Tensor) -> Tensor:
    """Return log(L / L'), at most 3 in absolute value; 2 (L - L') / (|L| + |L'|) for losses not both above 0."""
    apart = torch.where(mixed == alone, 0, 2 * (mixed - alone) / (mixed.abs() + alone.abs()))
    ratio = (mixed / alone).log().clamp(-LARGEST, LARGEST)
    return torch.where((mixed > 0) & (alone > 0), ratio, apart)


def in_sparse(data: Data) -> Tensor | None:
    """Return which nodes are in a component in which not all nodes hear each other, [K]; None if there are none."""
    (sender, receiver), part, there = data.edge_index, components(data), ~data.isolated
    size = torch.bincount(part[there], minlength=data.num_nodes)[part]
    heard = torch.zeros_like(data.node_id).index_add_(0, receiver, (sender != receiver).long())
    few = there & (heard < size - 1)
    return torch.isin(part, part[few]) if bool(few.any()) else None
