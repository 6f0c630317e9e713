"""Estimated memory of samples passing through a model, and the number of rows and samples that fit into a budget."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from graphcollab.data.tasks import Tasks
from graphcollab.engine.backend import Backend
from graphcollab.engine.rows import Rows
from graphcollab.engine.samples import copied

ROOM = 2**29  # bytes of activations at a time
COPIES = 11  # samples of a trial pass: sizes of weights are rarely a multiple of it
LEAST = 32  # samples of a row that should pass at once
PER_OUTPUT = 4  # outputs are kept, and losses and metrics copy them


class Footprint(NamedTuple):
    """Bytes of one sample of one row; ``together``: rows pass through the model together.

    ``passing`` is for the largest operation, or, for gradients, for all; ``outputs`` includes copies of them.
    """

    passing: int
    inputs: int
    outputs: int
    together: bool

    def rows(self, longest: int, whole: bool) -> int:
        """Return the number of rows with up to ``longest`` samples that fit, with ``whole`` for all samples at once."""
        few = longest if whole else min(longest, LEAST)
        return max(1, min(ROOM // (few * self._of_row), ROOM // (longest * max(self.outputs, 1))))

    def samples(self, rows: int) -> int:
        """Return the number of samples per row that fit for the given number of rows."""
        return max(1, min(ROOM // max(self.passing, 1), ROOM // (rows * self._of_row)))

    @property
    def _of_row(self) -> int:
        return max(self.passing * self.together, self.inputs, 1)


class Counted(TorchDispatchMode):
    """Counts bytes of tensors sized by the number of samples: in the largest operation (``most``), and in total."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples, self.most, self.total = samples, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view:
            read = {id(leaf): self._bytes(leaf) for leaf in tree_leaves((args, kwargs))}
            made = sum(self._bytes(leaf) for leaf in tree_leaves(found) if id(leaf) not in read)
            self.most, self.total = max(self.most, sum(read.values()) + made), self.total + made
        return found

    def _bytes(self, value: Any) -> int:
        return value.nbytes if isinstance(value, Tensor) and value.numel() % self.samples == 0 else 0


class Footprints:
    """Memory per sample, by architecture, split and use, measured by a trial pass on first use."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = backends
        self._known: dict[Hashable, Footprint] = {}

    def of(self, tasks: Tasks, s: int, rows: Rows, row: Tensor, split: str, embed: bool, gradients: bool) -> Footprint:
        """Return the memory per sample of a split with an architecture's models, measured on a ``row`` with samples.

        All its samples are used if samples affect each other's outputs; for ``gradients``, everything that a forward
        pass allocates counts.
        """
        backend, owned = self._backends[s], tasks.splits[split]
        places = owned.of(int(rows.node[row]))
        count = len(places) if backend.padding == "never" else COPIES
        key = s, split, embed, gradients, count
        if key not in self._known:
            inputs = copied(tasks.pools[owned.pool].inputs, places[torch.arange(count) % len(places)])
            self._known[key] = _measure(backend, rows.parameters(s, row[None]), inputs, embed, gradients)
        return self._known[key]


def _measure(backend: Backend, model: Tensor, inputs: Tensor, embed: bool, gradients: bool) -> Footprint:
    """Return the memory per sample of a pass in evaluation mode of samples [n, ...] through a model [1, columns]."""
    count, size = len(inputs), inputs.nbytes
    with Counted(count) as seen:
        outputs = backend.embed(model, inputs[None]) if embed else (backend.predict(model, inputs[None]),)
    passing = -(-(seen.total if gradients else seen.most) // count)
    kept = 1 if gradients else PER_OUTPUT * sum(part.nbytes for part in outputs) // count
    return Footprint(passing, size // count, kept, backend.together)
