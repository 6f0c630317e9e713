"""Doubts about samples: one list of findings, which import warns of and reports may show.

Each is found by rules that chance hardly meets (`_signs`), and is there once for each kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from graphcollab.checks import issue
from graphcollab.findings import Finding
from graphcollab.naming import few
from graphcollab.tasks import _signs
from graphcollab.tasks._values import is_number, without
from graphcollab.tasks._words import spelled_alike
from graphcollab.tasks.preparation import Column
from graphcollab.tasks.samples import Pool, Split

__all__ = [
    "of_codings",
    "of_columns",
    "of_many_classes",
    "of_one_class",
    "of_rows",
    "of_samples",
    "of_spellings",
    "warn_of",
]

_PERSON = re.compile(
    r"(patient|person|subject|participant|proband)([_ .-]?(id|no|nr|num|number|code|key))?|id|mrn|pid|pseudonym"
    r"|(pat|case|fall|client|customer|user|animal)[_ .-]?(id|no|nr|num|number)",
    re.IGNORECASE,
)
_EVENT = re.compile(
    r"((os|pfs|dfs|rfs|surv(ival)?|vital|cens(or)?|event|death)[_ .-]?)?"
    r"(status|event|cens(or(ed|ing)?)?|death|dead|died|delta)",
    re.IGNORECASE,
)
_UNTIL = re.compile(
    r"((os|pfs|dfs|rfs|surv(ival)?|event|fu|follow[_ .-]?up)[_ .-]?)?time"
    r"|(os|pfs|dfs|rfs|surv(ival)?|fu|follow[_ .-]?up)[_ .-]?(days|weeks|months|years)|time[_ .-]?to[_ .-]?\w+",
    re.IGNORECASE,
)
_USE = {"test": "testing", "val": "validation"}
_SHOWN, _MANY_CLASSES = 3, 10
_TIMES = 50.0  # as large or as small, in mean |x|, are inputs of another unit


def warn_of(findings: Iterable[Finding]) -> None:
    """Warn of findings in the name of the first caller outside of the package."""
    for finding in findings:
        issue("quality", finding.subject, finding.message)


def of_columns(
    names: Sequence[str],
    owner: np.ndarray,
    read: Mapping[str, np.ndarray],
    categorical: Sequence[str],
    target: str,
    values: np.ndarray,
    group: Tensor | None,
) -> list[Finding]:
    """Return doubts about columns that should hardly be inputs as they are, and about the target.

    Args:
        names: Names of the sites.
        owner: The site of every row, [N].
        read: Columns to predict from.
        categorical: Those whose numbers are categories.
        target: The column of targets.
        values: Its values, [N].
        group: The group of every row, [N].
    """
    exactly, orderly = _signs.tellers(read, values, group)
    findings = [*_of_tellers(exactly, orderly, target, group is not None)]
    if group is None:
        findings += _of_persons({name: one for name, one in read.items() if name not in (*exactly, *orderly)}, owner)
    numbers = {
        name: (column, ~np.isnan(column))
        for name, column in read.items()
        if column.dtype.kind in "if" and name not in categorical
    }
    findings += _of_whole_numbers(numbers, owner)
    findings += _of_codes({name: (column[known], owner[known]) for name, (column, known) in numbers.items()}, names)
    return [*findings, *_of_target(target, values, read)]


def of_rows(
    columns: Sequence[Column],
    inputs: np.ndarray,
    targets: Tensor,
    splits: Mapping[str, Split],
    owner: Tensor,
    names: Sequence[str],
) -> list[Finding]:
    """Return the doubt that many rows for testing have the inputs [N, D] and the target of rows for training."""
    if len(splits) < 2:
        return []
    found = _signs.row_hashes([(len(one.features), one.categories is not None) for one in columns], inputs, targets)
    cure = "drop rows that are there twice, in pandas by frame.drop_duplicates(), or keep them together by group="
    hashes = {name: found[:, split.index] for name, split in splits.items()}
    return _of_repeats(hashes, torch.cat([owner[split.index] for split in splits.values()]), names, "site", cure)


def of_samples(pools: Mapping[str, Pool], splits: Mapping[str, Split], names: Sequence[str]) -> list[Finding]:
    """Return doubts about arrays as nodes give them: samples in two splits, and inputs of other sizes."""
    findings: list[Finding] = []
    if len(splits) > 1 and pools[splits["train"].pool].inputs[:1].numel() > 1:
        hashed = {name: _signs.hashes(pools[name]) for name in {split.pool for split in splits.values()}}  # [3, N]
        hashes = {name: hashed[split.pool][:, split.index] for name, split in splits.items()}
        nodes = torch.arange(len(names))
        owner = torch.cat([nodes.repeat_interleave(split.sizes) for split in splits.values()])
        cure = "drop samples that are there twice, or keep them together by group= of Tasks.from_arrays"
        findings += _of_repeats(hashes, owner, names, "node", cure)
    return [*findings, *_of_scales(pools, splits, names)]


def of_codings(
    sites: Sequence[str], rows: Sequence[int], names: Mapping[str, Sequence[Sequence[str]]], target: str
) -> list[Finding]:
    """Return the doubt that some sites write values of a column otherwise than others, such as 0, 1 and no, yes.

    Two sites have no value in common, of classes at most half of them, or one counts from 0 and another from 1; each
    has two or more of them and enough rows to show what the other has, and no site has the values of both.

    Args:
        sites: Their names, [K].
        rows: How many training rows each has, [K].
        names: Values that every site has in training rows, [K] lists by column of categories.
        target: The column of classes.
    """
    found = {
        name: differing
        for name, by_site in names.items()
        if (differing := _signs.coded_differently(sites, rows, by_site, 0.5 * (name == target)))
    }
    if not found:
        return []
    told = [f"{'the target' if name == target else 'column'} {name!r} has {one}" for name, one in found.items()]
    message = (
        f"{few(told, '; ')}, and no site has the values of both: if they mean the same, write them alike at all sites"
    )
    return [Finding("coded-differently", f"column {next(iter(found))!r}", message, {"columns": [*found]})]


def of_spellings(subject: str, names: Iterable[str]) -> list[Finding]:
    """Return the doubt that names differ only by case, spaces or signs that nobody sees."""
    several = spelled_alike(names)
    if not several:
        return []
    more = f", … ({len(several)} in all)" if len(several) > _SHOWN else ""
    message = (
        f"{subject} has both {', '.join(several[:_SHOWN])}{more}, which are told apart: if they are the same, write "
        "them alike"
    )
    return [Finding("spelled-differently", subject, message, {"names": len(several)})]


def of_many_classes(target: str, different: int, above: int = _MANY_CLASSES) -> list[Finding]:
    """Return the doubt that targets of so many different whole numbers are classes."""
    if different <= above:
        return []
    message = (
        f"column {target!r} has {different} different whole numbers, which are taken for classes: give loss='mse' if "
        "they are amounts, and loss='cross_entropy' if they are classes"
    )
    return [Finding("many-classes", f"column {target!r}", message, {"different": different})]


def of_one_class(sites: Sequence[str]) -> list[Finding]:
    """Return the doubt that AUC is not defined at sites whose rows are all of one class, if there are any."""
    if not sites:
        return []
    which = f"{'site' if len(sites) == 1 else 'sites'} {few([*map(repr, sites)])}"
    message = (
        f"all rows of {which} are of one class, so metric='auc' is not defined there: leave such sites out, or use "
        "metric='log_loss' or metric='brier'"
    )
    return [Finding("one-class", "metric", message, {"sites": [*sites]})]


def _of_tellers(exactly: Sequence[str], orderly: Sequence[str], target: str, grouped: bool) -> Iterable[Finding]:
    belong = "" if grouped else "; or give group= if rows belong together, such as visits of a patient"
    if exactly:
        message = (
            f"{_each(exactly)} tells the target {target!r} of all rows exactly: {_leave(exactly)} if "
            f"{'they are' if len(exactly) > 1 else 'it is'} the target in other words, or known only after it{belong}"
        )
        yield Finding("tells-target", f"column {exactly[0]!r}", message, {"columns": [*exactly]})
    if orderly:
        message = (
            f"{_each(orderly)} tells the target {target!r} by its order alone, without an error in any row, as by "
            f"thresholds: {_leave(orderly)} if {'they are' if len(orderly) > 1 else 'it is'} known only after it"
        )
        yield Finding("orders-target", f"column {orderly[0]!r}", message, {"columns": [*orderly]})


def _of_persons(read: Mapping[str, np.ndarray], owner: np.ndarray) -> Iterable[Finding]:
    """Yield the doubt that a column names persons of whom some come several times, and no group is given."""
    for name, column in read.items():
        found = _signs.visits(column, owner) if _PERSON.fullmatch(name) and column.dtype.kind != "b" else None
        if found is not None:
            person, rows = found
            shown = repr(person) if isinstance(person, str) else f"{person:.0f}"
            message = (
                f"column {name!r} is used as an input, and has {shown} in {rows} rows of a site, as where rows are of "
                f"one person: group={name!r} keeps such rows together, so that nobody is both trained on and tested "
                "on, and makes no input of the column"
            )
            yield Finding("persons", f"column {name!r}", message, {"rows": rows})
            return


def _of_whole_numbers(numbers: Mapping[str, tuple[np.ndarray, np.ndarray]], owner: np.ndarray) -> Iterable[Finding]:
    """Yield doubts about dates that are written as numbers, and about numbers of rows."""
    whole = {name: column[known] for name, (column, known) in numbers.items() if _signs.whole(column, known)}
    days = [name for name, column in whole.items() if _signs.are_days(column)]
    if days:
        message = (
            f"{_seem(days)} to hold dates that are written as numbers, such as {whole[days[0]][0]:.0f}: make them days "
            f"since the first, or {_leave(days)}"
        )
        yield Finding("dates", f"column {days[0]!r}", message, {"columns": days})
    names = [
        name
        for name, column in whole.items()
        if name not in days and len(column) == len(owner) and _signs.are_names(name, column, owner)
    ]
    if names:
        first, second = whole[names[0]][:2]
        many = len(names) > 1
        message = (
            f"{_seem(names)} to number the rows, such as {first:.0f} and {second:.0f}, and "
            f"{'are used as inputs' if many else 'is used as an input'}: {_leave(names)} if "
            f"{'they say' if many else 'it says'} nothing"
        )
        yield Finding("numbers-rows", f"column {names[0]!r}", message, {"columns": names})


def _of_codes(columns: Mapping[str, tuple[np.ndarray, np.ndarray]], sites: Sequence[str]) -> Iterable[Finding]:
    """Yield the doubt that some numbers mean that nothing is known, given values and sites [n] of columns."""
    found = [(name, one) for name, (values, _) in columns.items() for one in _signs.nines(values, _signs.CODES)]
    empty = {name: _signs.zeros(values, owner, sites) for name, (values, owner) in columns.items()}
    found += [(name, f"0 in all rows of {which}") for name, which in empty.items() if which]
    if found:
        message = (
            f"{few([f'column {name!r} has {one}' for name, one in found])}, far from all other values there, as where "
            "a number says that nothing is known: leave such cells empty if so"
        )
        yield Finding("sentinel", f"column {found[0][0]!r}", message, {"columns": [name for name, _ in found]})


def _of_target(target: str, values: np.ndarray, read: Mapping[str, np.ndarray]) -> Iterable[Finding]:
    """Yield doubts that targets [N] mean that nothing is known, or whether an event was seen until a time."""
    numbers, subject = values, f"column {target!r}"
    if values.dtype.kind == "O":  # words stand for 0 and 1
        place = {one: float(one) if is_number(one) else k % 2 for k, one in enumerate(sorted({*values.tolist()}))}
        numbers = np.array([place[one] for one in values.tolist()], np.float64)
    if found := _signs.nines(numbers, (9.0, *_signs.CODES)):
        message = (
            f"the target {target!r} has {few(found)}, far from all other values, as where a number says that nothing "
            "is known: drop such rows if so"
        )
        yield Finding("sentinel-target", subject, message)
    until = next((name for name, column in read.items() if _UNTIL.fullmatch(name) and column.dtype.kind in "if"), None)
    if _EVENT.fullmatch(target) and until is not None and len(np.unique(values.astype(str))) == 2:
        message = (
            f"the target {target!r} seems to say whether an event was seen until {until!r}: rows that were censored "
            f"before it count as a class like any other, and {until!r} is used as an input. Survival times are not "
            "modelled here: predict what is known of all rows, such as who had it within a year"
        )
        yield Finding("censored", subject, message)


def _of_repeats(
    hashes: Mapping[str, Tensor], owner: Tensor, names: Sequence[str], what: str, cure: str
) -> list[Finding]:
    """Return the doubt that samples of ``hashes`` [3, N] by split, of nodes ``owner`` [total], are in two splits."""
    twice = _signs.repeated(hashes)
    if twice is None:
        return []
    by_node = owner[twice].bincount(minlength=len(names))
    where = few([f"{names[k]!r} {int(by_node[k])}" for k in by_node.nonzero().flatten().tolist()])
    use = _USE["test" if "test" in hashes else "val"]
    message = (
        f"{int(twice.sum())} of {len(twice)} rows have the inputs and the target of another one ({what} {where}), and "
        f"rows for {use} are there for training, too, so models are tested on what they know: {cure}"
    )
    return [Finding("repeated-rows", "splits", message, {"rows": int(twice.sum()), "of": len(twice)})]


def _of_scales(pools: Mapping[str, Pool], splits: Mapping[str, Split], names: Sequence[str]) -> Iterable[Finding]:
    """Yield the doubt that a node's images or series in a split are 50 times as large as is usual, or as small.

    So images of 0 to 255 beside images of 0 to 1 are noticed. What is usual is the median over nodes and splits. The
    columns of tables are looked at one by one, elsewhere.
    """
    if not all(pool.inputs.is_floating_point() and pool.inputs.dim() > 2 for pool in pools.values()):
        return
    rows = {name: pool.inputs.flatten(1) for name, pool in pools.items()}
    sizes = {name: x.norm(1, dim=1).double() / x.shape[1] for name, x in rows.items()}
    means = torch.stack([_signs.means(sizes[split.pool], split) for split in splits.values()])  # [splits, K]
    usual = float(means[means > 0].median()) if bool((means > 0).any()) else 0.0
    odd = (means > _TIMES * usual) | ((means > 0) & (means * _TIMES < usual))
    if bool(odd.any()):
        kinds = [*splits]
        where = few([f"{names[k]!r} ({kinds[s]}) {means[s, k]:.3g}" for s, k in odd.nonzero().tolist()])
        message = (
            f"inputs are of other sizes at some nodes: in the mean of |x|, {where}, where {usual:.3g} is usual. Give "
            "all the same units, such as images of 0 to 1"
        )
        yield Finding("other-units", "inputs", message, {"usual": usual})


def _each(names: Sequence[str]) -> str:
    return f"{'each of the columns' if len(names) > 1 else 'column'} {few([*map(repr, names)])}"


def _seem(names: Sequence[str]) -> str:
    return f"columns {few([*map(repr, names)])} seem" if len(names) > 1 else f"column {names[0]!r} seems"


def _leave(names: Sequence[str]) -> str:
    return f"leave them out by leave_out={[*names]}" if len(names) > 1 else without(names[0])
