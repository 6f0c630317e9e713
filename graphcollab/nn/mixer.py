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

    Args:
        widths: Length of a filter of every layer, by layer name. The number of filters may differ where it is used.
        tensors: Parameters of the encoders, ``<layer>/weight1`` [hidden, width], ``weight2`` [out, hidden],
            and where they have biases ``bias1`` and ``bias2``.

    Example:
        >>> spec = ParamSpec.from_module(torch.nn.Linear(3, 2))
        >>> mixer = Mixer.create(spec, seed=0)
        >>> mixer.encode(torch.zeros(7, 8), spec).shape
        torch.Size([7, 10])
    """

    widths: Mapping[str, int]
    tensors: Mapping[str, Tensor]

    @classmethod
    def create(
        cls, spec: ParamSpec, part: str = "all", hidden: int = 10, out: int = 5, bias: bool = True, seed: int = 0
    ) -> Mixer:
        """Draw the encoders of a part's layers, each uniform in ±1/√fan-in as ``torch.nn.Linear`` does."""
        generator = torch.Generator().manual_seed(keyed_seed(_MIXER_STREAM, seed) % 2**63)
        widths, tensors = {}, {}
        for layer, (_, pieces) in layers_of(spec, part).items():
            widths[layer] = sum(width for _, width in pieces)
            sizes: dict[str, tuple[int, ...]] = {"weight1": (hidden, widths[layer]), "weight2": (out, hidden)}
            if bias:
                sizes |= {"bias1": (hidden,), "bias2": (out,)}
            for name, size in sizes.items():
                bound = 1 / math.sqrt(widths[layer] if name.endswith("1") else hidden)
                tensors[f"{layer}/{name}"] = (torch.rand(size, generator=generator) * 2 - 1) * bound
        return cls(widths, tensors)

    def check(self, spec: ParamSpec, part: str = "all") -> None:
        """Check that the encoders fit an architecture.

        Raises:
            ValueError: If a layer is missing or its filters have another length; the layer is named.
        """
        layers = layers_of(spec, part)
        for layer, (_, pieces) in layers.items():
            width = sum(w for _, w in pieces)
            if layer not in self.widths:
                raise ValueError(f"the mixer has no encoder for layer {layer!r}; it knows {sorted(self.widths)}")
            if self.widths[layer] != width:
                raise ValueError(
                    f"layer {layer!r} has filters of {width} numbers, the mixer was trained on filters of "
                    f"{self.widths[layer]}: it transfers between architectures whose filters have the same shape"
                )
        if unused := sorted(set(self.widths) - set(layers)):
            raise ValueError(f"the mixer has encoders for layers {unused}, which this architecture does not have")

    def encode(self, change: Tensor, spec: ParamSpec, part: str = "all", nodes: Tensor | None = None) -> Tensor:
        """Encode changes of models [K, P_part] as [K, Σ_l 5 C_l]; whose they are makes no difference here."""
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

    def of(self, node: int | None = None) -> Mixer:
        """Return a node's mixer: this one, which all share; `Mixers` are several."""
        return self

    def with_newcomers(self, edge_index: Tensor, names: Sequence[str]) -> Mixer:
        """Return the mixer of these nodes and of others who hear them: this one."""
        return self

    @property
    def num_parameters(self) -> int:
        """Parameters of all encoders."""
        return sum(tensor.numel() for tensor in self.tensors.values())

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Mixer:
        """Return the mixer with other parameters."""
        return replace(self, tensors=dict(tensors))

    def to(self, *args: object, **kwargs: object) -> Mixer:
        """Move to a device."""
        return self.with_tensors({n: t.to(*args, **kwargs) for n, t in self.tensors.items()})  # type: ignore[call-overload]

    def cpu(self) -> Mixer:
        """Move to the CPU, as ``Data.cpu`` asks."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Mixer:
        """Move to a GPU, as ``Data.cuda`` asks."""
        return self.to(torch.device("cuda") if device is None else device, non_blocking=non_blocking)

    def clone(self) -> Mixer:
        """Copy the tensors, as ``Data.clone`` asks."""
        return self.with_tensors({n: t.clone() for n, t in self.tensors.items()})

    def save(self, path: str | Path) -> Path:
        """Write the mixer as safetensors; the file is there whole or not at all."""
        metadata = {"format": FORMAT, "widths": json.dumps(dict(self.widths))}
        return write_whole(path, save({n: t.detach().cpu().contiguous() for n, t in self.tensors.items()}, metadata))

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
    groups: dict[str, list[tuple[str, int, tuple[int, ...]]]] = {}
    for name, size, shape in zip(spec.names, spec.sizes, spec.shapes, strict=True):
        if columns.start <= start < columns.stop:
            groups.setdefault(name.rpartition(".")[0], []).append((name, start - columns.start, shape))
        start += size
    layers: Layers = {}
    for module, members in groups.items():
        channels = {shape[0] if shape else 1 for _, _, shape in members}
        if len(channels) == 1:
            layers[module or "model"] = (channels.pop(), [(first, _width(shape)) for _, first, shape in members])
        else:
            layers.update(
                {name: (shape[0] if shape else 1, [(first, _width(shape))]) for name, first, shape in members}
            )
    return layers


def _width(shape: tuple[int, ...]) -> int:
    return math.prod(shape[1:]) if shape else 1
