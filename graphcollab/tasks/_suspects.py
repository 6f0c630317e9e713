"""What columns and rows hardly mean: the target in other words, rows twice, numbers that say nothing is known, names.

All of it is only warned of, once for each kind, by rules that chance hardly meets. Some rows of many are looked at
first, which clears most columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from graphcollab.checks import issue
from graphcollab.naming import few
from graphcollab.tasks._coded import warn_of_codes, warn_of_target
from graphcollab.tasks._repeats import warn_of_repeats as repeats
from graphcollab.tasks._sites import Sites
from graphcollab.tasks._values import without
from graphcollab.tasks.column import Column
from graphcollab.tasks.samples import Split

__all__ = ["warn_of_columns", "warn_of_repeats"]

_LOOK = 10_000  # rows that are looked at first
_CHANCE = math.log(1e6)  # rows that are shuffled show it less than once in so many tables
_NAMED = re.compile(
    r"(^|[^a-zA-Z])(?i:id|mrn|pid|uid|ssn|(patient|case|record|subject|row|serial)[_ .-]?(no|nr|num|number))$"
    r"|[a-z](Id|ID)$|^(?i:index|unnamed: 0|patient|subject|participant|person|(pat|fall|lfd)[_ .-]*(no|nr|num))$"
)
_PERSON = re.compile(
    r"(patient|person|subject|participant|proband)([_ .-]?(id|no|nr|num|number|code|key))?|id|mrn|pid|pseudonym"
    r"|(pat|case|fall|client|customer|user|animal)[_ .-]?(id|no|nr|num|number)",
    re.IGNORECASE,
)
_SEVERAL, _MANY, _SPREAD = 10, 100, 200  # rows from which on numbers are told to be names, by the column's, by density
_UNEVEN, _KOLMOGOROV = 0.05, 1.36  # or as they are spread evenly, with this distance or that by the root of the rows
_FIRST_DAY, _LAST_DAY, _DAYS = 19000101, 20991231, 3  # different days at least
_REPEATED, _SHARE = 5, 0.05  # rows beyond one a person: at least, and of all
_PERSONS, _VISITS = 10, 30  # different persons at least, and rows of one at most, in the mean


def warn_of_columns(
    sites: Sites,
    read: Mapping[str, np.ndarray],
    categorical: Sequence[str],
    target: str,
    values: np.ndarray,
    group: Tensor | None,
) -> None:
    """Warn of columns that were ``read`` which should hardly be inputs as they are, given the target's values [N]."""
    told = _warn_of_tellers(read, target, values, group)
    owner = sites.owner.numpy()
    if group is None:
        _warn_of_persons({name: column for name, column in read.items() if name not in told}, owner)
    numbers = {
        name: (column, ~np.isnan(column))
        for name, column in read.items()
        if column.dtype.kind in "if" and name not in categorical
    }
    whole = {name: column[known] for name, (column, known) in numbers.items() if _whole(column, known)}
    days = [name for name, column in whole.items() if _are_days(column)]
    if days:
        issue(
            "quality",
            f"column {days[0]!r}",
            f"{_columns(days)} to hold dates that are written as numbers, such as {whole[days[0]][0]:.0f}: make them "
            f"days since the first, or {_leave(days)}",
        )
    names = [
        name
        for name, column in whole.items()
        if name not in days and len(column) == len(owner) and _are_names(name, column, owner)
    ]
    if names:
        first, second = whole[names[0]][:2]
        issue(
            "quality",
            f"column {names[0]!r}",
            f"{_columns(names)} to number the rows, such as {first:.0f} and {second:.0f}, and "
            f"{'are used as inputs' if len(names) > 1 else 'is used as an input'}: {_leave(names)} if "
            f"{'they say' if len(names) > 1 else 'it says'} nothing",
        )
    warn_of_codes({name: (column[known], owner[known]) for name, (column, known) in numbers.items()}, sites.names)
    warn_of_target(target, values, read)


