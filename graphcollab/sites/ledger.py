"""`Ledger`: what a site has disclosed about its columns, so that a later job discloses the same, or nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphcollab._base.errors import ConflictError, DamagedError, MismatchError
from graphcollab._base.files import write_whole
from graphcollab._base.naming import few

_VERSION = 1
_PARTS = ("known", "sums", "squares", "names")
_ROUNDING = 1e-12  # relative to a sum, whose last digits depend on the order of rows

Columns = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Ledger:
    """A local file of a site that records everything it has disclosed about the columns of its table.

    From sums over two sets of rows, others can compute the sum over the rows in which the sets differ, possibly a
    single row. A column's counts, sums and names are therefore disclosed again unchanged, or not at all. Other sites
    have everything that is in the file.

    Args:
        path: The file.
        site: Name of the site.
        changes: Whether the owner of the data allows others to compute what has changed.
        writes: Whether disclosures are written to the file; a rehearsal does not.
    """

    path: Path
    site: str
    changes: bool = False
    writes: bool = True

    def settle(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """Record counts in the file, then return those to disclose; a ValueError says what others were told before."""
        columns, changed, told = self._read(), dict[str, int](), dict[str, dict[str, Any]]()
        for name, own in _by_column(counts).items():
            before = columns.setdefault(name, [])
            same = next((one for one in before if _are_alike(one, own)), {})
            if before and not same and not self.changes:
                changed[name] = before[-1]["rows"]
            told[name] = {part: same.get(part, value) for part, value in own.items()}
            columns[name] = [*(one for one in before if one is not same), {**own, **same}]
        if changed:
            raise ConflictError(f"column {next(iter(changed))!r}", self._refusal(changed, counts["rows"]))
        if self.writes:
            about = {"version": _VERSION, "site": self.site, "columns": columns}
            write_whole(self.path, json.dumps(about).encode())
        parts = {part: {name: one[part] for name, one in told.items() if part in one} for part in _PARTS}
        return {**counts, **parts}

    def _refusal(self, changed: Mapping[str, int], rows: int) -> str:
        before, what = next(iter(changed.values())), "columns" if len(changed) > 1 else "column"
        less = f"{abs(rows - before)} {'more' if rows > before else 'fewer'}" if rows != before else "not all the same"
        return (
            f"{what} {few([*map(repr, changed)])}: other sites were told counts and sums of {before} rows "
            f"({self.path}), and now there are {rows}, {less}. From both they could compute what the rows hold that "
            "differ. Give the rows of then; or give preparation=, that of the earlier tasks, at all sites, and no sums "
            "are told; or, if the others may know the difference, give tell_changes=True here"
        )

    def _read(self) -> Columns:
        """Return the distinct disclosures about every column, by name."""
        try:
            stored = json.loads(self.path.read_text())
            if stored["version"] != _VERSION or not isinstance(stored["columns"], dict):
                raise ValueError
            site, columns = str(stored["site"]), stored["columns"]
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedError(
                f"file {self.path}", f"{self.path} is no ledger of what a site has told: restore it, or name another"
            ) from error
        if site != self.site:
            raise MismatchError(
                f"file {self.path}",
                f"{self.path} is the ledger of site {site!r}, and not of {self.site!r}: name another",
            )
        return columns


def _by_column(counts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys(name for part in _PARTS for name in counts[part])
    own = {name: {part: counts[part][name] for part in _PARTS if name in counts[part]} for name in names}
    return {name: {"rows": counts["rows"], **one} for name, one in own.items()}


def _are_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two disclosures about a column agree in all parts that both have."""
    return all(_same(one[part], other[part], _rounding(one, part)) for part in one.keys() & other.keys())


def _same(one: Any, other: Any, rounding: float) -> bool:
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        return sorted(one) == sorted(other)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= rounding
    return bool(one == other)


def _rounding(one: Mapping[str, Any], part: str) -> float:
    """Return the tolerance of a sum for another order of rows."""
    if one.get("sums") is None:
        return 0.0
    raw = one["squares"] + one["sums"] ** 2 / one["known"]
    return _ROUNDING * (raw if part == "squares" else math.sqrt(raw * one["known"]))
