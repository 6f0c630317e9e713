"""`Mixer`: the channel-shared encoders of meta-L2C, as a value that can be saved, loaded and used elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional as F

from graphcollab.device import beside, pick
from graphcollab.files import write_whole
from graphcollab.keyed import keyed_seed
from graphcollab.stack import ParamSpec

__all__ = ["Mixer"]

_MIXER_STREAM = 106
FORMAT = "graphcollab-mixer-1"

Piece = tuple[int, int]
Layers = dict[str, tuple[int, list[Piece]]]


@dataclass(frozen=True)
class Mixer:
    r"""Encodes a change of a model: the same small network on every filter of a layer (eq. 7 and 8 of L2C).

    .. math::
        \phi_l = [E_l(\theta_{l,1}), \dots, E_l(\theta_{l,C_l})], \qquad E(\theta) = [\phi_1, \dots, \phi_L]

    A filter is a row of a layer's flattened weight together with its bias. E_l is a two-layer network with a ReLU
    between, with biases. (The paper gives the output sizes 10 and 5 and leaves activation and biases open. Without
    biases a model that has not changed is encoded as 0, and untrained encoders already rank similar nodes first; but
    all weights zero is then a fixed point, into which weight decay pulls encoders whose gradients are small.)

    Parts of the graph that are not connected train encoders of their own: groups of nodes.

    Args:
        widths: Length of a filter of every layer, by layer name. The number of filters may differ where it is used.
        tensors: Parameters of the encoders, ``<layer>/weight1`` [hidden, width], ``weight2`` [out, hidden],
            and where they have biases ``bias1`` and ``bias2``; with groups every name begins with ``<group>/``.
        group: Every node's group, [K], on the CPU; -1 of a node that is alone, whose code is 0. None: all nodes share
            one.

    Example:
        >>> spec = ParamSpec.from_module(torch.nn.Linear(3, 2))
        >>> mixer = Mixer.create(spec, seed=0)
        >>> mixer.encode(torch.zeros(7, 8), spec).shape
        torch.Size([7, 10])
        >>> mixer.for_groups(torch.tensor([0, 1, 0, 1, -1])).encode(torch.zeros(5, 8), spec).shape
        torch.Size([5, 10])
    """

    widths: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    group: Tensor | None = None

    @classmethod
    def create(
        cls, spec: ParamSpec, part: str = "all", hidden: int = 10, out: int = 5, bias: bool = True, seed: int = 0
    ) -> Mixer:
        """Draw the encoders of a part's layers, each uniform in ±1/√fan-in as ``torch.nn.Linear`` does."""
        generator = torch.Generator().manual_seed(keyed_seed(_MIXER_STREAM, seed) % 2**63)
        widths, tensors = _widths(spec, part), {}
        for layer, width in widths.items():
            sizes: dict[str, tuple[int, ...]] = {"weight1": (hidden, width), "weight2": (out, hidden)}
            if bias:
                sizes |= {"bias1": (hidden,), "bias2": (out,)}
            for name, size in sizes.items():
                bound = 1 / math.sqrt(width if name.endswith("1") else hidden)
                tensors[f"{layer}/{name}"] = (torch.rand(size, generator=generator) * 2 - 1) * bound
        return cls(widths, tensors)

    def check(self, spec: ParamSpec, part: str = "all") -> None:
        """Check that the encoders fit an architecture.

        Raises:
            ValueError: If a layer is missing or its filters have another length; the layer is named.
        """
        wanted = _widths(spec, part)
        for layer, width in wanted.items():
            if layer not in self.widths:
                raise ValueError(f"the mixer has no encoder for layer {layer!r}; it knows {sorted(self.widths)}")
            if self.widths[layer] != width:
                raise ValueError(
                    f"layer {layer!r} has filters of {width} numbers, the mixer was trained on filters of "
                    f"{self.widths[layer]}: it transfers between architectures whose filters have the same shape"
                )
        if unused := sorted(set(self.widths) - set(wanted)):
            raise ValueError(f"the mixer has encoders for layers {unused}, which this architecture does not have")

    def encode(self, change: Tensor, spec: ParamSpec, part: str = "all", nodes: Tensor | None = None) -> Tensor:
        """Encode changes of models [k, P_part] as [k, Σ_l 5 C_l], each by its node's encoders; ``nodes`` [k]: whose."""
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
            for start, width in pieces:
                # [K, C, width] @ [width, hidden]
                filters = change[:, start : start + channels * width].unflatten(1, (channels, width))
                code = code + F.linear(filters, first[:, offset : offset + width])
                offset += width
            codes.append(F.linear(torch.as_tensor(code).relu(), second, bias2).flatten(1))
        return torch.cat(codes, 1)

    @property
    def num_groups(self) -> int:
        """Groups that have encoders of their own."""
        return 1 if self.group is None else max(int(self.group.max()) + 1, 1)

    @property
    def num_parameters(self) -> int:
        """Parameters of the encoders that a node uses."""
        return sum(tensor.numel() for tensor in self.tensors.values()) // self.num_groups

    def for_groups(self, group: Tensor) -> Mixer:
        """Give every group [K] these encoders to start from; the mixer itself where all nodes are one group."""
        if not bool(group.any()):
            return self
        count = max(int(group.max()) + 1, 1)
        return replace(
            self, tensors={f"{g}/{n}": t for g in range(count) for n, t in self.tensors.items()}, group=group
        )

    def of(self, node: int | None = None) -> Mixer:
        """Return the mixer that a node uses, or the only one.

        Raises:
            ValueError: If the node has none, since it is alone, or none is named and there are several.
        """
        if self.group is None:
            return self
        if node is None:
            if self.num_groups > 1:
                raise ValueError(
                    f"{self.num_groups} parts of the graph, which are not connected, trained a mixer each: say whose "
                    "is to be saved by node=..."
                )
            return self._of_group(0)
        if int(self.group[node]) < 0:
            raise ValueError(f"node {node} has no neighbours, and so no encoders: choose a node that has some")
        return self._of_group(int(self.group[node]))

    def _of_group(self, group: int) -> Mixer:
        prefix = f"{group}/"
        return Mixer(self.widths, {n[len(prefix) :]: t for n, t in self.tensors.items() if n.startswith(prefix)})

    def with_newcomers(self, edge_index: Tensor, names: Sequence[str]) -> Mixer:
        """Return the mixer of these nodes and of others who hear them: of every newcomer, that of those it hears.

        Args:
            edge_index: Edges from these nodes (then the newcomers) to newcomers, who are numbered from 0, [2, E].
            names: Names of all nodes.

        Raises:
            ValueError: If a newcomer hears nodes of different groups, or one that is alone.
        """
        if self.group is None:
            return self
        if self.num_groups == 1:  # the others are alone
            return replace(self, group=self.group.new_zeros(len(names)))
        known = len(self.group)
        group = torch.cat([self.group, self.group.new_full((len(names) - known,), -1)])
        for node in range(known, len(names)):
            senders = edge_index[0, (edge_index[1] == node - known) & (edge_index[0] < known)]
            heard = self.group[senders].unique()
            if len(heard[heard >= 0]) > 1:
                one, two = (names[int((self.group == g).nonzero()[0])] for g in heard[heard >= 0][:2])
                raise ValueError(
                    f"{names[node]} would hear {one} and {two}, which are not connected and learned different mixers: "
                    "say by allowed=... which part of the graph it joins"
                )
            if len(heard) and int(heard[0]) < 0:
                lone = names[int(senders[self.group[senders] < 0][0])]
                raise ValueError(
                    f"{names[node]} would hear {lone}, which is alone and has learned no mixer: leave it out by "
                    "allowed=..."
                )
            group[node] = heard[0] if len(heard) else -1
        return replace(self, group=group)

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Mixer:
        """Return the mixer with other parameters."""
        return replace(self, tensors=dict(tensors))

    def to(self, *args: object, **kwargs: object) -> Mixer:
        """Move the parameters to a device."""
        return self.with_tensors({n: t.to(*args, **kwargs) for n, t in self.tensors.items()})  # type: ignore[call-overload]

    def cpu(self) -> Mixer:
        """Move to the CPU, as ``Data.cpu`` asks."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Mixer:
        """Move to a GPU, as ``Data.cuda`` asks."""
        return self.to(torch.device("cuda") if device is None else device, non_blocking=non_blocking)

    def clone(self) -> Mixer:
        """Copy the tensors, as ``Data.clone`` asks."""
        copied = self.with_tensors({n: t.clone() for n, t in self.tensors.items()})
        return copied if self.group is None else replace(copied, group=self.group.clone())

    def save(self, path: str | Path) -> Path:
        """Write the mixer (of several groups not: that `of` a node) as safetensors, the whole file or none of it."""
        metadata, tensors = {"format": FORMAT, "widths": json.dumps(dict(self.widths))}, self.of().tensors
        return write_whole(path, save({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, metadata))

    @classmethod
    def load(cls, path: str | Path) -> Mixer:
        """Read a mixer; nothing in the file is executed.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is not a mixer's file.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no mixer at {path}: train one and save it with Mixer.save")
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except SafetensorError as error:
            raise ValueError(f"{path} is not a safetensors file: {error}") from error
        if metadata.get("format") != FORMAT:
            raise ValueError(f"{path} is not a mixer ({FORMAT}); its format is {metadata.get('format')!r}")
        try:
            widths = {str(layer): int(width) for layer, width in json.loads(metadata["widths"]).items()}
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged: its description cannot be read ({error!r})") from error
        if problem := _misfit(widths, tensors):
            raise ValueError(f"{path} is damaged: {problem}")
        return cls(widths, tensors)


