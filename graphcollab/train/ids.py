"""Whether embeddings have a row for every id that nodes' samples lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from graphcollab.engine.guards import LookUps, OutsideError, unwritten
from graphcollab.engine.modules import copy_module
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.samples import copied
from graphcollab.errors import RangeError
from graphcollab.tasks import Tasks
from graphcollab.tasks.samples import ELSEWHERE

AT_ONCE = 2**14  # numbers in the inputs of a pass
CURE = "give the embedding more rows, or what has no id one of its own (a missing value's code is often -1)"


def check_ids(tasks: Tasks, modules: Sequence[nn.Module], members: Sequence[Tensor]) -> None:
    """Check that samples of all splits lead to ids that embeddings have, in bags and one-hot codes too (ValueError).

    Ids depend on samples and not on parameters, so one model of an architecture sees the samples of all its nodes
    (``members``) that are here. A pass ends at the last look-up.
    """
    for module, nodes in zip(modules, members, strict=True):
        judged, most = copy_module(module).eval(), None
        for split, owner, inputs in _pieces(tasks, nodes):
            look = partial(_look_ups, judged, inputs)
            try:
                seen = look(most=most)
            except OutsideError as error:
                node, found = _outside(look, owner, error)
                name = f"node {tasks.names[node]!r}"
                raise RangeError(
                    name,
                    f"{name}: a sample of split {split!r} leads to id {found.found}, "
                    f"and an embedding of {type(module).__name__} has ids 0 to {found.size - 1}: {CURE}",
                ) from error
            most = seen if most is None else most
            if not most:
                break


def _pieces(tasks: Tasks, nodes: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield split, nodes [n] and inputs [n, ...] of all samples of some nodes that are here: two, then many at once."""
    size = 2
    for name, split in tasks.splits.items():
        own, inputs = split.select(nodes), tasks.pools[split.pool].inputs
        owner, index, start = nodes.repeat_interleave(own.sizes)[own.index != ELSEWHERE], own.here, 0
        while start < len(index):
            some = slice(start, start + size)
            yield name, owner[some], copied(inputs, index[some])
            start, size = start + size, max(AT_ONCE // max(inputs[:1].numel(), 1), 1)


def _look_ups(module: nn.Module, inputs: Tensor, some: slice | Tensor = slice(None), most: int | None = None) -> int:
    """Pass some inputs through a module as far as the look-up that is the last; return how many there were."""
    looked = LookUps(most)
    with keyed_layers(0), torch.no_grad(), unwritten(module), looked:
        try:
            module(inputs[some].clone())
        except OutsideError:
            raise
        except Exception:  # enough was seen, or what is wrong is said where outputs are checked
            pass
    return looked.count


def _outside(look: Callable[[Tensor], int], owner: Tensor, error: OutsideError) -> tuple[int, OutsideError]:
    """Return the first of the nodes [n] that have the samples with an id outside among its own, and its error."""
    for node in owner.unique().tolist():
        try:
            look(owner == node)
        except OutsideError as own:
            return node, own
    return int(owner[0]), error
