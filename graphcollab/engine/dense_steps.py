"""Local steps of chains of linear layers on the CPU, by a compiled kernel, if the package was built with one.

It takes all steps of a row consecutively, so that its weights stay in the cache, and updates weights while computing
their gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphcollab._base.errors import RangeError
from graphcollab._base.memory import address
from graphcollab._base.threads import share, threads_here
from graphcollab.engine.losses import Loss, cross_entropy
from graphcollab.engine.objective import Objective
from graphcollab.engine.optimizer import SGD, RowOptimizer
from graphcollab.engine.samples import Feed
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import Chain, elementwise, flatten, linear

try:
    _chain: Any = import_module("graphcollab.engine._chain")
except ImportError:
    _chain = None

INSTRUCTIONS: list[str] = _chain.instructions() if _chain else []
"""The instruction sets of this machine, the best one last; empty without the compiled kernel."""

KINDS = {torch.float32: 0, torch.float64: 1}
MOST_LAYERS = 64
MOST_SAMPLES = 64  # per batch: from about twice as many on, PyTorch's matrix products are equally fast
LARGE_STEP = 2**24  # multiplications in a row's step above which threads should share a single row
FEW_NUMBERS = 2**18  # with fewer multiplications, distributing rows costs more than computing them
PIECES = 8  # of the rows per thread, so that a busy core does not delay the others


class Dense(NamedTuple):
    """A linear layer: the offsets of its weight [out, in] and bias [out] in a row (-1: none), and if ReLU follows."""

    weight: int
    bias: int
    inputs: int
    outputs: int
    relu: bool


def dense_layers(chain: Chain | None, spec: ParamSpec) -> tuple[Dense, ...] | None:
    """Return the layers of a chain of trainable linear layers and ReLU, which may start with flattening, else None."""
    layers: list[Dense] = []
    starts = dict(zip(spec.names, itertools.accumulate(spec.sizes, initial=0), strict=False))
    shapes = dict(zip(spec.names, spec.shapes, strict=True))
    for step in () if chain is None else chain.steps:
        if step.func is linear:
            weight, bias = step.args
            if weight not in starts or (bias and bias not in starts):
                return None  # frozen
            outputs, inputs = shapes[weight]
            if outputs < 1 or (bias and shapes[bias] != (outputs,)) or (layers and layers[-1].outputs != inputs):
                return None  # the layer's own parameter was replaced by another one
            layers.append(Dense(starts[weight], -1 if bias is None else starts[bias], inputs, outputs, False))
        elif step.func is elementwise and isinstance(step.args[0], nn.ReLU) and layers:
            layers[-1] = layers[-1]._replace(relu=True)
        elif not (step.func is flatten and not layers):
            return None
    return tuple(layers) if 0 < len(layers) <= MOST_LAYERS and not layers[-1].relu else None


def take_dense_steps(
    layers: Sequence[Dense],
    new: Tensor,
    feed: Feed,
    optimizer: RowOptimizer,
    objective: Objective,
    instructions: str | None = None,
) -> Tensor | None:
    """Take all local steps of rows [r, columns] in place; return the loss at every step [S, r], NaN for no step.

    Return None, without changes, if the kernel does not support the arguments or is slower, which depends on the
    longest batch of all rows and on several threads. Apart from that, a row's numbers depend on neither.
    """
    if not _fits(layers, new, feed, optimizer, objective):
        return None
    count = min(len(feed.pool.inputs), len(feed.pool.targets))
    if feed.index.numel() and not 0 <= int(feed.index.min()) <= int(feed.index.max()) < count:
        raise RangeError("schedule", f"a sample is not in the pool: expected positions 0 to {count - 1}")
    index, sizes, targets = feed.index.contiguous(), feed.schedule.size.contiguous(), feed.pool.targets.contiguous()
    (rows, steps, width), inputs = index.shape, feed.pool.inputs
    losses = new.new_full((steps, rows), float("nan"))
    told = torch.tensor(layers, dtype=torch.int64).numpy().tobytes()
    name = instructions or INSTRUCTIONS[-1], KINDS[new.dtype]
    models = address(new), new.stride(0), rows
    samples = *map(address, (inputs, targets, index, sizes)), steps, width
    settings = address(losses), float(optimizer.lr), float(optimizer.weight_decay), told

    def act(part: tuple[int, int]) -> None:
        if not _chain.fit(*name, *models, *samples, *settings, *part):
            raise RangeError("targets", f"a label is no class: expected 0 to {layers[-1].outputs - 1}")

    products = index.numel() * sum(layer.inputs * layer.outputs for layer in layers)
    pieces = 1 if products < FEW_NUMBERS else min(rows, PIECES * threads_here())
    bounds = [rows * n // pieces for n in range(pieces + 1)]
    share(act, list(itertools.pairwise(bounds)))
    return losses


def _fits(layers: Sequence[Dense], new: Tensor, feed: Feed, optimizer: RowOptimizer, objective: Objective) -> bool:
    inputs, targets, whole = feed.pool.inputs, feed.pool.targets, (feed.index, feed.schedule.size, feed.pool.targets)
    judged = type(objective) is Loss and objective.function is cross_entropy and objective.per_sample
    plain = judged and type(optimizer) is SGD and not optimizer.momentum
    alike = feed.views is None and feed.weight is None and feed.scale is None
    numbers = new.device.type == "cpu" and new.dtype in KINDS and inputs.dtype == new.dtype and new.stride(-1) == 1
    here = all(each.device.type == "cpu" and each.dtype == torch.int64 for each in whole)
    samples = here and inputs.device.type == "cpu" and inputs.is_contiguous() and targets.dim() == 1
    width = feed.index.shape[-1]
    products = width * sum(layer.inputs * layer.outputs for layer in layers)
    fast = width <= MOST_SAMPLES and (products <= LARGE_STEP or threads_here() == 1)
    shape = inputs.shape[1:].numel() == layers[0].inputs
    return bool(INSTRUCTIONS) and plain and alike and numbers and samples and fast and shape
