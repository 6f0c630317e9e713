"""Signs that columns and rows are not what they seem, by rules that chance hardly meets; `doubts` words them.

Some rows of many are looked at first, which clears most columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from graphcollab.keyed import keyed_bits
from graphcollab.naming import few
from graphcollab.tasks._values import is_number
from graphcollab.tasks.samples import Pool, Split

__all__ = [
    "CODES",
    "LOOK",
    "are_days",
    "are_names",
    "coded_differently",
    "hashes",
    "means",
    "mix",
    "nines",
    "numbered",
    "repeated",
    "row_hashes",
    "sorts",
    "tellers",
    "tells",
    "visits",
    "whole",
    "zeros",
]

CODES = (
    *(-9.0, 77.0, 88.0, 777.0, 888.0, 7777.0, 8888.0),
    *(sign * (10.0**digits - 1) for digits in range(2, 8) for sign in (-1, 1)),
)
"""Numbers that often mean that nothing is known."""
LOOK = 10_000
"""Rows that are looked at first."""
_CHANCE = math.log(1e6)  # rows that are shuffled show it less than once in so many tables
_NAMED = re.compile(
    r"(^|[^a-zA-Z])(?i:id|mrn|pid|uid|ssn|(patient|case|record|subject|row|serial)[_ .-]?(no|nr|num|number))$"
    r"|[a-z](Id|ID)$|^(?i:index|unnamed: 0|patient|subject|participant|person|(pat|fall|lfd)[_ .-]*(no|nr|num))$"
)
_SEVERAL, _MANY, _SPREAD = 10, 100, 200  # rows from which on numbers are told to be names, by the column's, by density
_UNEVEN, _KOLMOGOROV = 0.05, 1.36  # or as they are spread evenly, with this distance or that by the root of the rows
_FIRST_DAY, _LAST_DAY, _DAYS = 19000101, 20991231, 3  # different days at least
_REPEATED, _SHARE = 5, 0.05  # rows beyond one a person, or rows for testing that are for training: at least, and of all
_PERSONS, _VISITS = 10, 30  # different persons at least, and rows of one at most, in the mean
_OFTEN, _OTHERS = 3, 10  # rows with a code, and with others
_DIFFERENT, _FROM_ZERO = 20, 0.25  # values beside the 0 of a site; the least, in medians
_CODINGS, _SETS = 8, 100  # sets of values of which none is part of another, and different sets, at most
_ROWS = 5  # for every value of two sets, so that chance hardly leaves one out
_ROWS_APART = 0.95  # of different samples, of which there must be as many, that differ in half of the numbers already
_STREAM, _AT_ONCE = 127, 2**22  # numbers that are hashed at once


def tellers(read: Mapping[str, np.ndarray], values: np.ndarray, group: Tensor | None) -> tuple[list[str], list[str]]:
    """Return columns each of which tells the target of every row, exactly or by its order.

    Rows of a group count as one.
    """
    rows = np.arange(len(values)) if group is None else np.unique(group.numpy(), return_index=True)[1]
    some = rows[:: -(-len(rows) // LOOK)]
    aim = numbered(values[some])
    ordered = values.dtype.kind != "O"
    found = [name for name, column in read.items() if tells(column[some], aim, ordered)]
    if found:
        keys = np.zeros(len(rows), np.uint64)
        for column in (*read.values(), values):
            mix(keys, numbered(column[rows]).astype(np.uint64))
        once = rows[np.unique(keys, return_index=True)[1]]  # since equal rows tell of each other
        several = {name: 1 + numbered(read[name][rows]).max() for name in found}
        most = min(1 + numbered(values[rows]).max(), len(once) // 2)  # so many values are not those of single rows
        chosen = {name: rows if several[name] <= most else once for name in found}
        found = [name for name in found if tells(read[name][chosen[name]], numbered(values[chosen[name]]), ordered)]
    orderly = [
        name
        for name, column in read.items()
        if name not in found and all(sorts(column[those], values[those], ordered) for those in (some, rows))
    ]
    return found, orderly


def visits(column: np.ndarray, owner: np.ndarray) -> tuple[object, int] | None:
    """Return the person whom a column [N] names most often at a site (``owner``, [N]), and how often, if many recur."""
    known = np.array([one is not None for one in column]) if column.dtype.kind == "O" else ~np.isnan(column)
    persons = numbered(column[known]) * (1 + owner.max()) + owner[known]
    _, first, counts = np.unique(persons, return_index=True, return_counts=True)
    again = max(_REPEATED, _SHARE * len(persons)) <= len(persons) - len(counts)
    if len(counts) < _PERSONS or not again or len(persons) > _VISITS * len(counts):
        return None
    return column[known][first[counts.argmax()]], int(counts.max())


def row_hashes(columns: Sequence[tuple[int, bool]], inputs: np.ndarray, targets: Tensor) -> Tensor:
    """Return hashes of the even and odd columns of inputs [N, D], and of all with the target, [3, N].

    Of every column it is given of how many numbers it is, and whether these stand for categories.
    """
    halves, place = [np.zeros(len(inputs), np.uint64) for _ in range(2)], 0
    for k, (width, categories) in enumerate(columns):
        features = inputs[:, place : (place := place + width)]
        if categories:  # of which one is 1, or none: its number says as much
            features = (features @ np.arange(1, 1 + features.shape[1], dtype=np.float32))[:, None]
        for values in features.T:
            mix(halves[k % 2], (values + 0.0).view(np.uint32))  # -0.0 is 0.0
    rows = halves[0].copy()
    mix(rows, halves[1])
    mix(rows, targets.numpy().astype(np.float64).view(np.uint64))
    return torch.from_numpy(np.stack([*halves, rows]).view(np.int64))


def repeated(hashes: Mapping[str, Tensor]) -> Tensor | None:
    """Return which samples of all splits are there twice, [N], if many for testing are for training; else None.

    Where nobody has samples for testing, those for validation are looked at. Not where that may be chance: different
    samples must nearly all differ in half of their numbers already, every second one, so that those equal in all are
    hardly different ones. All samples are counted, whatever split they are in, so that many draws are warned of once.

    Args:
        hashes: Hashes of either half of the inputs, and of all with the target, by split, [3, N] each.
    """
    held = "test" if "test" in hashes else "val"
    again = torch.isin(hashes[held][2], hashes["train"][2])
    if int(again.sum()) < max(_REPEATED, _SHARE * len(again)):
        return None
    every = torch.cat([*hashes.values()], 1)
    different, place, counts = every[2].unique(return_inverse=True, return_counts=True)
    first = torch.empty_like(different).index_copy_(0, place, torch.arange(len(place)))
    apart = max(len(half.unique()) for half in every[:2, first])
    if len(different) < _DIFFERENT or apart < _ROWS_APART * len(different):
        return None
    return counts[place] > 1


def tells(column: np.ndarray, aim: np.ndarray, ordered: bool) -> bool:
    """Tell whether a column says which of its values the target has, by number [N], beyond chance.

    Every value of it, a missing one among them, goes with a single one of the target; or both are ``ordered``, and in
    the same order or opposite ones. Of all orders of the targets there must be a million times as many as would do so.
    """
    codes = numbered(column)
    first = np.empty(1 + codes.max(), np.int64)
    first[codes] = aim
    if not (first[codes] == aim).all():
        return False
    sizes = np.bincount(aim)
    orders = math.lgamma(len(aim) + 1) - sum(map(math.lgamma, (sizes + 1).tolist()))
    same = ordered and column.dtype.kind != "O" and ((codes == aim).all() or (codes == aim.max() - aim).all())
    return orders - (math.log(2) if same else len(first) * math.log(len(sizes))) > _CHANCE


def sorts(column: np.ndarray, values: np.ndarray, ordered: bool) -> bool:
    """Tell whether, by the values of a column of numbers, targets come one after the other, beyond chance.

    Targets that are ``ordered`` may as well come with several to a value, as where the column is rounded. Rows without
    a value do not count, if these are less than half, and those of one value count as one, as persons may come again.
    """
    if column.dtype.kind == "O" or 2 * (known := ~np.isnan(column)).sum() < len(column):
        return False
    codes, aim = numbered(column[known]), numbered(values[known])
    for units, parts in ((codes, aim), (aim, codes))[: 1 + ordered]:
        part = np.empty(1 + units.max(), np.int64)
        part[units] = parts
        steps = np.diff(part)
        one_by_one = np.count_nonzero(steps) == parts.max() and (part[units] == parts).all()
        same = ordered and ((steps >= 0).all() or (steps <= 0).all())
        if one_by_one and (same or units is codes):
            orders = math.lgamma(len(part) + 1) - sum(map(math.lgamma, (np.bincount(part) + 1).tolist()))
            if orders - (math.log(2) if same else math.lgamma(parts.max() + 2)) > _CHANCE:
                return True
    return False


def numbered(column: np.ndarray) -> np.ndarray:
    """Return the numbers of a column's values, [N]: numbers in order, NaN last, and text as it comes."""
    if column.dtype.kind != "O":
        return np.unique(column, return_inverse=True)[1]
    place: dict[str | None, int] = {}
    return np.array([place.setdefault(one, len(place)) for one in column.tolist()], np.int64)


