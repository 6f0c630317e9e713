"""Values for every setting of the package, made from annotations: those that are allowed, and nonsense.

What an annotation allows is decided here anew and not by `graphcollab._base.settings`, which is what is tested.
"""

from __future__ import annotations

import collections.abc
import inspect
import math
import numbers
import random
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import nn
from torch_geometric.transforms import BaseTransform

from graphcollab import GraphcollabError
from graphcollab._base.settings import MOST
from graphcollab.components import (
    Combine,
    CosineWeights,
    Fit,
    NeighborBag,
    ProjectedGradient,
    Real,
    Rewiring,
    Similarity,
    Uniform,
    Weigher,
)
from graphcollab.engine import SGD, Objective, Proximal
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.transforms import TopK

HUGE = 10**400
NONSENSE: tuple[Any, ...] = (
    *("x", "", "1", "nan", b"x", math.nan, math.inf, -math.inf, -1, 0, -0.5, 0.0, 2.5, 1, 1e300, HUGE, -HUGE),
    *(True, False, None, [], [1], ["x"], (), (1, 2), (0.1, -1.0), (1, math.nan), {}, {"a": 1}, set(), frozenset({1})),
    *(np.int64(-3), np.float64("nan"), np.float32(-1), np.bool_(True), np.array([1.0, 2.0]), np.array("a")),
    *(torch.tensor(1.0), torch.tensor([]), 1 + 1j, object(), object, int, len, Ellipsis, range(3), NotImplemented),
)
"""What people give by mistake; some of it is allowed somewhere."""

SAMPLES: dict[type, Callable[[], Any]] = {
    RowOptimizer: lambda: SGD(lr=0.05),
    Similarity: CosineWeights,
    Weigher: Uniform,
    Rewiring: Rewiring,
    Objective: lambda: Proximal(0.1),
    BaseTransform: lambda: TopK(1),
    NeighborBag: NeighborBag,
    Fit: Fit,
    Combine: ProjectedGradient,
    nn.Module: lambda: nn.Linear(4, 3).requires_grad_(False),
}
"""How to make what an annotation asks for by a class."""

MODEST = (0, 1e-3, 0.1, 0.5, 0.9, 1, 2, 3)  # numbers with which a small run ends soon and does not diverge at once


def allows(annotation: Any, value: Any) -> bool | None:
    """Tell whether an annotation allows a value; None where it does not say, as for the names of parts."""
    if isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 0 and annotation in (bool, int, float):
        return not isinstance(value.item(), str) and allows(annotation, value.item())
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        ranges = [one for one in args[1:] if isinstance(one, range | Real)]
        return all(_inside(one, value) for one in ranges) if ranges else allows(args[0], value)
    if origin in (typing.Union, types.UnionType):
        found = [allows(one, value) for one in args]
        return True if True in found else None if None in found else False
    if origin is Literal:
        return any(type(one) is type(value) and one == value for one in args)
    if annotation in (None, type(None)):
        return value is None
    if annotation is bool:
        return isinstance(value, bool | np.bool_)
    if annotation is int:
        return _inside(range(-MOST, MOST), value)
    if annotation is float:
        return _inside(Real(), value)
    if annotation is str:
        return None if isinstance(value, str) else False
    if origin is tuple:
        kinds = args[:1] * len(value) if isinstance(value, tuple) and args[1:] == (...,) else args
        return isinstance(value, tuple) and len(value) == len(kinds) and _all(map(allows, kinds, value))
    if origin in (collections.abc.Sequence, collections.abc.Iterable):
        if isinstance(value, str | bytes) or not isinstance(value, origin) or getattr(value, "ndim", 1) == 0:
            return False
        return _all(allows(args[0], one) for one in value)
    if origin is collections.abc.Mapping:
        return isinstance(value, Mapping) and _all(allows(args[0], one) for one in value)
    if origin is collections.abc.Callable or annotation is Callable:
        return None if callable(value) else False
    if isinstance(origin, type) and origin is not type:
        annotation = origin
    if annotation is Any or origin is type or not isinstance(annotation, type):
        return None
    if getattr(annotation, "_is_protocol", False):
        return None
    return None if isinstance(value, annotation) else False


