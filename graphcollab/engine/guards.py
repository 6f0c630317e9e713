"""Checks that a module does not write to weights that all nodes share, nor look up ids outside a table.

Frozen parameters and non-persistent buffers exist once in memory (`shared_tensors`), also for the caller's module.
A forward pass that writes to them would change the models of all nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from graphcollab._base.errors import ContractError, RangeError
from graphcollab.engine.param_spec import shared_tensors


class FrozenWeightsError(ContractError):
    """Something writes to weights that all nodes share."""


class Frozen:
    """The tensors of a module that all nodes currently share, with their version counters."""

    def __init__(self, module: nn.Module) -> None:
        self.kind, self.tensors = type(module).__name__, shared_tensors(module)
        self._versions = _versions(self.tensors)

    def require_unchanged(self) -> None:
        """Raise a `FrozenWeightsError` if a tensor was written to since; writes through ``.data`` are not detected."""
        now = _versions(self.tensors)
        self.refuse_changes([name for name, version in now.items() if version != self._versions[name]])

    def refuse_changes(self, names: Sequence[str]) -> None:
        """Raise a `FrozenWeightsError` about the first of these tensors."""
        for name in names:
            what = f"{_what(self.tensors[name], name)} of {self.kind}"
            raise FrozenWeightsError(
                _subject(self.tensors[name], name),
                f"{what}, which all nodes share, was written to: restore it, and write to a copy",
            )


@contextmanager
def unwritten(module: nn.Module) -> Iterator[None]:
    """Raise a `FrozenWeightsError` if a shared tensor differs after a block, for trials, since sums take time."""
    frozen = Frozen(module)
    before = _sums(frozen.tensors)
    try:
        yield
    finally:
        now = _sums(frozen.tensors)
        frozen.refuse_changes([name for name in now if now[name] != before[name]])


def _sums(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the sums of tensors, as texts, since NaN differs from itself; subclasses may have none."""
    with torch.no_grad():
        known = {name: one for name, one in tensors.items() if type(one) in (Tensor, nn.Parameter)}
        return {name: str(float(one.sum(dtype=torch.float64))) for name, one in known.items()}


def _versions(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the version counters of tensors; tensors of inference mode have none."""
    return {name: one._version for name, one in tensors.items() if not one.is_inference()}


def _subject(tensor: Tensor, name: str) -> str:
    return f"{'parameter' if isinstance(tensor, nn.Parameter) else 'buffer'} {name!r}"


def _what(tensor: Tensor, name: str) -> str:
    frozen = isinstance(tensor, nn.Parameter)
    return f"the frozen parameter {name!r}" if frozen else f"the buffer {name!r}, which is not persistent,"


OPTIONS = "padding_idx", "scale_grad_by_freq", "max_norm"
Arguments: TypeAlias = tuple[tuple[str, ...], str, str]
"""The first arguments of an operation, in order, and which of them are the table and the ids."""

BY_ID: Arguments = (("weight", "indices"), "weight", "indices")
LOOKS: dict[Any, Arguments] = {
    F.embedding: (("input", "weight"), "weight", "input"),
    **dict.fromkeys((torch.embedding, torch.ops.aten.embedding, torch.ops.aten.embedding.default), BY_ID),
}
FILLS: dict[Any, Arguments] = dict.fromkeys(
    (Tensor.index_fill, torch.index_fill, torch.ops.aten.index_fill), (("input", "dim", "index"), "input", "index")
)
INSIDE = LOOKS | FILLS
"""Operations that vmap runs on the concatenated tables of all rows without checking ids."""
NOWHERE = 2**62  # outside any table, also concatenated ones


class OutsideError(RangeError):
    """An id is outside its table, which has ids from 0 to ``size`` - 1."""

    def __init__(self, subject: str, message: str, found: int = -1, size: int = 0) -> None:
        super().__init__(subject, message)
        self.found, self.size = found, size


class LookUps(TorchFunctionMode):
    """While active, checks the ids of look-ups before they run.

    ``options`` are further options of trainable embeddings, by argument name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.options = set[str]()

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.embedding or func is F.embedding_bag:
            given = inspect.signature(func).bind(*args, **kwargs).arguments
            ids, table = given["input"], given["weight"]
            if ids.is_floating_point():  # embedding bags accept both orders
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


def guarded(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the arguments of an operation of `INSIDE` with ids limited to their row's own table, or outside any."""
    given, table, name = _given(func, args, kwargs)
    ids, size = given[name].long(), given[table].shape[given.get("dim", 0)]
    if func in FILLS:  # these also accept negative ids
        ids = ids.where(ids >= 0, ids + size)
    given[name] = ids.masked_fill((ids < 0) | (ids >= size), NOWHERE)
    first = INSIDE[func][0]
    return (*(given.pop(one) for one in first), *args[len(first) :]), given


def _given(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> tuple[dict[str, Any], str, str]:
    """Return the first positional and all keyword arguments by name, and which are the table and the ids."""
    names, table, ids = INSIDE[func]
    return {**dict(zip(names, args, strict=False)), **kwargs}, table, ids
