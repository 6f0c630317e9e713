"""Findings about columns that leak the target: exactly, by their order, in a sum, or as a part of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.findings import Finding
from graphcollab._base.naming import few, setting
from graphcollab.data._values import without
from graphcollab.data.quality_of_samples import hashed

Columns = Mapping[str, np.ndarray]

_LOOK = 10_000  # rows checked first, which clears most columns
_CHANCE = math.log(1e6)  # chance alone produces a finding in fewer than one in so many tables


def of_leaks(
    read: Columns, target: str, values: np.ndarray, group: Tensor | None, what: str = "the target"
) -> Iterator[Finding]:
    """Yield columns that determine the target of every row, exactly or by order; a group's rows count as one."""
    rows = np.arange(len(values)) if group is None else np.unique(group.numpy(), return_index=True)[1]
    some = rows[:: -(-len(rows) // _LOOK)]
    exactly = [name for name, column in read.items() if _tells(column[some], values[some])]
    if exactly:
        codes = np.stack([numbered(column[rows]) for column in (*read.values(), values)], 1)
        once = rows[np.unique(hashed(torch.from_numpy(codes)).numpy(), return_index=True)[1]]  # one of equal rows
        most = min(1 + codes[:, -1].max(), len(once) // 2)  # a column with more values may have one per row
        chosen = {name: rows if 1 + numbered(read[name][rows]).max() <= most else once for name in exactly}
        exactly = [name for name in exactly if _tells(read[name][chosen[name]], values[chosen[name]])]
    if exactly:
        by = f"; or give {setting(group=...)} if rows belong together, such as visits of a patient"
        grouped = "" if group is not None else by
        it = "they are" if len(exactly) > 1 else "it is"
        message = (
            f"{each(exactly)} tells {what} {target!r} of all rows exactly: {leave(exactly)} if {it} {what} "
            f"in other words, or known only after it{grouped}"
        )
        yield finding("tells-target", exactly, message)
    rest = {name: column for name, column in read.items() if name not in exactly and column.dtype.kind != "O"}
    ordered = [name for name, one in rest.items() if all(_sorts(one[k], values[k]) for k in (some, rows))]
    if ordered:
        message = (
            f"{each(ordered)} tells {what} {target!r} by its order alone, without an error in any row, as by "
            f"thresholds: {leave(ordered)} if {'they are' if len(ordered) > 1 else 'it is'} known only after it"
        )
        yield finding("orders-target", ordered, message)


def of_sums(numbers: Columns, target: str, values: np.ndarray) -> Iterator[Finding]:
    """Yield two or more columns without missing values whose linear combination is the target, up to 0.1% of its SD."""
    whole = {name: one for name, one in numbers.items() if np.isfinite(one).all() and np.ptp(one) > 0}
    if values.dtype.kind not in "if" or not whole or len(values) < 10 * (1 + len(whole)) or not np.ptp(values) > 0:
        return
    x, y = np.stack([*whole.values()], 1)[:_LOOK], values[:_LOOK]
    x, y = ((one - one.mean(0)) / np.maximum(one.std(0), np.finfo(float).tiny) for one in (x, y))
    share = np.linalg.lstsq(x, y)[0]
    parts = [name for name, one in zip(whole, share.tolist(), strict=True) if abs(one) > 0.001]
    if len(parts) > 1 and float(np.abs(y - x @ share).max()) < 0.001:
        message = (
            f"columns {few([*map(repr, parts)])}, each times a number, add up to the target {target!r} of all rows: "
            f"{leave(parts)} if they are known only with it"
        )
        yield finding("sums-to-target", parts, message)


def of_parts(numbers: Columns, target: str, values: np.ndarray) -> Iterator[Finding]:
    """Yield columns never above the target and equal to it in at least a tenth of rows, such as times within it."""
    if values.dtype.kind not in "if":
        return
    for name, one in numbers.items():
        same = one == values
        if same.mean() >= 0.1 and len(np.unique(values[same])) >= 10 and not (one > values).any():
            message = (
                f"column {name!r} is never above the target {target!r} and is the same in {same.mean():.0%} of rows: "
                f"{leave([name])} if it is known only with it, as a time that ends no later is"
            )
            yield finding("part-of-target", [name], message)


def _tells(column: np.ndarray, values: np.ndarray) -> bool:
    """Return whether each value of a column implies one target, or both are equally ordered numbers, beyond chance."""
    codes, aim = numbered(column), numbered(values)
    first = np.empty(1 + codes.max(), np.int64)
    first[codes] = aim
    if not (first[codes] == aim).all():
        return False
    amounts = values.dtype.kind != "O" and column.dtype.kind != "O"
    same = amounts and ((codes == aim).all() or (codes == aim.max() - aim).all())
    likely = math.log(2) if same else len(first) * math.log(1 + aim.max())
    return _orders(aim) - likely > _CHANCE


def _sorts(column: np.ndarray, values: np.ndarray) -> bool:
    """Return whether targets are sorted by the column's numbers, beyond chance; rows with equal values count as one."""
    known, ordered = ~np.isnan(column), values.dtype.kind != "O"
    if 2 * known.sum() < len(column):
        return False
    codes, aim = numbered(column[known]), numbered(values[known])
    for units, parts in ((codes, aim), (aim, codes))[: 1 + ordered]:
        part = np.empty(1 + units.max(), np.int64)
        part[units] = parts
        steps = np.diff(part)
        if np.count_nonzero(steps) != parts.max() or not (part[units] == parts).all():
            continue
        same = ordered and ((steps >= 0).all() or (steps <= 0).all())
        if not (same or units is codes):
            continue
        if _orders(part) - (math.log(2) if same else math.lgamma(parts.max() + 2)) > _CHANCE:
            return True
    return False


def _orders(codes: np.ndarray) -> float:
    """Return the logarithm of the number of distinct orders of codes [N]."""
    return math.lgamma(len(codes) + 1) - sum(map(math.lgamma, (np.bincount(codes) + 1).tolist()))


def numbered(column: np.ndarray) -> np.ndarray:
    """Return the codes of a column's values, int64 [N]: numbers in order, NaN last, and text in any order."""
    if column.dtype.kind != "O":
        return np.unique(column, return_inverse=True)[1].astype(np.int64, copy=False)
    place: dict[str | None, int] = {}
    return np.array([place.setdefault(one, len(place)) for one in column.tolist()], np.int64)


def finding(code: str, columns: Sequence[str], message: str, **numbers: float) -> Finding:
    """Return a finding about columns, with its numbers."""
    return Finding(code, f"column {columns[0]!r}", message, {"columns": [*columns], **numbers})


def each(names: Sequence[str]) -> str:
    """Return column names as the subject of a sentence."""
    return f"{'each of the columns' if len(names) > 1 else 'column'} {few([*map(repr, names)])}"


def leave(names: Sequence[str]) -> str:
    """Return the advice to exclude columns."""
    return f"leave them out by {setting(leave_out=[*names])}" if len(names) > 1 else without(names[0])