def whole(column: np.ndarray, known: np.ndarray) -> bool:
    """Tell whether what is known of a column is whole numbers, of which there are any."""
    some = column[:LOOK][known[:LOOK]]
    return bool((some == np.round(some)).all() and known.any() and (column[known] == np.round(column[known])).all())


def are_days(column: np.ndarray) -> bool:
    """Tell whether whole numbers are days as 20200131 is."""
    if column.min() < _FIRST_DAY or column.max() > _LAST_DAY:
        return False
    month, day = column // 100 % 100, column % 100
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool(valid.all()) and len(np.unique(column)) >= _DAYS


def are_names(name: str, column: np.ndarray, owner: np.ndarray) -> bool:
    """Tell whether whole numbers [N] number or name the rows, or those of every site by ``owner`` [N].

    They all differ, and the column is named so, or they leave few numbers out, or they are spread evenly.
    """
    if _NAMED.search(name) and len(column) > _SEVERAL:
        first = np.unique([owner[:LOOK], column[:LOOK]], axis=1)
        return first.shape[1] == len(column[:LOOK]) and len(np.unique([owner, column], axis=1).T) == len(column)
    some = column[:LOOK]
    if len(column) < _MANY or len(np.unique(some)) < len(some):
        return False
    ordered = np.sort(column)
    if (ordered[1:] == ordered[:-1]).any():
        return False
    dense = np.ptp(column) < 2 * len(column)
    even = np.abs((ordered - ordered[0]) / np.ptp(column) - np.arange(len(column)) / (len(column) - 1)).max()
    return bool(dense or (len(column) >= _SPREAD and even < max(_UNEVEN, _KOLMOGOROV / math.sqrt(len(column)))))


