"""`MixingEncoder`: meta-L2C's encoders and attention, as a value that can be saved, loaded and used elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.utils import scatter, softmax

from graphcollab._base.device import Movable, beside, pick
from graphcollab._base.errors import AmbiguousError, ConflictError, DisconnectedError, FormatError
from graphcollab._base.keyed import keyed_seed
from graphcollab._base.memory import new_rows
from graphcollab.engine.stack import ParamSpec
from graphcollab.nn.filters import filter_widths, layers_of, require_widths, root_mean_square
from graphcollab.nn.mixer_file import Form, Own, Score, misform, read_mixer, write_mixer

_MIXER_STREAM = 106
SPEED = 10.0  # learning rate factor of the log temperature, relative to encoder weights: about 0.1 at lr 0.01
SHUT = -4.0  # a gate's initial log-odds: 1.8 % of the weight goes to the own model before anything is learned
HALF = 0.5  # with this own weight, no eigenvalue of the weights is negative, for any graph (Gershgorin)
ODDS = (-6.0, 5.0)  # minimum log-odds, at which a gate is closed, and maximum


@dataclass(frozen=True)
class MixingEncoder(Movable):
    r"""Encode changes of models and weigh them: the same small network for every filter of a layer, then attention.

    From *Learning to Collaborate in Decentralized Learning of Personalized Models* (Li et al., CVPR 2022), eq. 4 to 8:

    .. math::
        \phi_l = [E_l(\theta_{l,1}), \dots, E_l(\theta_{l,C_l})], \qquad E(\theta) = [\phi_1, \dots, \phi_L], \qquad
        w_{ij} = \mathrm{softmax}_j \langle E(\theta_i), E(\theta_j) \rangle

    A filter is a row of a layer's flattened weight together with its bias. E_l is a two-layer network with biases and a
    ReLU in between. (The paper gives the output sizes 10 and 5, but does not specify activation and biases. Without
    biases, an unchanged model is encoded as 0.)

    The defaults of ``score``, ``normalize`` and ``own`` deviate from the paper: see `meta_l2c`.

    Args:
        widths: Length of a filter of every layer, by layer name. The number of filters may differ between uses.
        tensors: Parameters of the encoders, ``<layer>/weight1`` [hidden, width], ``weight2`` [out, hidden],
            and, with biases, ``bias1`` and ``bias2``; ``temperature``, 0-d, a tenth of the logarithm of the cosines'
            temperature; with groups, every name starts with ``<group>/``.
        group: Every node's group, [K], on the CPU, if disconnected parts of the graph have separate encoders; -1 for an
            isolated node, whose code is 0. None: all nodes share one.
        score: Similarity of two codes. ``"cosine"``: the mean over layers of their cosines, times a temperature
            :math:`T = e^{10 t}` with learned t; ``"scaled"``: inner products over √d for codes of length d;
            ``"product"``: inner products, as in the paper.
        normalize: Whether to divide a layer's change by its root mean square. False is the paper's.
        own: Weight of the own model. ``"gate"``: as much as the most similar in-neighbor, and a share p outside the
            softmax, w ← (1 − p) w + p, and at least one half if nodes are not all connected to each other;
            ``"largest"``: without p; ``"softmax"``: as in the paper.
        gate: Log-odds of the share for the own model, of every group, [number of groups], float64 on the CPU, if there
            is a gate; between -6 and 5 when learned. Default: -4, a share of 1.8 %.

    Example:
        >>> spec = ParamSpec.from_module(torch.nn.Linear(3, 2))
        >>> mixer = MixingEncoder.create(spec, seed=0)
        >>> mixer.encode(torch.zeros(7, 8), spec).shape
        torch.Size([7, 10])
    """

    widths: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    group: Tensor | None = None
    score: Score = "cosine"
    normalize: bool = True
    own: Own = "gate"
    gate: Tensor | None = None

    def __post_init__(self) -> None:
        if problem := misform(self.form):
            raise FormatError("form", f"a mixer's form: {problem}")
        if self.own == "gate" and self.gate is None:  # not yet trained
            object.__setattr__(self, "gate", torch.full((self.num_groups,), SHUT, dtype=torch.float64))

    @classmethod
    def create(
        cls,
        spec: ParamSpec,
        part: str = "all",
        hidden: int = 10,
        out: int = 5,
        bias: bool = True,
        seed: int = 0,
        **form: Unpack[Form],
    ) -> MixingEncoder:
        """Draw the encoders of a part's layers, each uniform in ±1/√fan-in like ``torch.nn.Linear``."""
        generator = torch.Generator().manual_seed(keyed_seed(_MIXER_STREAM, seed) % 2**63)
        widths, tensors = filter_widths(spec, part), {}
        for layer, width in widths.items():
            sizes: dict[str, tuple[int, ...]] = {"weight1": (hidden, width), "weight2": (out, hidden)}
            if bias:
                sizes |= {"bias1": (hidden,), "bias2": (out,)}
            for name, size in sizes.items():
                bound = 1 / math.sqrt(width if name.endswith("1") else hidden)
                tensors[f"{layer}/{name}"] = (torch.rand(size, generator=generator) * 2 - 1) * bound
        if form.get("score", cls.score) == "cosine":
            tensors["temperature"] = torch.zeros(())
        return cls(widths, tensors, **form)

    @property
    def form(self) -> Form:
        """The form of the computation with the encoders."""
        return {"score": self.score, "normalize": self.normalize, "own": self.own}

    @property
    def settings(self) -> dict[str, Any]:
        """The creation settings: the form, the sizes of the encoders, and whether they have biases."""
        layer = next(iter(self.widths))
        name = layer if self.group is None else f"0/{layer}"
        out, hidden = self.tensors[f"{name}/weight2"].shape
        return {**self.form, "hidden": hidden, "out": out, "bias": f"{name}/bias1" in self.tensors}

    def check(self, spec: ParamSpec, part: str = "all") -> None:
        """Check that the encoders fit an architecture; a ValueError names a missing layer or another length."""
        require_widths(self.widths, spec, part)

    def encode(self, change: Tensor, spec: ParamSpec, part: str = "all", nodes: Tensor | None = None) -> Tensor:
        """Encode changes of models [k, P_part] as [k, Σ_l out C_l], so that inner products of codes are logits.

        Each change is encoded by its node's encoders; ``nodes`` [k] are these nodes. Default: nodes 0 to k - 1.
        """
        if self.group is not None:
            group = self.group if nodes is None else self.group[nodes]
            rows = [(group == g).nonzero().flatten() for g in range(self.num_groups)]
            codes = [self._of_group(g).encode(pick(change, some), spec, part) for g, some in enumerate(rows)]
            zeros = codes[0].new_zeros(len(change), codes[0].shape[1])
            return zeros.index_copy(0, beside(torch.cat(rows), change), torch.cat(codes))
        codes = []
        for layer, (channels, pieces) in layers_of(spec, part).items():
            first, second = (self.tensors[f"{layer}/weight{n}"] for n in (1, 2))
            bias1, bias2 = (self.tensors.get(f"{layer}/bias{n}") for n in (1, 2))
            code: Tensor | float = 0.0 if bias1 is None else bias1
            offset = 0
            norm = root_mean_square(change, channels, pieces)[:, None, None] if self.normalize else None
            for start, width in pieces:
                # [K, C, width] @ [width, hidden]
                filters = change[:, start : start + channels * width].unflatten(1, (channels, width))
                if norm is not None:
                    filters = torch.div(filters, norm, out=new_rows(filters, *filters.shape))
                code = code + F.linear(filters, first[:, offset : offset + width])
                offset += width
            code = F.linear(torch.as_tensor(code).relu(), second, bias2).flatten(1)
            codes.append(F.normalize(code, dim=1) if self.score == "cosine" else code)
        whole = torch.cat(codes, 1)
        if self.score == "cosine":  # each of the L layers contributes 1 / L
            return whole * (SPEED * self.tensors["temperature"] / 2).exp() / math.sqrt(len(self.widths))
        return whole / whole.shape[1] ** 0.25 if self.score == "scaled" else whole

    def weigh(
        self,
        logit: Tensor,
        edge_index: Tensor,
        own: Tensor,
        num_nodes: int,
        in_use: Tensor | None = None,
        sparse: Tensor | None = None,
    ) -> Tensor:
        """Return the aggregation weights, [E], on the CPU.

        Args:
            logit: Inner products of the codes of sender and receiver, [E].
            edge_index: Edges, [2, E]; the receivers are the last ``num_nodes`` of the encoded nodes.
            own: Mask of self-loops, [E].
            num_nodes: Number of receivers.
            in_use: Mask of active edges, [E]; others have weight 0. Default: all.
            sparse: Receivers whose own model gets at least one half, [num_nodes]; ignored with ``"softmax"``. Default:
                none.
        """
        receiver, kind = edge_index[1], logit.dtype
        weight = attend(logit, receiver, own, num_nodes, in_use, level=self.own != "softmax")
        if self.gate is not None:
            share = self.shares().to(kind)  # [1] if all nodes share one
            if self.group is not None:
                share = share[self.group[-num_nodes:].clamp(min=0)].index_select(0, receiver)
            weight = weight + share * (own.to(kind) - weight)
        if self.own == "softmax" or sparse is None:
            return weight
        return raise_own(weight, receiver, own, HALF * sparse.to(kind))

    def shares(self) -> Tensor:
        """Return the share of own models outside the softmax, for every group, [number of groups]."""
        return torch.zeros(self.num_groups) if self.gate is None else torch.sigmoid(self.gate)

    @property
    def num_groups(self) -> int:
        """Number of groups with separate encoders."""
        return 1 if self.group is None else max(int(self.group.max()) + 1, 1)

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the encoders that a node uses."""
        return sum(tensor.numel() for tensor in self.tensors.values()) // self.num_groups + (self.gate is not None)

    def for_groups(self, group: Tensor) -> MixingEncoder:
        """Give every group [K] these encoders as initial values; return the mixer itself if there is only one group."""
        if not bool(group.any()):
            return self
        count = max(int(group.max()) + 1, 1)
        tensors = {f"{g}/{n}": t for g in range(count) for n, t in self.tensors.items()}
        return replace(self, tensors=tensors, group=group, gate=None if self.gate is None else self.gate.repeat(count))

    def of(self, node: int | None = None) -> MixingEncoder:
        """Return a node's mixer, or the only one; a ValueError if the node is isolated, or if there are several."""
        if self.group is None:
            return self
        if node is None:
            if self.num_groups > 1:
                parts = f"{self.num_groups} parts of the graph, which are not connected, trained a mixer each"
                raise AmbiguousError("node", f"{parts}: say whose is to be saved by node=...")
            return self._of_group(0)
        if int(self.group[node]) < 0:
            raise DisconnectedError(
                f"node {node}", f"node {node} has no neighbors, and so no encoders: choose a node that has some"
            )
        return self._of_group(int(self.group[node]))

    def _of_group(self, group: int) -> MixingEncoder:
        prefix = f"{group}/"
        tensors = {n[len(prefix) :]: t for n, t in self.tensors.items() if n.startswith(prefix)}
        return replace(self, tensors=tensors, group=None, gate=None if self.gate is None else self.gate[group][None])

    def with_newcomers(self, edge_index: Tensor, names: Sequence[str]) -> MixingEncoder:
        """Return the mixer of these nodes and their newcomers; every newcomer uses that of its in-neighbors.

        Arguments and errors are those of ``groups_of_newcomers``.
        """
        if self.group is None:
            return self
        if self.num_groups == 1:  # the other nodes are isolated
            return replace(self, group=self.group.new_zeros(len(names)))
        return replace(self, group=groups_of_newcomers(self.group, edge_index, names))

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> MixingEncoder:
        """Return the mixer with new parameters."""
        return replace(self, tensors=dict(tensors))

    def to(self, *args: object, **kwargs: object) -> MixingEncoder:
        return self.with_tensors({n: t.to(*args, **kwargs) for n, t in self.tensors.items()})  # type: ignore[call-overload]

    def clone(self) -> MixingEncoder:
        """Copy the tensors, as required by ``Data.clone``."""
        copied = self.with_tensors({n: t.clone() for n, t in self.tensors.items()})
        return copied if self.group is None else replace(copied, group=self.group.clone())

    def save(self, path: str | Path) -> Path:
        """Write a mixer as safetensors, atomically; with several groups, save that `of` a node instead."""
        mixer = self.of()
        gate = {} if mixer.gate is None else {"gate": mixer.gate[0]}
        return write_mixer(path, self.widths, self.form, {**mixer.tensors, **gate})

    @classmethod
    def load(cls, path: str | Path) -> MixingEncoder:
        """Read a mixer from its file, or a bundled one by name (`mixer_cards`); nothing is executed.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is not a mixer's file, or has a format that this version does not support.
        """
        widths, form, tensors = read_mixer(path)
        gate = tensors.pop("gate")[None].double() if form["own"] == "gate" else None
        return cls(widths, tensors, **form, gate=gate)


