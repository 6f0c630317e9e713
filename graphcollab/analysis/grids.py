"""Grids of settings of methods."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from graphcollab._base.errors import InvalidValueError, UnknownError
from graphcollab._base.naming import close

Grid: TypeAlias = Mapping[str, Any]
Point: TypeAlias = dict[str, Any]
Grids = Annotated[
    Mapping[str, Grid],
    "the values to try of every setting, by method, such as {'l2c': {'lr': [0.01, 0.1]}}, or "
    "{'*': {'lr': [0.01, 0.1]}} for all methods",
]


def require_methods(what: str, names: Collection[str], methods: Collection[str]) -> None:
    """Check that an argument by method names existing methods."""
    if unknown := sorted(set(names) - set(methods)):
        hint = close(unknown[0], methods, 1)
        message = f"{what} for {unknown}, but the methods are {sorted(methods)}; {hint}".rstrip(" ;")
        raise UnknownError(what, message)


def points_of(methods: Mapping[str, Callable[..., Any]], grids: Grids, **given: Any) -> dict[str, list[Point]]:
    """Return every method's settings, the product of its grid's values, after validating them with those ``given``."""
    require_methods("grids", set(grids) - {"*"}, methods)
    points = {}
    for name, make in methods.items():
        grid = {**grids.get("*", {}), **grids.get(name, {})}
        for setting, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
                raise InvalidValueError(
                    "grids", f"the grid of {name!r} must list the values to try of {setting!r}, got {values!r}"
                )
        points[name] = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        for point in points[name]:
            make(**given, **point)
    return points
