"""`describe_table`: the contents of a table before any run: its sites, its columns, and anomalies."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import GraphcollabError
from graphcollab._base.findings import Finding
from graphcollab._base.naming import SHOWN, few, setting
from graphcollab._base.ranges import printable
from graphcollab._base.settings import settings_of
from graphcollab.analysis.held import LEAST
from graphcollab.data._events import coded
from graphcollab.data._fit import declared_columns
from graphcollab.data._frames import judged_by
from graphcollab.data._rows import MOST_CLASSES, Rows, TableSettings, facts_of, read_rows
from graphcollab.data._sites import Draw
from graphcollab.data._values import factorized, is_number, lacks
from graphcollab.data.table import open_table
from graphcollab.data.tasks import Tasks
from graphcollab.report._terms import FEW
from graphcollab.report.values import Cell, Table, count_cell, decimals, number, number_cell

MOST_SITES = 50  # maximum number of sites of a table in text
TRAINABLE = 3  # minimum rows of a site: for training, for validation, and for testing


@dataclass(frozen=True)
class SiteRows:
    """Number of rows of a site, the share of ``missing`` input values, and anomalies (``odd``).

    ``classes`` counts the rows of each class that occurs; a real target has ``mean`` and standard ``deviation`` (with
    n − 1), an event time has ``events``, the number of rows with an observed event.
    """

    name: str
    rows: int
    missing: float
    classes: Mapping[str, int]
    mean: float
    deviation: float
    events: int | None
    odd: tuple[Finding, ...]


@dataclass(frozen=True)
class ColumnValues:
    """Share of rows without a value, in all and at the ``site`` with the largest share ("" if there is none).

    ``categories`` counts the rows of each category; numbers have ``ends``, the minimum and the maximum. ``of_site``
    columns differ between sites, but never within a site.
    """

    name: str
    missing: float
    most_missing: float
    site: str
    categories: Mapping[str, int]
    ends: tuple[float, float]
    of_site: bool


@dataclass(frozen=True)
class Description:
    """The contents of a table, as numbers; ``print`` shows them as text, and `page` as a page.

    Args:
        source: The file, if it is one.
        node, target, group: The columns of sites, targets and groups.
        total: The rows of all sites together.
        ends: Minimum and maximum of a real target.
        loss, metric: Loss and metric of models; "" if they must be specified first.
        sites: The sites, in the order of `Tasks.names`.
        columns: The input columns.
        findings: Anomalies in the table, as in `Tasks.findings`.
        refused: The reason why tasks cannot be made from the table with these settings, "" if they can.
    """

    source: str
    node: str
    target: str
    group: str
    total: SiteRows
    ends: tuple[float, float]
    loss: str
    metric: str
    sites: tuple[SiteRows, ...] = field(repr=False)
    columns: tuple[ColumnValues, ...] = field(repr=False)
    findings: tuple[Finding, ...] = field(repr=False)
    refused: str

    def __str__(self) -> str:
        told = "\n".join(printable(str(one)) for one in summary(self))
        tables = [str(sites_described(self, MOST_SITES)), str(columns_described(self))]
        doubts = "\n".join(["findings:", *(f"  {one}" for one in self.findings)]) if self.findings else "findings: none"
        return "\n\n".join([told, *tables, printable(doubts)])


def describe_table(frame: Any, **settings: Any) -> Description:
    """Describe a table before any run: sites, target, missing values, and anomalies.

    Rows without a target or a site are ignored. A table that `Tasks.from_frame` would reject because of such rows or
    sites with too few rows is described nevertheless; ``refused`` contains the error message.

    Args:
        frame: A table, as accepted by `Tasks.from_frame`.
        settings: Settings of `Tasks.from_frame`.

    Raises:
        ValueError: If a column does not exist or cannot be read.

    Example:
        >>> from graphcollab.report import describe_table
        >>> table = {"site": ["a", "b", "b"] * 10, "age": [None, 50, 60] * 10, "ill": [0, 1, 0] * 10}
        >>> found = describe_table(table, target="ill")
        >>> [(site.name, site.rows, dict(site.classes), site.missing) for site in found.sites]
        [('a', 10, {'0': 10}, 1.0), ('b', 20, {'0': 10, '1': 10}, 0.0)]
        >>> [str(one) for one in found.sites[0].odd]
        ['one class only', 'few rows', 'no value of age']
    """
    given = settings_of(Tasks.from_frame, settings)
    given["loss"] = "cox" if given["loss"] is None and given["event"] is not None else given["loss"]
    source, table = str(frame) if isinstance(frame, str | os.PathLike) else "", open_table(frame, given["node"])
    names = ("node", "target", "event", "weight", "group", "columns", "leave_out", "categorical")
    more = ("indicator_above", "standardize_target", "preparation", "refit", "min_rows")
    own = {name: given[name] for name in (*names, *more)}
    declared, per_site = declared_columns(given["categories"] or {}), given["pooled"] == "per_site"
    how = TableSettings(**own, declared=declared, per_site=per_site, drop_missing=True)
    with own_filter("ignore", code="quality"), np.errstate(invalid="ignore"):
        rows = read_rows(table, how, Draw(given["split"], 0, 0, False, 0))
        facts = facts_of(rows, given["loss"])
        if rows.events is not None:
            rows = replace(rows, events=coded(given["event"], rows.events, rows.events)[0])
        tasks, refused = _tasks(table, settings)
        usable = {"drop_missing_target": True}
        for further_setting in ({}, {"min_rows": max(given["min_rows"], TRAINABLE)}):
            if tasks is None:  # find the remaining anomalies
                usable |= further_setting
                tasks, further = _tasks(table, {**settings, **usable})
                refused += f"; and then: {further}" * (further not in refused)
        tested = 1.0 if given["split"] is not None or not given["test_fraction"] else given["test_fraction"]
        ambiguous = facts["different"] > MOST_CLASSES
        sites, total, columns = _counted(rows, facts["amounts"] or ambiguous, tested)
    unseen = Finding(
        "not-looked-for", "table", "what else is odd is looked for once nothing keeps a run from beginning"
    )
    findings = (*rows.left_out, unseen) if tasks is None else tasks.findings
    known = rows.values if rows.values.dtype.kind != "O" and not total.classes else np.array([math.nan])
    judged = ("", "") if ambiguous else judged_by(facts["amounts"], given["loss"], given["metric"])
    loss, metric = (one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__) for one in judged)
    findings = tuple(one for one in findings if not refused or one.code != "left-out-sites")
    how, ends = rows.how, (float(known.min()), float(known.max()))
    group = how.group if isinstance(how.group, str) else ""
    read = source, how.node, how.target, group, total, ends
    return Description(*read, loss, metric, sites, columns, findings, refused)


def _tasks(table: Any, settings: Mapping[str, Any]) -> tuple[Tasks | None, str]:
    try:
        return Tasks.from_frame(table, **settings), ""
    except GraphcollabError as error:
        return None, str(error)


def _counted(
    rows: Rows, amounts: bool, tested: float
) -> tuple[tuple[SiteRows, ...], SiteRows, tuple[ColumnValues, ...]]:
    """Return the description of the rows of every site, of all together, and of every column."""
    sites, many = rows.sites, rows.sites.rows.sizes.numpy()
    owner, (words, codes) = sites.owner.numpy(), factorized(rows.values)
    lacking = np.stack([np.bincount(owner[lacks(one)], minlength=len(many)) for one in rows.read.values()])  # [D, K]
    empty = (lacking == many) & (lacking.sum(1) < many.sum())[:, None]

    def counted(name: str, own: np.ndarray, missing: int, odd: tuple[Finding, ...] = ()) -> SiteRows:
        classes = {} if amounts else _frequencies(words, codes[own])
        mean = float(rows.values[own].mean()) if amounts else math.nan
        deviation = float(rows.values[own].std(ddof=1)) if amounts and len(own) > 1 else math.nan
        events = None if rows.events is None else int(rows.events[own].sum())
        return SiteRows(name, len(own), missing / (len(own) * len(lacking)), classes, mean, deviation, events, odd)

    def odd(k: int, own: np.ndarray) -> Iterator[Finding]:
        kinds, counts = np.unique(codes[own], return_counts=True)
        others = own[codes[own] != kinds[counts.argmax()]]
        if rows.events is not None:
            others = own[rows.events[own] > 0]
        beside = len(others) if rows.groups is None else len(rows.groups[others].unique())
        lack = [name for name, nothing in zip(rows.read, empty[:, k], strict=True) if nothing]
        what = "value" if amounts else "class"
        told = {"one-class": f"one {what} only" * (len(kinds) == 1)}
        told["few-beside"] = f"{beside} beside the most frequent {what}" * (len(kinds) > 1 and beside < LEAST)
        if rows.events is not None:
            told = {"few-events": f"{beside} events" * (beside < LEAST)}
        many = len(own) if rows.groups is None else len(rows.groups[own].unique())
        told["few-rows"] = f"few {'rows' if rows.groups is None else 'groups'}" * (round(tested * many) < FEW)
        told["no-values"] = f"no value of {few(lack)}" * bool(lack)
        yield from (Finding(code, f"site {sites.names[k]!r}", text) for code, text in told.items() if text)

    found = []
    for k, name in enumerate(sites.names):
        own = sites.rows.of(k).numpy()
        found.append(counted(name, own, int(lacking[:, k].sum()), tuple(odd(k, own))))
    columns = []
    for (name, values), lack in zip(rows.read.items(), lacking, strict=True):
        worst, numbers = int((lack / many).argmax()), values.dtype.kind != "O" and name not in rows.categorical
        column, known = factorized(values), values[~lacks(values)] if numbers else np.empty(0)
        ends = (float(known.min()), float(known.max())) if len(known) else (math.nan, math.nan)
        most, where = float(lack[worst] / many[worst]), sites.names[worst] if lack.any() else ""
        kinds = {} if numbers else _frequencies(*column)
        of_site = _of_site(owner, *column)
        columns.append(ColumnValues(name, float(lack.sum() / many.sum()), most, where, kinds, ends, of_site))
    return tuple(found), counted("all sites", np.arange(len(owner)), int(lacking.sum())), tuple(columns)


def _of_site(owner: np.ndarray, words: Sequence[str], codes: np.ndarray) -> bool:
    """Return whether a column has several values, but at most one at every site."""
    pairs = np.unique(np.stack([owner, codes])[:, codes >= 0], axis=1)
    return len(words) > 1 and len(np.unique(pairs[0])) == pairs.shape[1]


def _frequencies(words: Sequence[str], codes: np.ndarray) -> dict[str, int]:
    counts = np.bincount(codes[codes >= 0], minlength=len(words)).tolist()
    return {word: many for word, many in zip(words, counts, strict=True) if many}


def summary(description: Description) -> list[Finding]:
    """Describe a row, a site, the target, the metric of models, and the sites with anomalies."""
    total, sites, target = description.total, description.sites, description.target
    sizes = sorted(site.rows for site in sites)
    grouped = f"; rows of one {description.group!r} belong together" * bool(description.group)
    spread = f"{sizes[0]:,} to {sizes[-1]:,} rows (median {float(np.median(sizes)):,.0f})"
    spread = f"{sizes[0]:,} rows each" if sizes[0] == sizes[-1] else spread
    rows = (
        f"{description.source or 'The table'} has {total.rows:,} rows, each a sample, from {len(sites)} sites (column "
        f"{description.node!r}) of {spread}{grouped}."
    )
    judged = f"Models are trained by {description.loss} and judged by {description.metric}."
    judged = judged if description.loss else "loss= must say whether that is an amount or a class."
    missing = _percent(total.missing)
    inputs = f"Columns to predict from: {len(description.columns)}; {missing} of their values are missing."
    if len(total.classes) > 2 and all(map(is_number, total.classes)):
        judged += f" If they are counts, give {setting(loss='poisson')}; if other amounts, {setting(loss='mse')}."
    found = [
        Finding("rows", "table", rows),
        Finding("target", f"column {target!r}", f"To predict: {target}, {_of_target(description)}."),
        Finding("judged", "loss", judged),
        Finding("inputs", "columns", inputs),
    ]
    what, units = "class" if total.classes else "value", "groups" if description.group else "rows"
    for code, said in {
        "few-events": f"Fewer than {LEAST} events, too few for a claim, at",
        "one-class": f"One {what} only at",
        "few-beside": f"Fewer than {LEAST} {units} beside the most frequent {what}, too few for a claim, at",
        "few-rows": f"Few {units}, fewer than {FEW} for testing, at",
    }.items():
        if named := [site.name for site in sites if code in {one.code for one in site.odd}]:
            which = f"{len(named)} of {len(sites)} sites ({', '.join(named[:SHOWN])}{', …' * (len(named) > SHOWN)})"
            found.append(Finding(code, "sites", f"{said} {which}.", {"sites": named}))
    if named := [column.name for column in description.columns if column.of_site]:
        said = f"The same for all rows of a site, so that no site can learn from it alone: {few(named)}."
        found.append(Finding("of-site", "columns", said, {"columns": named}))
    if named := [c.name for c in description.columns if len(c.categories) == 1 or c.ends[0] == c.ends[1]]:
        said = f"One value in all rows, which tells nothing: {few(named)}."
        found.append(Finding("one-value", "columns", said, {"columns": named}))
    if description.refused:
        found.append(Finding("refused", "table", f"As it is, no run can begin: {description.refused}."))
    return found


def _of_target(description: Description) -> str:
    total, classes = description.total, description.total.classes
    if not classes:
        mean, deviation, *ends = (number(one, None) for one in (total.mean, total.deviation, *description.ends))
        what = "an amount" if total.events is None else f"a time until an event, seen in {total.events:,} rows"
        return f"{what}: mean {mean}, standard deviation {deviation}, from {ends[0]} to {ends[1]}"
    if len(classes) > SHOWN:
        rare = min(classes, key=classes.__getitem__)
        return f"one of {len(classes)} classes, of which {rare!r} is the rarest ({classes[rare]:,} rows)"
    told = few([f"{name} in {many:,} rows ({_percent(many / total.rows)})" for name, many in classes.items()])
    return f"one of {len(classes)} classes: {told}" if len(classes) > 1 else f"one class only: {told}"


def _percent(share: float) -> str:
    return f"{number(100 * share, 1)} %"


def sites_described(description: Description, most: int | None = None) -> Table:
    """Return the table of sites; with more than ``most``, those with anomalies and the smallest."""
    sites, total, classes = description.sites, description.total, description.total.classes
    odd = [len({one.code for one in site.odd} - {"few-rows"}) for site in sites]
    order = sorted(range(len(sites)), key=lambda k: (-odd[k], sites[k].rows))
    chosen = [sites[k] for k in sorted(order[:most])]
    if not classes:
        heads = [f"mean {description.target}", "standard deviation", *["events"] * (total.events is not None)]
    elif len(classes) <= SHOWN:
        heads = [f"{description.target} = {name}" for name in classes]
    else:
        heads = ["classes", "rarest class"]
    digits = decimals([total.deviation if total.deviation > 0 else 1.0])

    def row(site: SiteRows) -> list[Cell]:
        if not classes:
            target = [number_cell(one, digits) for one in (site.mean, site.deviation)]
            target += [] if site.events is None else [count_cell(site.events)]
        elif len(classes) <= SHOWN:
            target = [count_cell(site.classes.get(name, 0)) for name in classes]
        else:
            rarest = min(site.classes, key=site.classes.__getitem__)
            many = site.classes[rarest]
            target = [count_cell(len(site.classes)), Cell(f"{rarest}: {many:,} row{'s' * (many != 1)}", many)]
        odd = Cell("; ".join(map(str, site.odd)))
        return [Cell(site.name), count_cell(site.rows), *target, number_cell(100 * site.missing, 1), odd]

    left = len(sites) - len(chosen)
    said = f"Of {len(sites)} sites the {len(chosen)} oddest and smallest are shown; {left} are left out."
    table = Table(
        ["site", "rows", *heads, "missing (%)", "odd"], [*map(row, chosen), row(total)], foot=1, caption="Every site"
    )
    return table.noting(Finding("sites", "table", said, {"left_out": left})) if left else table


def columns_described(description: Description) -> Table:
    """Return the table of the input columns."""
    heads = ["column", "kind", "missing (%)", "most at a site (%)", "values"]

    def row(one: ColumnValues) -> list[Cell]:
        ends, named = [number(end, None) for end in one.ends if not math.isnan(end)], few([*one.categories])
        values = f"{len(one.categories)}: {named}" if one.categories else " to ".join(ends)
        most = 100 * one.most_missing
        worst = Cell(f"{one.site} {number(most, 1)}", most) if one.site else Cell()
        kind = "categories" if one.categories else "numbers"
        return [Cell(one.name), Cell(kind), number_cell(100 * one.missing, 1), worst, Cell(values)]

    return Table(heads, [*map(row, description.columns)], caption="Every column to predict from")