def attend(
    logit: Tensor, receiver: Tensor, own: Tensor, num_nodes: int, in_use: Tensor | None = None, level: bool = False
) -> Tensor:
    """Return the softmax of logits over every receiver's edges, [E]; arguments are those of `MixingEncoder.weigh`.

    With ``level``, every own model's logit is the largest of the others'. A node without in-neighbors keeps all weight.
    """
    low = torch.finfo(logit.dtype).min
    if in_use is not None:
        logit = logit.masked_fill(~in_use, low)
    if level:
        best = scatter(logit.masked_fill(own, low), receiver, dim_size=num_nodes, reduce="max")
        logit = torch.where(own, best.masked_fill(best == low, 0).index_select(0, receiver), logit)
    return softmax(logit, receiver, num_nodes=num_nodes)


def raise_own(weight: Tensor, receiver: Tensor, own: Tensor, least: Tensor) -> Tensor:
    """Raise every own model's weight to at least the given value, [num_nodes], scaling down the others; return [E]."""
    have = scatter(weight.masked_fill(~own, 0), receiver, dim_size=len(least))
    lack = ((least - have) / (1 - have).clamp(min=torch.finfo(weight.dtype).eps)).clamp(min=0)
    return weight + lack.index_select(0, receiver) * (own.to(weight.dtype) - weight)