def good(annotation: Any) -> list[Any]:
    """Return values that an annotation allows, with which a small run can be played."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        one = next((one for one in args[1:] if isinstance(one, range | Real)), None)
        if one is None:
            return good(args[0])
        real = [*map(float, MODEST), np.float32(0.5), np.array(0.5), torch.tensor(0.5, dtype=torch.float64)]
        least, most = (one.start, one.stop - 1) if isinstance(one, range) else (one.least, one.most)
        numbers_ = [0, 1, 2, 3, np.int64(2), torch.tensor(2)] if isinstance(one, range) else real
        edges = [n for n in (least, most) if math.isfinite(n) and abs(n) < 10]
        return [n for n in [*numbers_, *edges] if _inside(one, n)]
    if origin in (typing.Union, types.UnionType):
        return [value for one in args for value in good(one)]
    if origin is Literal:
        return list(args)
    if annotation in (None, type(None)):
        return [None]
    if annotation is bool:
        return [True, False, np.bool_(True)]
    if annotation is int:
        return [1, 2, np.int64(2)]
    if annotation is float:
        return [0.5, 1, np.float32(0.5)]
    if origin is tuple and args[1:] != (...,):
        if not all(map(good, args)):
            return []
        return [tuple(good(one)[i % len(good(one))] for i, one in enumerate(args, start)) for start in (0, 1)]
    if origin in (tuple, collections.abc.Sequence, collections.abc.Iterable):
        inside = good(args[0])
        return [(one,) for one in inside[:2]] + [tuple(inside[:2])]
    return [make() for kind, make in SAMPLES.items() if annotation is kind]


def _inside(kind: range | Real, value: Any) -> bool:
    if isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        return False
    if isinstance(kind, range):
        return isinstance(value, numbers.Integral) and kind.start <= value < kind.stop
    value = value if isinstance(value, int) else float(value)
    if value != value or abs(value) > 1.7e308:
        return bool(value == math.inf and kind.infinite and kind.most == kind.below == math.inf)
    return bool(
        kind.least <= value <= kind.most
        and (value > kind.above or kind.above == -math.inf)
        and (value < kind.below or kind.below == math.inf)
    )


def _all(found: collections.abc.Iterable[bool | None]) -> bool | None:
    every = list(found)
    return False if False in every else None if None in every else True


@dataclass(frozen=True)
class Owner:
    """Something with settings.

    Args:
        name: What to call it.
        make: Called with settings by name.
        play: What is done then with what was made, where settings are allowed. Default: nothing.
        needs: Settings that are always given.
        at_once: Whether making it is already work, so that only small numbers may be given.
        also: Further annotations, for settings that `make` passes on.
    """

    name: str
    make: Callable[..., Any]
    play: Callable[[Any], Any] | None = None
    needs: Mapping[str, Any] = field(default_factory=dict)
    at_once: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the annotations of its settings, by name."""
        of = inspect.unwrap(self.make)
        where = of.__init__ if isinstance(of, type) else of
        hints = typing.get_type_hints(of if isinstance(of, type) else where, include_extras=True)
        known = inspect.signature(self.make).parameters
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        found = {name: hints.get(name, Any) for name, one in known.items() if one.kind not in kinds}
        for shared in (typing.get_args(one)[0] for one in hints.values() if typing.get_origin(one) is typing.Unpack):
            found |= typing.get_type_hints(shared, include_extras=True)
        return found


@dataclass(frozen=True)
class Case:
    """One value for one setting, or two for two."""

    owner: Owner
    values: Mapping[str, Any]
    verdict: bool | None  # allowed, not allowed, or not said

    def fault(self) -> str | None:
        """Return what is wrong with the answer to the values, if something is."""
        made = None
        try:
            made = self.owner.make(**{**self.owner.needs, **self.values})
            if self.verdict and self.owner.play is not None:
                self.owner.play(made)
        except Exception as error:
            plays = made is not None or self.owner.at_once
            return None if self._answers(error, plays) else f"{self}: {type(error).__name__}: {error}".splitlines()[0]
        return f"{self}: nonsense is accepted" if self.verdict is False else None

    def _answers(self, error: Exception, plays: bool) -> bool:
        """Tell whether an error is the package's own and names what is wrong.

        An allowed value may be refused because it does not go with another setting, which the error names too, or when
        it is `play`\\ ed, because it does not go with the data.
        """
        ours = isinstance(error, GraphcollabError)
        words = set(re.findall(r"\w+", str(error).lower()))
        if plays and self.verdict:
            return ours
        others = {*self.owner.settings()} - {*(self.values if self.verdict and len(self.values) == 1 else ())}
        return ours and isinstance(error, ValueError | TypeError) and bool(words & others)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in self.values.items())
        return f"{self.owner.name}({given})"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:40]}… ({type(value).__name__})"


def singles(owner: Owner) -> Iterator[Case]:
    """Yield every value for every setting of an owner, one at a time."""
    for name, annotation in owner.settings().items():
        for value in good(annotation):
            yield Case(owner, {name: value}, True)
        for value in NONSENSE:
            verdict = allows(annotation, value)
            if verdict is False or (verdict is None and not owner.at_once and not isinstance(value, str)):
                yield Case(owner, {name: value}, verdict)


def pairs(owner: Owner, draw: random.Random, count: int) -> Iterator[Case]:
    """Yield allowed values for two settings at a time; they need not go together."""
    settings = {name: good(annotation) for name, annotation in owner.settings().items()}
    settings = {name: values for name, values in settings.items() if values}
    for _ in range(count if len(settings) > 1 else 0):
        two = draw.sample(sorted(settings), 2)
        yield Case(owner, {name: draw.choice(settings[name]) for name in two}, True)


def sample(owners: list[Owner], count: int, seed: int = 0) -> list[Case]:
    """Return a number of cases: every setting once, then values at random."""
    draw = random.Random(seed)
    every = [case for owner in owners for case in singles(owner)]
    every += [case for owner in owners for case in pairs(owner, draw, max(count // 50, 1))]
    draw.shuffle(every)
    first: dict[tuple[str, str], Case] = {}
    for case in every:
        first.setdefault((case.owner.name, min(case.values)), case)
    chosen = list(first.values())
    ids = {id(case) for case in chosen}
    return (chosen + [case for case in every if id(case) not in ids])[:count]
