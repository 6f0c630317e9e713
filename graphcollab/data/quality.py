"""Findings about table columns: import warns of them, and `Tasks.findings` keeps them for reports.

Ordinary columns rarely exceed the thresholds by chance. A finding names all affected columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from graphcollab._base.findings import Finding
from graphcollab._base.naming import few, setting
from graphcollab.data._values import is_number, lacks
from graphcollab.data.quality_of_leaks import Columns, finding, leave, numbered, of_leaks, of_parts, of_sums

Known = Mapping[str, tuple[np.ndarray, np.ndarray]]

_CODES = (*(-9.0, 77, 88, 777, 888, 7777, 8888), *(s * (10.0**d - 1) for d in range(2, 8) for s in (-1, 1)))
_FACTORS = (2.2046, 2.54, 3.281)  # between common units: pounds, inches, feet; any factor from 5 on counts
_NUMBER = r"[_ .-]?(id|no|nr|num|number|code|key)"
_PERSON = re.compile(
    rf"(patient|person|subject|participant|proband)({_NUMBER})?|id|mrn|pid|pseudonym"
    rf"|(pat|case|fall|client|customer|user|animal|child|student|pupil|respondent|individual|resident|worker){_NUMBER}",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(
    r"(^|[^a-zA-Z])(?i:id|mrn|pid|uid|ssn|(patient|case|record|subject|row|serial)[_ .-]?(no|nr|num|number))$"
    r"|[a-z](Id|ID)$|^(?i:index|unnamed: 0|patient|subject|participant|person|(pat|fall|lfd)[_ .-]*(no|nr|num))$"
)
_SPAN = r"(os|pfs|dfs|rfs|surv(ival)?|vital|cens(or)?|event|death|fu|follow[_ .-]?up)[_ .-]?"
_EVENT = re.compile(rf"({_SPAN})?(status|event|cens(or(ed|ing)?)?|death|dead|died|delta)", re.IGNORECASE)
_UNTIL = re.compile(rf"({_SPAN})?(time|days|weeks|months)|{_SPAN}years|time[_ .-]?to[_ .-]?\w+", re.IGNORECASE)

TIMES = 20  # distinct times; fewer are terms or ages rather than censoring times


def of_columns(
    read: Columns,
    categorical: Iterable[str],
    target: str,
    values: np.ndarray,
    owner: np.ndarray,
    sites: Sequence[str],
    group: Tensor | None,
) -> list[Finding]:
    """Return findings about input columns ``read`` and target ``values``; ``owner`` [N] is the site of every row."""
    findings = [*of_leaks(read, target, values, group)]
    leaks = {name for one in findings for name in one.numbers["columns"]}
    if group is None:
        findings += _of_persons({name: one for name, one in read.items() if name not in leaks}, owner)
    numbers = {name: one for name, one in read.items() if one.dtype.kind in "if" and name not in {*categorical}}
    findings += _of_identifiers(numbers, owner)
    known = {name: np.isfinite(one) for name, one in numbers.items()}
    pairs = {name: (one[known[name]], owner[known[name]]) for name, one in numbers.items()}
    amounts = {target: (values, owner)} if values.dtype.kind in "if" else {}
    findings += [*_of_sentinels(pairs, sites), *_of_units({**pairs, **amounts}, sites, target)]
    others = {name: one for name, one in numbers.items() if name not in leaks}
    findings += [*of_sums(others, target, values), *of_parts(others, target, values)]
    return [*findings, *_of_target(target, values, read)]


def _of_persons(read: Columns, owner: np.ndarray) -> Iterator[Finding]:
    """Yield a column that names at least ten persons, if a twentieth of the rows repeat a person at the same site."""
    for name, column in read.items():
        if not _PERSON.fullmatch(name) or column.dtype.kind == "b":
            continue
        known = ~lacks(column)
        persons = numbered(column[known]) * (1 + owner.max()) + owner[known]
        _, first, counts = np.unique(persons, return_index=True, return_counts=True)
        again = len(persons) - len(counts)
        if len(counts) < 10 or again < max(5, 0.05 * len(persons)) or len(persons) > 30 * len(counts):
            continue
        person, rows = column[known][first[counts.argmax()]], int(counts.max())
        shown = repr(person) if isinstance(person, str) else f"{person:.0f}"
        message = (
            f"column {name!r} is used as an input, and has {shown} in {rows} rows of a site, as where rows "
            f"are of one person: {setting(group=name)} keeps such rows together, so that nobody is both trained on and "
            "tested on, and makes no input of the column"
        )
        yield finding("persons", [name], message, rows=rows)
        return


def _of_identifiers(numbers: Columns, owner: np.ndarray) -> Iterator[Finding]:
    """Yield integer columns that encode days, such as 20200131, or that number or identify the rows."""
    whole = {name: column[np.isfinite(column)] for name, column in numbers.items()}
    whole = {name: column for name, column in whole.items() if len(column) and (column == column.round()).all()}
    days = [name for name, column in whole.items() if _are_days(column)]
    if days:
        message = (
            f"{_seem(days)} to hold dates that are written as numbers, such as {whole[days[0]][0]:.0f}: make them days "
            f"since the first, or {leave(days)}"
        )
        yield finding("dates", days, message)
    full = {name: column for name, column in whole.items() if name not in days and len(column) == len(owner)}
    names = [name for name, column in full.items() if _are_names(name, column, owner)]
    if names:
        shown, many = " and ".join(f"{one:.0f}" for one in full[names[0]][:2]), len(names) > 1
        message = (
            f"{_seem(names)} to number the rows, such as {shown}, and "
            f"{'are used as inputs' if many else 'is used as an input'}: {leave(names)} if "
            f"{'they say' if many else 'it says'} nothing"
        )
        yield finding("numbers-rows", names, message)


def _are_days(column: np.ndarray) -> bool:
    month, day = column // 100 % 100, column % 100
    valid = (column >= 19000101) & (column <= 20991231) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool(valid.all()) and len(np.unique(column)) >= 3


def _are_names(name: str, column: np.ndarray, owner: np.ndarray) -> bool:
    """Return whether integers are unique at each site in a column named as identifiers, or unique and dense overall."""
    if _IDENTIFIER.search(name) and len(column) > 10:
        return len(np.unique(column * (1.0 + owner.max()) + owner)) == len(column)
    dense = len(column) >= 100 and np.ptp(column) < 2 * len(column)
    return bool(dense and len(np.unique(column)) == len(column))


def _of_sentinels(columns: Known, sites: Sequence[str]) -> Iterator[Finding]:
    """Yield numbers that seem to encode missing values: runs of nines, and 0 far from all other values."""
    found = [(name, one) for name, (values, _) in columns.items() for one in _nines(values, _CODES)]
    for name, (values, owner) in columns.items():
        zero, others = values == 0, np.sort(np.abs(values[values != 0]))
        rows, zeros = (np.bincount(owner[mask], minlength=len(sites)) for mask in (zero | True, zero))
        empty = [repr(sites[k]) for k in np.flatnonzero((zeros == rows) & (rows >= 10)).tolist()]
        one_sign = len(others) and (values.min() >= 0 or values.max() <= 0)
        steps = np.diff(np.unique(others))  # 0 is no code if it continues the values, such as months from 1 on
        far = len(steps) >= 19 and others[0] > max(0.25 * np.median(others), 3 * np.median(steps))
        if zeros.sum() >= 3 and one_sign and far:
            where = f"all rows of site{'s' * (len(empty) > 1)} {few(empty)}" if empty else f"{zeros.sum()} rows"
            found.append((name, f"0 in {where}"))
    if found:
        told = few([f"column {name!r} has {one}" for name, one in found])
        message = (
            f"{told}, far from all other values there, as where a number says that nothing is known: leave such cells "
            "empty if so"
        )
        yield finding("sentinel", [name for name, _ in found], message)


def _nines(values: np.ndarray, codes: Sequence[float]) -> list[str]:
    """Return the codes in at least three rows each that are farther from the other values than these are apart."""
    if not len(values) or not (values.min() in codes or values.max() in codes):
        return []
    coded = np.isin(values, codes)
    others = values[~coded]
    if len(others) < 10 or not (span := np.ptp(others)) > 0:
        return []
    counts = zip(*(one.tolist() for one in np.unique(values[coded], return_counts=True)), strict=True)
    reach = max(span, 3 * np.diff(np.unique(others)).max())
    least = 0 if others.min() >= 0 else others.min() - reach
    return [f"{code:.0f} in {n} rows" for code, n in counts if n >= 3 and (code < least or code > others.max() + reach)]


def _of_units(columns: Known, sites: Sequence[str], target: str) -> Iterator[Finding]:
    """Yield columns whose median and spread at a site differ from other sites by the factor between two units."""
    found = [(name, one) for name, (values, owner) in columns.items() for one in _other_units(values, owner, sites)]
    if found:
        told = few([f"column {name!r} {one}" for name, one in found])
        own, code = setting(pooled="per_site"), setting(categorical=[found[0][0]])
        cure = f", or give {own}; if it is a code, give {code}" * (found[0][0] != target)
        message = f"{told}, as where its unit differs: give all sites the same unit{cure}"
        yield finding("other-units", list(dict.fromkeys(name for name, _ in found)), message)


def _other_units(values: np.ndarray, owner: np.ndarray, sites: Sequence[str]) -> Iterator[str]:
    """Yield sites whose values [n] are outside the usual range, by the factor between two units or by at least 5.

    A site is skipped if others are also outside, by a different factor larger than its cube root, or, for factors below
    5, if others lie between a quarter and three quarters of its own: sites then differ by nature.
    """
    counts = np.bincount(owner, minlength=len(sites))
    many = np.flatnonzero(counts >= 10)
    if len(many) < 2:
        return
    first, last = (counts.cumsum() - counts)[many, None], counts[many, None] - 1
    place = first + np.round(last * np.array((0.1, 0.25, 0.5, 0.75, 0.9))).astype(np.int64)
    bounds = values[np.lexsort((values, owner))][place]  # [sites, 5]
    usual = bounds[bounds[:, 2].argsort(kind="stable")[(len(many) - 1) // 2]]
    beyond = np.flatnonzero((bounds[:, 0] > usual[4]) | (bounds[:, 4] < usual[0]))
    sizes, own = (np.stack([one[..., 2], one[..., 3] - one[..., 1]], -1) for one in (bounds[beyond], usual))
    positive = (sizes > 0).all(1) & (own > 0).all()  # medians and spreads
    beyond, sizes = beyond[positive], sizes[positive]
    times = np.log(sizes / own)
    apart = np.abs(np.abs(times)[:, None] - np.log(_FACTORS)[:, None])  # [beyond, factors, 2]
    fits = (apart < np.log((1.2, 1.6))).all(2).any(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        way = np.log(bounds[:, 2] / usual[2]) / times[:, :1]  # [beyond, sites], 0 at the usual median, 1 at the site's
    fits &= ~((way > 0.25) & (way < 0.75)).any(1)
    fits |= (np.abs(times[:, 0]) > np.log(5)) & (np.abs(times[:, 0] - times[:, 1]) < np.log(2))
    unlike = np.abs(times[:, 0] - times[:, :1]) > np.log(1.5)  # [beyond, beyond]
    fits &= np.abs(times[:, 0]) > 3 * np.where(unlike, np.abs(times[:, 0]), 0).max(1, initial=0)
    for k, (middle, _) in zip(beyond[fits].tolist(), sizes[fits], strict=True):
        yield f"has the median {middle:.3g} at site {sites[many[k]]!r}, where {usual[2]:.3g} is usual"


def _of_target(target: str, values: np.ndarray, read: Columns) -> Iterator[Finding]:
    """Yield targets that seem to encode missing values, or that seem to be event indicators or censored times."""
    numbers = values
    if values.dtype.kind == "O":  # words that stand for 0 and 1
        place = {one: float(one) if is_number(one) else k % 2 for k, one in enumerate(sorted({*values.tolist()}))}
        numbers = np.array([place[one] for one in values.tolist()], np.float64)
    if found := _nines(numbers, (9.0, *_CODES)):
        message = (
            f"the target {target!r} has {few(found)}, far from all other values, as where a number says that nothing "
            "is known: drop such rows if so"
        )
        yield finding("sentinel-target", [target], message)
    times = [name for name, column in read.items() if _UNTIL.fullmatch(name) and column.dtype.kind in "if"]
    until = next((name for name in times if len(np.unique(read[name])) >= TIMES), None)
    event = next((name for name, column in read.items() if _EVENT.fullmatch(name) and _are_two(column)), None)
    if _UNTIL.fullmatch(target) and event is not None and values.dtype.kind in "if" and len(np.unique(values)) >= TIMES:
        message = (
            f"the target {target!r} seems to be a time until an event, which {event!r} says of which rows it was seen: "
            f"give {setting(event=event)}, or times that only end the record count as times of the event"
        )
        yield finding("censored", [target], message)
    if _EVENT.fullmatch(target) and until is not None and _are_two(values):
        message = (
            f"the target {target!r} seems to say whether an event was seen until {until!r}: rows that were censored "
            f"before it count as a class like any other, and {until!r} is used as an input. Model the time instead, by "
            f"{setting(target=until)} and {setting(event=target)}, or predict what is known of all rows, such as who "
            "had it within a year"
        )
        yield finding("censored", [target], message)


def _are_two(column: np.ndarray) -> bool:
    return len(np.unique(column.astype(str))) == 2


def _seem(names: Sequence[str]) -> str:
    return f"columns {few([*map(repr, names)])} seem" if len(names) > 1 else f"column {names[0]!r} seems"