def mix(keys: np.ndarray, values: np.ndarray) -> None:
    """Mix values [N] into keys [N] in place, so that rows have one key where they are equal, and hardly elsewhere."""
    keys ^= values
    keys *= np.uint64(0x9E3779B97F4A7C15)
    keys ^= keys >> np.uint64(29)


def nines(values: np.ndarray, codes: Sequence[float]) -> list[str]:
    """Say which of some numbers are in how many rows, far from all others: farther than these are from each other."""
    if not len(values) or not (values.min() in codes or values.max() in codes):
        return []
    coded = np.isin(values, codes)
    others = values[~coded]
    if len(others) < _OTHERS or not (span := np.ptp(others)) > 0:
        return []
    return [
        f"{code:.0f} in {count} rows"
        for code, count in zip(*np.unique(values[coded], return_counts=True), strict=True)
        if count >= _OFTEN and max(code - others.max(), others.min() - code) > span
    ]


def zeros(values: np.ndarray, owner: np.ndarray, sites: Sequence[str]) -> str:
    """Name the sites whose values [n] are all 0, from which all others lie far."""
    zero = values == 0
    if not zero.any():
        return ""
    rows, zeros = np.bincount(owner, minlength=len(sites)), np.bincount(owner[zero], minlength=len(sites))
    empty = ((zeros == rows) & (rows >= _OTHERS)).nonzero()[0].tolist()
    others = np.sort(np.abs(values[~zero]))
    apart = len(others) and (values.min() >= 0 or values.max() <= 0)
    if not (empty and apart and others[0] > _FROM_ZERO * np.median(others) and len(np.unique(others)) >= _DIFFERENT):
        return ""
    return f"site{'s' * (len(empty) > 1)} {few([repr(sites[k]) for k in empty])}"