def _misfit(widths: Mapping[str, int], tensors: Mapping[str, Tensor]) -> str | None:
    """Say which tensor of the encoders is missing, of another size than the others ask for, or too many."""
    biased = any(name.rpartition("/")[2].startswith("bias") for name in tensors)
    wanted = set()
    for layer, width in widths.items():
        names = [f"{layer}/{kind}" for kind in ("weight1", "weight2", *(("bias1", "bias2") if biased else ()))]
        wanted |= set(names)
        for name in names:
            if name not in tensors:
                return f"{name} is missing"
            if not tensors[name].is_floating_point():
                return f"{name} must hold real numbers, got {tensors[name].dtype}"
        for name in names[:2]:
            if tensors[name].dim() != 2:
                return f"{name} must be a matrix, got {list(tensors[name].shape)}"
        hidden, out = (len(tensors[name]) for name in names[:2])
        for name, size in zip(names, ([hidden, width], [out, hidden], [hidden], [out]), strict=False):
            if list(tensors[name].shape) != size:
                return f"{name} must be {size}, got {list(tensors[name].shape)}"
    extra = sorted(set(tensors) - wanted)
    return f"{extra[0]} belongs to no encoder" if extra else None


def layers_of(spec: ParamSpec, part: str) -> Layers:
    """List a part's layers: number of filters C, and (first column in the part, width) of every parameter of a filter.

    Parameters of one module whose first dimension agrees are the columns of its filters; a parameter that stands alone
    forms a layer of its own.
    """
    columns, start = spec.columns(part), 0
    groups: dict[str, list[tuple[str, int, Piece]]] = {}
    for name, size, shape in zip(spec.names, spec.sizes, spec.shapes, strict=True):
        if columns.start <= start < columns.stop:
            channels, width = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
            member = name, channels, (start - columns.start, width)
            groups.setdefault(name.rpartition(".")[0], []).append(member)
        start += size
    layers: Layers = {}
    for module, members in groups.items():
        if len({channels for _, channels, _ in members}) == 1:
            layers[module or "model"] = members[0][1], [piece for _, _, piece in members]
        else:
            layers |= {name: (channels, [piece]) for name, channels, piece in members}
    return layers


def _widths(spec: ParamSpec, part: str) -> dict[str, int]:
    return {layer: sum(width for _, width in pieces) for layer, (_, pieces) in layers_of(spec, part).items()}
