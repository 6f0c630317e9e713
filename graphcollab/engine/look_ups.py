"""Look-ups in tables by whole numbers, ids: what is done besides, and whether all ids are in their table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from graphcollab.errors import RangeError

OPTIONS = "padding_idx", "scale_grad_by_freq", "max_norm"
Arguments: TypeAlias = tuple[tuple[str, ...], str, str]
"""The first arguments of an operation, in their order, and which of them are the table and the ids."""

BY_ID: Arguments = (("weight", "indices"), "weight", "indices")
LOOKS: dict[Any, Arguments] = {
    F.embedding: (("input", "weight"), "weight", "input"),
    **dict.fromkeys((torch.embedding, torch.ops.aten.embedding, torch.ops.aten.embedding.default), BY_ID),
}
FILLS: dict[Any, Arguments] = dict.fromkeys(
    (Tensor.index_fill, torch.index_fill, torch.ops.aten.index_fill), (("input", "dim", "index"), "input", "index")
)
INSIDE = LOOKS | FILLS
"""What vmap does in the tables of all rows, one behind the other, by ids that it does not look at."""
NOWHERE = 2**62  # in no table, also behind others


class OutsideError(RangeError):
    """An id is outside of its table, which has ids from 0 to ``size`` - 1."""

    def __init__(self, subject: str, message: str, found: int = -1, size: int = 0) -> None:
        super().__init__(subject, message)
        self.found, self.size = found, size


class EnoughError(Exception):
    """All look-ups that there are to see have been seen: what follows need not be computed."""


class LookUps(TorchFunctionMode):
    """While active, notes look-ups, and checks their ids before they are made.

    Args:
        most: How many look-ups there are to see; the last of them raises an `EnoughError`. Default: all.

    Attributes:
        count: How many there were.
        options: What embeddings that are trained do besides, by the name of the argument.

    Raises:
        OutsideError: If an id is outside of its table.
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most, self.count, self.options = most, 0, set[str]()

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at embeddings, bags of them and one-hot codes; pass everything else on."""
        kwargs = kwargs or {}
        if func is F.embedding or func is F.embedding_bag:
            given = inspect.signature(func).bind(*args, **kwargs).arguments
            ids, table = given["input"], given["weight"]
            if ids.is_floating_point():  # bags take them in either order
                ids, table = table, ids
            options = {name for name in OPTIONS if given.get(name) is not None and given[name] is not False}
            self.options |= options if table.requires_grad else set()
            self._look(ids, len(table))
        elif func in LOOKS:
            given, table, ids = _given(func, args, kwargs)
            self._look(given[ids], len(given[table]))
        elif func is F.one_hot:
            ids, size = (*args, *kwargs.values())[:2] if len(args) + len(kwargs) > 1 else (args[0], -1)
            if size > 0:
                self._look(ids, size)
        return func(*args, **kwargs)

    def _look(self, ids: Tensor, size: int) -> None:
        if ids.numel():
            least, most = (int(end) for end in torch.aminmax(ids))
            if least < 0 or most >= size:
                found = least if least < 0 else most
                raise OutsideError("ids", f"id {found} is outside of the embedding's 0 to {size - 1}", found, size)
        self.count += 1
        if self.count == self.most:
            raise EnoughError


def guarded(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the arguments of an operation of `INSIDE` with ids that are in their row's own table, or in none."""
    given, table, name = _given(func, args, kwargs)
    ids, size = given[name].long(), given[table].shape[given.get("dim", 0)]
    if func in FILLS:  # which count from the end, too
        ids = ids.where(ids >= 0, ids + size)
    given[name] = ids.masked_fill((ids < 0) | (ids >= size), NOWHERE)
    first = INSIDE[func][0]
    return (*(given.pop(one) for one in first), *args[len(first) :]), given


def _given(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> tuple[dict[str, Any], str, str]:
    """Return the first arguments, and those given by name, by name; and which are the table and the ids."""
    names, table, ids = INSIDE[func]
    return {**dict(zip(names, args, strict=False)), **kwargs}, table, ids