def coded_differently(sites: Sequence[str], rows: Sequence[int], by_site: Sequence[Sequence[str]], most: float) -> str:
    """Say which values are at which of two groups of sites that code differently; nothing where there are none."""
    groups: dict[frozenset[str], list[int]] = {}
    for k, words in enumerate(by_site):
        groups.setdefault(frozenset(words), []).append(k)
    if not 1 < len(groups) <= _SETS:
        return ""
    largest = [one for one in groups if not any(one < other for other in groups)]
    if len(largest) > _CODINGS:  # so many are no codings
        return ""
    for pair in combinations(largest, 2):
        least = min(sum(rows[k] for k in groups[one]) for one in pair)
        common, smaller = len(pair[0] & pair[1]), min(map(len, pair))
        if smaller > 1 and (common <= most * smaller or _shifted(*pair)) and least >= _ROWS * len(pair[0] | pair[1]):
            return " and ".join(_said(by_site[groups[one][0]], [sites[k] for k in groups[one]]) for one in pair)
    return ""


def _shifted(one: frozenset[str], other: frozenset[str]) -> bool:
    """Tell whether two sets of as many values are whole numbers that are counted from another one."""
    first, second = (sorted(map(float, words)) if all(map(is_number, words)) else [] for words in (one, other))
    return len(first) == len(second) > 0 and all(abs(a - b) == 1 for a, b in zip(first, second, strict=True))


def _said(words: Sequence[str], where: Sequence[str]) -> str:
    return f"{few([*map(repr, words)])} at {few([*map(repr, where)])}"


def hashes(pool: Pool) -> Tensor:
    """Return hashes of the samples' even and odd inputs, and of all inputs with the target, [3, N]."""
    x, y = pool.inputs.cpu().flatten(1), pool.targets.cpu().reshape(len(pool), -1)
    even, odd = _hash(x[:, ::2], 0), _hash(x[:, 1::2], 1)
    return torch.stack([even, odd, even + odd + _hash(y, 2)])


def _hash(values: Tensor, key: int) -> Tensor:
    """Return sums of the bits [N, D] of every row times random odd numbers, modulo 2^64, [N]."""
    factor = keyed_bits(key, _STREAM, torch.arange(values.shape[1])) | 1
    parts = values.split(max(_AT_ONCE // max(values.shape[1], 1), 1))
    return torch.cat([(_bits(part) * factor).sum(1) for part in parts])


def _bits(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values.long()
    kind = torch.int32 if values.dtype == torch.float32 else torch.int64
    return (values + 0.0).contiguous().view(kind).long()  # -0.0 is 0.0


def means(sizes: torch.Tensor, split: Split) -> torch.Tensor:
    """Return the mean of samples' sizes at every node, [K]; NaN where a node has none."""
    owner = torch.arange(len(split.sizes)).repeat_interleave(split.sizes)
    return owner.bincount(sizes.cpu()[split.index], minlength=len(split.sizes)) / split.sizes
