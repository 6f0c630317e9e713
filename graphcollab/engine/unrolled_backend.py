"""The backend whose forward pass goes from row to row, for steps that a GPU replays as one CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from graphcollab.engine.modules import embed_arguments
from graphcollab.engine.plan import Plan
from graphcollab.engine.stacked_backend import Leaves
from graphcollab.engine.vmap_backend import VmapBackend
from graphcollab.stack import ParamSpec
from graphcollab.typing import Embedded

BRANCHES = 8  # rows whose operations a graph may run beside each other


class UnrolledBackend(VmapBackend):
    """Models of a chunk as stacked tensors, of which the module computes one after the other; all take a step together.

    Operations are those of a single model, such as cuDNN's convolutions, where stacked ones are grouped convolutions,
    which are slower in places. Recorded as a CUDA graph they cost no launches, and rows are branches of the graph that
    run beside each other. Without a graph it is a loop that keeps the activations of all rows.
    """

    name = "unrolled"

    def __init__(self, module: nn.Module, spec: ParamSpec, plan: Plan) -> None:
        super().__init__(module, spec, plan)
        self.chain = self.layers = None
        self._streams: list[torch.cuda.Stream] = []

    def _forward(self, views: Leaves, inputs: Tensor, embed: bool = False) -> Any:
        rows = [view.unbind(0) for view in views]  # their gradient is one stack; that of view[row] is as large for each
        found = []
        with self._autocast(inputs.device), self._branches(inputs) as branches:
            for row, samples in enumerate(inputs):
                own = {name: of[row] for name, of in zip(self.spec.names, rows, strict=True)}
                with torch.cuda.stream(branches[row % len(branches)]):
                    found.append(functional_call(self.module, own, (samples,), embed_arguments(embed)))
        outputs: Any = Embedded(*map(torch.stack, zip(*found, strict=True))) if embed else torch.stack(found)
        return self._whole(outputs)

    @contextmanager
    def _branches(self, inputs: Tensor) -> Iterator[list[torch.cuda.Stream | None]]:
        """Yield the streams for rows: none of their own, unless a graph is recorded."""
        if inputs.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            yield [None]
            return
        current = torch.cuda.current_stream()
        missing = min(BRANCHES, len(inputs)) - len(self._streams)
        self._streams += [torch.cuda.Stream() for _ in range(missing)]
        streams = self._streams[: min(BRANCHES, len(inputs))]
        for stream in streams:
            stream.wait_stream(current)
        yield [*streams]
        for stream in streams:
            current.wait_stream(stream)