def groups_of_newcomers(known_group: Tensor, edge_index: Tensor, names: Sequence[str]) -> Tensor:
    """Return all nodes' groups, for newcomers that of their in-neighbors; a ValueError if these differ or are isolated.

    ``known_group`` is [K]; edges [2, E] lead from these nodes, then the newcomers, to newcomers, numbered from 0.
    """
    known = len(known_group)
    group = torch.cat([known_group, known_group.new_full((len(names) - known,), -1)])
    for node in range(known, len(names)):
        senders = edge_index[0, (edge_index[1] == node - known) & (edge_index[0] < known)]
        heard = known_group[senders].unique()
        if len(heard[heard >= 0]) > 1:
            one, two = (names[int((known_group == g).nonzero()[0])] for g in heard[heard >= 0][:2])
            raise ConflictError(
                f"node {names[node]!r}",
                f"{names[node]} would hear {one} and {two}, which have different mixers: restrict it by allowed=...",
            )
        if len(heard) and int(heard[0]) < 0:
            lone = names[int(senders[known_group[senders] < 0][0])]
            raise ConflictError(
                f"node {names[node]!r}",
                f"{names[node]} would hear {lone}, which has no mixer: leave it out by allowed=...",
            )
        group[node] = heard[0] if len(heard) else -1
    return group
