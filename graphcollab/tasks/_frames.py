"""Tasks of a table: its rows divided, and prepared by what their training rows say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab.checks import warn
from graphcollab.tasks._arguments import TAKEN, choose, read_by, require_said, require_same
from graphcollab.tasks._columns import Table, as_text, factorised, open_table
from graphcollab.tasks._csv import without
from graphcollab.tasks._doubts import refuse_no_categories, warn_of_spellings
from graphcollab.tasks._groups import to_groups
from graphcollab.tasks._pairs import to_weights
from graphcollab.tasks._sites import SAMPLES, Draw, Sites, find_sites
from graphcollab.tasks._suspects import warn_of_columns, warn_of_repeats
from graphcollab.tasks._targets import DROP, is_real, refuse_missing, targets_of, warn_of_one_class
from graphcollab.tasks.column import Column, encoded, numbers_of
from graphcollab.tasks.metric_fit import of_one_class
from graphcollab.tasks.preparation import Preparation
from graphcollab.tasks.samples import Pool, Split

__all__ = ["Fit", "tasks_of_table"]

_MOST_CATEGORIES = 1000
_LETTERS = 4  # bytes of a name that count as one float


@dataclass(frozen=True)
class Fit:
    """What is fitted to training rows.

    Args:
        per_site: Whether every site has means and deviations of its own.
        standardise_target: Whether real targets are standardised.
        indicator_above: Columns of which a larger share of training rows lacks the value get an indicator.
        like: Whose columns, categories, classes and indicators to take over.
    """

    per_site: bool
    standardise_target: bool
    indicator_above: float
    like: Preparation | None = None


def tasks_of_table(
    frame: Any,
    node: str,
    target: str,
    weight: Any,
    group: Any,
    columns: Sequence[str] | None,
    leave_out: Sequence[str],
    categorical: Sequence[str],
    draw: Draw,
    how: Fit | Preparation,
    loss: Any,
    metric: Any,
) -> dict[str, Any]:
    """Return the fields of `Tasks` for the rows of a table, with columns fitted or as they were; see `from_frame`."""
    known = how if isinstance(how, Preparation) else how.like
    if known is not None:
        require_same(known, node, target, columns, leave_out, categorical)
        node, target = known.node, known.target.name
    if node == target:
        raise ValueError(f"node= and target= both name {node!r}: one is the column of sites, the other what to predict")
    table = open_table(frame, node)
    if known is None:
        require_said(table, node, target)
    taken = [node, target]
    if isinstance(draw.words, str):
        taken.append(draw.words)
        draw = replace(draw, words=table.column(draw.words, f"split={draw.words!r}"))
    if isinstance(weight, str):
        taken.append(weight)
    if known is not None and group is None:
        group = _remembered(known, table)
    together = group if isinstance(group, str) else None
    if isinstance(group, str):
        taken.append(group)
        group = table.column(group, f"group={group!r}")
    sites = _sites(table, node, f"node={node!r}" if known is None else TAKEN)
    values = table.column(target, f"target={target!r}" if known is None else TAKEN)
    free = [name for name in table.names if name not in taken]
    chosen = choose(table, free, columns, leave_out, categorical) if known is None else read_by(known, table, free)
    read = {name: table.column(name) for name in chosen}
    refuse_missing(sites, values, target)
    weights = _weights(sites, table, weight)
    declared = [name for name in chosen if name in table.declared and name not in categorical]
    if known is None:
        for name in declared:
            refuse_no_categories(name, as_text(read[name]), sites.at, _if_categories(name), declared=True)
        categorical = [*categorical, *declared]
    says = "cross_entropy" if loss is None and target in table.declared else loss
    real = not known.classes if known is not None else is_real(sites, values, target, says)
    if not real and known is None and isinstance(how, Fit) and how.standardise_target:
        raise ValueError(
            f"standardise_target=True is for amounts, and the targets in column {target!r} are classes: leave it out, "
            "or give loss='mse' if they are amounts"
        )
    groups = None if group is None else to_groups(sites, group)
    splits = draw.divide(sites, None if real else torch.from_numpy(factorised(values)[1]), groups)
    if isinstance(how, Fit):
        how = Seen(sites, splits["train"], how).preparation(read, categorical, node, target, values, real)
        if known is None:
            warn_of_columns(sites, read, categorical, target, values, groups)
    place = how.places(sites.names)[sites.owner.numpy()]
    readable = {
        one.name: read[one.name] if one.categories is not None else numbers_of(one.name, read[one.name], sites.at)
        for one in how.columns
    }
    for one in how.columns if how is known else ():
        one.warn_of_strangers(readable[one.name], place)
    inputs = encoded([(one, readable[one.name]) for one in how.columns], place)
    default = ("mse", "mae") if real else ("cross_entropy", "accuracy")
    targets = targets_of(sites, how.target, values, place, loss)
    warn_of_repeats(sites, how.columns, inputs, targets, splits)
    if len(how.classes) == 1:
        warn(f"all rows have the target {how.classes[0]!r} in column {target!r}: nothing can be learned", UserWarning)
    elif metric == "auc":
        warn_of_one_class(of_one_class(sites.names, splits.values(), targets))
    return {
        "pools": {SAMPLES: Pool(torch.from_numpy(inputs), targets, weights, groups)},
        "splits": splits,
        "names": sites.names,
        "node_id": sites.node_id,
        "loss": default[0] if loss is None else loss,
        "metric": default[1] if metric is None else metric,
        "preparation": replace(how, group=together),
        "split_given": draw.words is not None,
    }


def _sites(table: Table, node: str, given: str) -> Sites:
    """Find the sites of a table."""
    column = table.column(node, given)
    if not len(column):
        raise ValueError(f"the table has no rows, only the columns {', '.join(map(repr, table.names))}")
    sites = find_sites(column, f" in column {node!r}")
    warn_of_spellings(f"column {node!r}, which names the sites,", sites.names)
    if table.sizes is None:
        return sites
    empty = [name for name, size in table.sizes.items() if not size]
    if empty:
        raise ValueError(f"site {empty[0]!r} has no rows: leave it out")
    first = dict(zip(table.sizes, np.cumsum([0, *table.sizes.values()]).tolist(), strict=False))
    return replace(sites, first=tuple(first[name] for name in sites.names))  # rows are counted site by site


@dataclass(frozen=True)
class Seen:
    """Fits columns to the training rows of all sites, by counts and sums of every site."""

    sites: Sites
    train: Split
    fit: Fit

    def preparation(
        self,
        read: Mapping[str, np.ndarray],
        categorical: Sequence[str],
        node: str,
        target: str,
        values: np.ndarray,
        real: bool,
    ) -> Preparation:
        """Fit the columns that were ``read``, and the target's values."""
        like = self.fit.like
        before = {} if like is None else {column.name: column for column in like.columns}
        columns = tuple(self.column(name, one, name in categorical, before.get(name)) for name, one in read.items())
        aim = self.target(target, values, real) if like is None or real else replace(like.target, **self.unchanged())
        sites = self.sites.names if self.fit.per_site else ()
        return Preparation(columns, aim, node, sites, self.floats(columns, aim))

    def column(self, name: str, values: np.ndarray, categorical: bool, like: Column | None) -> Column:
        """Fit a column of inputs: of numbers, unless it holds text or is to be categorical, or ``like`` it was."""
        if like is not None and like.categories is not None:
            return replace(like, **self.unchanged())
        if like is not None:
            mean, deviation = self.moments(numbers_of(name, values, self.sites.at))
            return replace(like, mean=mean, deviation=deviation)
        if values.dtype.kind == "O" and not categorical:
            refuse_no_categories(name, values, self.sites.at, _if_categories(name))
        if values.dtype.kind != "O" and not categorical:
            mean, deviation = self.moments(numbers_of(name, values, self.sites.at))
            if np.isnan(values[self.train.index.numpy()]).all():
                warn(f"column {name!r} has no value in any training row: {without(name)}", UserWarning)
            return Column(name, mean, deviation, None, self.indicator(~np.isnan(values)))
        names, codes = factorised(values)
        warn_of_spellings(f"column {name!r}", names)
        seen = np.unique(codes[self.train.index.numpy()])
        kept = tuple(names[k] for k in seen.tolist() if k >= 0)
        if len(kept) > _MOST_CATEGORIES:
            raise ValueError(f"column {name!r} has {len(kept)} different values: {without(name)}, or group them first")
        known = self.indicator(codes >= 0)
        return Column(name, categories=kept, indicator=known, numbers=values.dtype.kind != "O", **self.unchanged())

    def target(self, name: str, values: np.ndarray, real: bool) -> Column:
        """Fit the targets."""
        if real:
            values = numbers_of(name, values, self.sites.at, DROP)
            if not self.fit.standardise_target:
                return Column(name, **self.unchanged())
            return Column(name, *self.moments(values))
        names, codes = factorised(values)
        warn_of_spellings(f"the target {name!r}", names)
        kept = tuple(names[k] for k in np.unique(codes[self.train.index.numpy()]))
        kind = values.dtype.kind
        return Column(name, categories=kept, numbers=kind != "O", truths=kind == "b", **self.unchanged())

    def moments(self, values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return means and standard deviations, from sums that sites share in two rounds, or of every site.

        The second round sums squared deviations from the mean that the first has found, which loses no digits.
        """
        index = self.train.index.numpy()
        owner, x = self.sites.owner.numpy()[index], values[index]
        owner, x = owner[~np.isnan(x)], x[~np.isnan(x)]
        count = self.shared(np.bincount(owner, minlength=len(self.sites.names)))
        mean = self.shared(np.bincount(owner, x, len(self.sites.names))) / np.maximum(count, 1)
        apart = x - (mean[owner] if self.fit.per_site else mean)
        square = self.shared(np.bincount(owner, apart**2, len(self.sites.names))) / np.maximum(count, 1)
        deviation = np.sqrt(square)
        constant = deviation <= 1e-11 * np.abs(mean)  # up to rounding
        return tuple(mean.tolist()), tuple(np.where(constant, 0.0, deviation).tolist())

    def shared(self, of_sites: np.ndarray) -> np.ndarray:
        """Return numbers of sites [K] as their sum [1], or as they are where every site goes by its own."""
        return of_sites if self.fit.per_site else of_sites.sum(keepdims=True)

    def unchanged(self) -> dict[str, Any]:
        """Return means and deviations that change nothing."""
        count = len(self.sites.names) if self.fit.per_site else 1
        return {"mean": (0.0,) * count, "deviation": (1.0,) * count}

    def indicator(self, known: np.ndarray) -> bool:
        """Say whether a column gets an indicator, given where it is known."""
        return bool((~known[self.train.index.numpy()]).mean() > self.fit.indicator_above)

    def floats(self, columns: Sequence[Column], target: Column) -> int:
        """Return how many floats a site shares at most: counts, sums, sums of squares, and names."""
        words = [name for one in (*columns, target) for name in one.categories or () if self.fit.like is None]
        names = sum(-(-len(name.encode()) // _LETTERS) for name in words)
        if self.fit.per_site:  # its rows, and of which columns how many are known
            return 1 + len(columns) + names
        numbers = sum(one.categories is None for one in columns)
        aim = 2 * (target.categories is None and self.fit.standardise_target)
        return 1 + len(columns) + 2 * numbers + aim + names


def _if_categories(name: str) -> str:
    """Say what to do where the values of a column are categories after all."""
    return f"if they are categories, name it in categorical=[{name!r}]"


def _remembered(known: Preparation, table: Table) -> str | None:
    """Return the column of groups that a preparation names; a warning says where the table lacks it."""
    if known.group is None or known.group in table.names:
        return known.group
    warn(
        f"the table has no column {known.group!r}, by which rows that belong together were kept together in the tasks "
        "of the preparation: if some do here, too, give group=, the column or a name for every row",
        UserWarning,
    )
    return None


def _weights(sites: Sites, table: Table, weight: Any) -> Tensor | None:
    """Return the weights of all rows, [N], of a column or as they were given."""
    if weight is None:
        return None
    where = f" in column {weight!r}" if isinstance(weight, str) else ""
    if where:
        weight = numbers_of(weight, table.column(weight, f"weight={weight!r}"), sites.at, "give 0 to leave the row out")
        if np.isnan(weight).any():
            raise ValueError(f"{sites.at(int(np.isnan(weight).argmax()))} has no weight{where}: give it one")
    weights = to_weights(weight, table.rows)
    sites.refuse_bad_weights(weights, where)
    return weights
