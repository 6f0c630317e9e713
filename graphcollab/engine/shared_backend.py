"""The backend for adapters over a frozen base: one pass through the base for the samples of several nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab._base.errors import UnsupportedError
from graphcollab._base.typing import Embedded
from graphcollab.engine.backend import Key, Work
from graphcollab.engine.modules import embed_arguments, in_parts, positions_of
from graphcollab.engine.objective import Objective
from graphcollab.engine.plan import Plan
from graphcollab.engine.randomness import Stream, keyed_stream
from graphcollab.engine.samples import Batch
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import stacked_linear
from graphcollab.engine.stacked_backend import Leaves, StackedBackend

CPU_POSITIONS = 2**10  # enough for a core's matrix products; more exceed its caches
CUDA_POSITIONS = 2**14


class SharedBackend(StackedBackend):
    """Models of a chunk as one batch: their samples are concatenated for the module, a few rows at a time.

    It requires that only linear layers are trained, such as those of low-rank adapters, and that samples do not affect
    each other. Randomness inside layers is keyed per node, and drawn in the same way as in the loop.
    """

    name = "shared"

    def __init__(self, module: nn.Module, spec: ParamSpec, plan: Plan) -> None:
        super().__init__(module, spec, plan)
        layers = layers_of(self.module, spec)
        if isinstance(layers, str):
            raise UnsupportedError("backend", layers)
        self._layers = layers

    def _fit(self, new: Tensor, work: Work) -> tuple[dict[str, Tensor], Tensor]:
        feed = work.feed
        count = self._rows_at_once(new, feed.index.shape[2] * feed.num_views, feed.pool.inputs)
        losses = new.new_full((len(feed.schedule), len(new)), float("nan"))
        moments = {slot: torch.empty_like(values) for slot, values in work.state.items()}
        for start in range(0, len(new), count):
            some = slice(start, start + count)
            moved, seen = super()._fit(new[some], work.of(some))
            losses[: len(seen), some] = seen
            for slot, values in moved.items():
                moments[slot][some] = values
        return moments, losses

    def _forward(self, views: Leaves, inputs: Tensor, embed: bool = False) -> Any:
        named, shape = dict(zip(self.spec.names, views, strict=True)), (inputs.shape[0], inputs.shape[1])
        for layer, weight, bias in self._layers:
            own = None if bias is None else named[bias]
            layer.forward = partial(_by_model, shape, named[weight], own)  # type: ignore[method-assign]
        with self._autocast(inputs.device):
            found = self._whole(self.module(inputs.flatten(0, 1), **embed_arguments(embed)))
        return Embedded(*(_apart(part, shape) for part in found)) if embed else _apart(found, shape)

    def _gradient(
        self, flat: Tensor, batch: Batch, objective: Objective, key: Key | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = self._rows_at_once(flat, batch.inputs.shape[1], batch.inputs[0])
        found = []
        for start in range(0, len(flat), count):
            some = slice(start, start + count)
            own = None if key is None else (key[0], key[1][some], key[2])
            found.append(super()._gradient(flat[some], batch.of(some), objective, own))
        losses, gradients, rest = (torch.cat(parts) for parts in zip(*found, strict=True))
        return losses, gradients, rest

    def _outputs(self, flat: Tensor, inputs: Tensor, embed: bool) -> Any:
        pieces = -(-len(flat) // self._rows_at_once(flat, inputs.shape[1], inputs[0]))
        found = []
        for own, samples in zip(flat.tensor_split(pieces), inputs.tensor_split(pieces), strict=True):
            parts = samples.split(self.microbatch or samples.shape[1], 1)
            found.append(in_parts([self._forward(self._views(own), part, embed) for part in parts], embed, 1))
        return in_parts(found, embed, 0)

    def _rows_at_once(self, like: Tensor, length: int, samples: Tensor) -> int:
        parts = -(-length // (self.microbatch or length))
        return count_at_once(like, -(-length // parts) * positions_of(samples))

    def _streams(self, key: Key | None) -> list[Stream] | None:
        if key is None or not self.random:
            return None
        seed, node_id, round_ = key
        return [keyed_stream(seed, one, round_) for one in node_id.tolist()]


def layers_of(module: nn.Module, spec: ParamSpec) -> list[tuple[nn.Linear, str, str | None]] | str:
    """Return the linear layers (weight, bias) that contain all trainable parameters; else, in words, what others do."""
    if len(spec.names) > spec.num_named_parameters:
        return f"every node has its own {spec.names[spec.num_named_parameters]!r}, a buffer"
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    found: list[tuple[nn.Linear, str, str | None]] = []
    left = set(spec.names)
    for layer in module.modules():
        if type(layer) is nn.Linear and "forward" not in vars(layer):
            weight, bias = names[id(layer.weight)], None if layer.bias is None else names[id(layer.bias)]
            own = {weight, bias} - {None}
            if own <= set(spec.names):
                found.append((layer, weight, bias))
                left -= own
    return f"{min(left)!r} is trained, and is not of a linear layer" if left else found


def count_at_once(like: Tensor, positions: int) -> int:
    """Return the number of items with so many positions that best keeps a device busy, at least one."""
    return max(round((CPU_POSITIONS if like.device.type == "cpu" else CUDA_POSITIONS) / positions), 1)


def _by_model(shape: tuple[int, int], weight: Tensor, bias: Tensor | None, values: Tensor) -> Tensor:
    """Apply every model's layer to its samples: weight [r, out, in], bias [r, out], values [r * m, ..., in]."""
    return stacked_linear(_apart(values, shape), weight, bias).flatten(0, 1)


def _apart(values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return values [r * m, ...] as [r, m, ...]."""
    if len(values) != shape[0] * shape[1]:
        raise UnsupportedError(
            "model", f"a layer has {len(values)} of {shape[0] * shape[1]} samples, and nobody knows whose they are"
        )
    return values.unflatten(0, shape)