def warn_of_repeats(
    sites: Sites, columns: Sequence[Column], inputs: np.ndarray, targets: Tensor, splits: Mapping[str, Split]
) -> None:
    """Warn where many rows for testing have the inputs [N, D] and the target of rows for training."""
    if len(splits) < 2:
        return
    halves, place = [np.zeros(len(inputs), np.uint64) for _ in range(2)], 0
    for k, column in enumerate(columns):
        features = inputs[:, place : (place := place + len(column.features))]
        if column.categories is not None:  # of which one is 1, or none: its number says as much
            features = (features @ np.arange(1, 1 + features.shape[1], dtype=np.float32))[:, None]
        for values in features.T:
            _mix(halves[k % 2], (values + 0.0).view(np.uint32))  # -0.0 is 0.0
    rows = halves[0].copy()
    _mix(rows, halves[1])
    _mix(rows, targets.numpy().astype(np.float64).view(np.uint64))
    found = torch.from_numpy(np.stack([*halves, rows]).view(np.int64))  # [3, N]
    cure = "drop rows that are there twice, in pandas by frame.drop_duplicates(), or keep them together by group="
    hashes = {name: found[:, split.index] for name, split in splits.items()}
    repeats(hashes, {name: sites.owner[split.index] for name, split in splits.items()}, sites.names, "site", cure)


def _warn_of_persons(read: Mapping[str, np.ndarray], owner: np.ndarray) -> None:
    """Warn of a column that is named as one of persons is, and names some of a site (``owner``, [N]) several times."""
    for name, column in read.items():
        if not _PERSON.fullmatch(name) or column.dtype.kind == "b":
            continue
        known = np.array([one is not None for one in column]) if column.dtype.kind == "O" else ~np.isnan(column)
        persons = _numbered(column[known]) * (1 + owner.max()) + owner[known]
        _, first, counts = np.unique(persons, return_index=True, return_counts=True)
        again = len(persons) - len(counts)
        if (
            len(counts) < _PERSONS
            or again < max(_REPEATED, _SHARE * len(persons))
            or len(persons) > _VISITS * len(counts)
        ):
            continue
        most = column[known][first[counts.argmax()]]
        shown = repr(most) if isinstance(most, str) else f"{most:.0f}"
        issue(
            "quality",
            f"column {name!r}",
            f"column {name!r} is used as an input, and has {shown} in {counts.max()} rows of a site, as where rows are "
            f"of one person: group={name!r} keeps such rows together, so that nobody is both trained on and tested on, "
            "and makes no input of the column",
        )
        return


def _warn_of_tellers(
    read: Mapping[str, np.ndarray], target: str, values: np.ndarray, group: Tensor | None
) -> list[str]:
    """Warn of columns each of which tells the target of every row, and name them; rows of a group count as one."""
    rows = np.arange(len(values)) if group is None else np.unique(group.numpy(), return_index=True)[1]
    some = rows[:: -(-len(rows) // _LOOK)]
    aim = _numbered(values[some])
    ordered = values.dtype.kind != "O"
    found = [name for name, column in read.items() if _tells(column[some], aim, ordered)]
    if found:
        keys = np.zeros(len(rows), np.uint64)
        for column in (*read.values(), values):
            _mix(keys, _numbered(column[rows]).astype(np.uint64))
        once = rows[np.unique(keys, return_index=True)[1]]  # since equal rows tell of each other
        several = {name: 1 + _numbered(read[name][rows]).max() for name in found}
        most = min(1 + _numbered(values[rows]).max(), len(once) // 2)  # so many values are not those of single rows
        chosen = {name: rows if several[name] <= most else once for name in found}
        found = [name for name in found if _tells(read[name][chosen[name]], _numbered(values[chosen[name]]), ordered)]
    if found:
        belong = "" if group is not None else "; or give group= if rows belong together, such as visits of a patient"
        many = len(found) > 1
        issue(
            "quality",
            f"column {found[0]!r}",
            f"{'each of the columns' if many else 'column'} {few([*map(repr, found)])} tells the target {target!r} of "
            f"all rows exactly: {_leave(found)} if {'they are' if many else 'it is'} the target in other words, or "
            f"known only after it{belong}",
        )
    orderly = [
        name
        for name, column in read.items()
        if name not in found and all(_sorts(column[those], values[those], ordered) for those in (some, rows))
    ]
    if orderly:
        issue(
            "quality",
            f"column {orderly[0]!r}",
            f"{'each of the columns' if len(orderly) > 1 else 'column'} {few([*map(repr, orderly)])} tells the target "
            f"{target!r} by its order alone, without an error in any row, as by thresholds: {_leave(orderly)} if "
            f"{'they are' if len(orderly) > 1 else 'it is'} known only after it",
        )
    return [*found, *orderly]


def _tells(column: np.ndarray, aim: np.ndarray, ordered: bool) -> bool:
    """Tell whether a column says which of its values the target has, by number [N], beyond chance.

    Every value of it, a missing one among them, goes with a single one of the target; or both are ``ordered``, and in
    the same order or opposite ones. Of all orders of the targets there must be a million times as many as would do so.
    """
    codes = _numbered(column)
    first = np.empty(1 + codes.max(), np.int64)
    first[codes] = aim
    if not (first[codes] == aim).all():
        return False
    sizes = np.bincount(aim)
    orders = math.lgamma(len(aim) + 1) - sum(map(math.lgamma, (sizes + 1).tolist()))
    same = ordered and column.dtype.kind != "O" and ((codes == aim).all() or (codes == aim.max() - aim).all())
    return orders - (math.log(2) if same else len(first) * math.log(len(sizes))) > _CHANCE


def _sorts(column: np.ndarray, values: np.ndarray, ordered: bool) -> bool:
    """Tell whether, by the values of a column of numbers, targets come one after the other, beyond chance.

    Targets that are ``ordered`` may as well come with several to a value, as where the column is rounded. Rows without
    a value do not count, if these are less than half, and those of one value count as one, as persons may come again.
    """
    if column.dtype.kind == "O" or 2 * (known := ~np.isnan(column)).sum() < len(column):
        return False
    codes, aim = _numbered(column[known]), _numbered(values[known])
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


def _numbered(column: np.ndarray) -> np.ndarray:
    """Return the numbers of a column's values, [N]: numbers in order, NaN last, and text as it comes."""
    if column.dtype.kind != "O":
        return np.unique(column, return_inverse=True)[1]
    place: dict[str | None, int] = {}
    return np.array([place.setdefault(one, len(place)) for one in column.tolist()], np.int64)


def _whole(column: np.ndarray, known: np.ndarray) -> bool:
    """Tell whether what is known of a column is whole numbers, of which there are any."""
    some = column[:_LOOK][known[:_LOOK]]
    return bool((some == np.round(some)).all() and known.any() and (column[known] == np.round(column[known])).all())


def _are_days(column: np.ndarray) -> bool:
    """Tell whether whole numbers are days as 20200131 is."""
    if column.min() < _FIRST_DAY or column.max() > _LAST_DAY:
        return False
    month, day = column // 100 % 100, column % 100
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool(valid.all()) and len(np.unique(column)) >= _DAYS


def _are_names(name: str, column: np.ndarray, owner: np.ndarray) -> bool:
    """Tell whether whole numbers [N] number or name the rows, or those of every site by ``owner`` [N].

    They all differ, and the column is named so, or they leave few numbers out, or they are spread evenly.
    """
    if _NAMED.search(name) and len(column) > _SEVERAL:
        first = np.unique([owner[:_LOOK], column[:_LOOK]], axis=1)
        return first.shape[1] == len(column[:_LOOK]) and len(np.unique([owner, column], axis=1).T) == len(column)
    some = column[:_LOOK]
    if len(column) < _MANY or len(np.unique(some)) < len(some):
        return False
    ordered = np.sort(column)
    if (ordered[1:] == ordered[:-1]).any():
        return False
    dense = np.ptp(column) < 2 * len(column)
    even = np.abs((ordered - ordered[0]) / np.ptp(column) - np.arange(len(column)) / (len(column) - 1)).max()
    return bool(dense or (len(column) >= _SPREAD and even < max(_UNEVEN, _KOLMOGOROV / math.sqrt(len(column)))))


def _mix(keys: np.ndarray, values: np.ndarray) -> None:
    """Mix values [N] into keys [N] in place, so that rows have one key where they are equal, and hardly elsewhere."""
    keys ^= values
    keys *= np.uint64(0x9E3779B97F4A7C15)
    keys ^= keys >> np.uint64(29)


def _columns(names: Sequence[str]) -> str:
    return f"columns {few([*map(repr, names)])} seem" if len(names) > 1 else f"column {names[0]!r} seems"


def _leave(names: Sequence[str]) -> str:
    return f"leave them out by leave_out={[*names]}" if len(names) > 1 else without(names[0])
