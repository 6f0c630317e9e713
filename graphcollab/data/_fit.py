"""Fit columns to the rows of all sites from statistics that each site shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from graphcollab._base.checks import issue
from graphcollab._base.errors import InvalidValueError, TooManyError
from graphcollab._base.findings import Finding
from graphcollab.data._rows import Rows, TableSettings, if_categories
from graphcollab.data._values import DROP, factorized, numbers_of, refuse_no_categories, sorted_names, without
from graphcollab.data.preparation import Column, Preparation
from graphcollab.data.quality_of_values import of_spellings
from graphcollab.data.samples import Split
from graphcollab.data.statistics import Counts
from graphcollab.data.table import open_table, read_column

_MOST_CATEGORIES = 1000
_LETTERS = 4  # bytes of a name that count as one float
_ROUNDING = 4 * np.finfo(np.float64).eps  # of a sum around the first value, and of the mean, relative to the mean


@dataclass(frozen=True)
class Draft:
    """A column before fitting, with the statistics of the k sites in this process."""

    column: Column
    known: np.ndarray | None = None  # [k] rows with a value
    numbers: tuple[np.ndarray, np.ndarray] | None = None  # values to standardize, and the site of each, [n]
    names: tuple[tuple[str, ...], ...] | None = None  # distinct values in the rows to fit, [k]
    every: tuple[str, ...] = ()  # distinct values in all rows


@dataclass(frozen=True)
class Seen:
    """Columns before fitting to the local ``rows``; only the output of `count` is pooled over sites."""

    table: Rows
    rows: Split
    real: bool

    @property
    def how(self) -> TableSettings:
        """The settings of the fit."""
        return self.table.how

    @cached_property
    def drafts(self) -> dict[str, Draft]:
        """The input columns, followed by the target."""
        table = self.table
        inputs = {name: self._input(name, values, name in table.categorical) for name, values in table.read.items()}
        return {**inputs, self.how.target: self._target(self.how.target, table.values)}

    def _input(self, name: str, values: np.ndarray, categorical: bool) -> Draft:
        before = () if self.how.preparation is None else self.how.preparation.columns
        like = next((one for one in before if one.name == name), self.how.declared.get(name))
        if like is not None and like.categories is not None:
            return Draft(like, self._total(like.codes(values) >= 0) if name in self.how.declared else None)
        at = self.table.sites.at
        if like is not None or (values.dtype.kind != "O" and not categorical):
            return self._of_numbers(like or Column(name), numbers_of(name, values, at))
        if not categorical:
            refuse_no_categories(name, values, at, if_categories(name))
        return self._of_names(Column(name, categories=(), numbers=values.dtype.kind != "O"), values)

    def _target(self, name: str, values: np.ndarray) -> Draft:
        if self.real:
            numbers = numbers_of(name, values, self.table.sites.at, DROP)
            return self._of_numbers(Column(name), numbers) if self.how.standardize_target else Draft(Column(name))
        if self.how.preparation is not None or name in self.how.declared:
            return Draft(self.how.declared[name] if self.how.preparation is None else self.how.preparation.target)
        kind = values.dtype.kind
        column = Column(name, categories=(), numbers=kind != "O", truths=kind == "b")
        return replace(self._of_names(column, values), known=None)

    def _of_numbers(self, column: Column, values: np.ndarray) -> Draft:
        index = self.rows.index.numpy()
        index = index[~np.isnan(values[index])]
        return Draft(column, self._total(~np.isnan(values)), (values[index], self.table.sites.owner.numpy()[index]))

    def _of_names(self, column: Column, values: np.ndarray) -> Draft:
        every, codes = factorized(values)
        index, owner = self.rows.index.numpy(), self.table.sites.owner.numpy()
        _few_enough(column.name, np.unique(codes[index][codes[index] >= 0]))
        names: list[list[str]] = [[] for _ in self.table.sites.names]
        for key in np.unique(owner[index] * (1 + len(every)) + codes[index] + 1).tolist():
            site, code = divmod(key, 1 + len(every))
            if code:
                names[site].append(every[code - 1])
        return Draft(column, self._total(codes >= 0), names=tuple(map(tuple, names)), every=every)

    def _total(self, mask: np.ndarray) -> np.ndarray:
        """Return the number of rows to fit in which a mask [N] is true, per local site, [k]."""
        index = self.rows.index.numpy()
        return np.bincount(self.table.sites.owner.numpy()[index[mask[index]]], minlength=len(self.table.sites.names))

    def count(self) -> Counts:
        """Count rows and known values, sum values (unless sites have own means) and list categories, per site."""
        drafts = self.drafts.items()
        known = {name: one.known for name, one in drafts if one.known is not None}
        numbers = {name: one.numbers for name, one in drafts if one.numbers is not None and not self.how.per_site}
        sums = {name: _sums(*one, known[name]) for name, one in numbers.items()}
        squares = {name: _squares(*one, sums[name] / np.maximum(known[name], 1)) for name, one in numbers.items()}
        names = {name: one.names for name, one in drafts if one.names is not None}
        return Counts(self.rows.sizes.numpy(), known, sums, squares, names, known)

    def preparation(self, told: Counts) -> Preparation:
        """Return the preparation, given the counts of all sites."""
        *inputs, aim = (self._fitted(name, one, told) for name, one in self.drafts.items())
        sites = self.table.sites.names if self.how.per_site else ()
        return Preparation(tuple(inputs), aim, self.how.node, sites, self._floats(inputs, aim))

    def spellings(self, how: Preparation) -> list[Finding]:
        """Return findings about categories and classes that differ only in spelling."""
        found = []
        for column in (*how.columns, how.target):
            draft = self.drafts[column.name]
            what = f"the target {column.name!r}" if column is how.target else f"column {column.name!r}"
            names = () if draft.names is None else {*(column.categories or ()), *draft.every}
            found += of_spellings(what, sorted_names(names))
        return found

    def _fitted(self, name: str, draft: Draft, told: Counts) -> Column:
        column, like = self._standardized(name, draft, told), self.how.preparation
        if draft.names is not None:
            names = tuple(sorted_names({word for words in told.names[name] for word in words}))
            _few_enough(name, names)
            column = replace(column, categories=names)
        if draft.known is None or like is not None:
            return column
        rows, known = int(told.rows.sum()), int(told.known[name].sum())
        if draft.numbers is not None and not known:
            issue("quality", f"column {name!r}", f"column {name!r} has no value in any training row: {without(name)}")
        return replace(column, indicator=(rows - known) / rows > self.how.indicator_above)

    def _standardized(self, name: str, draft: Draft, told: Counts) -> Column:
        """Return a column with mean and standard deviation, per local site, [k], or over all sites, [1]."""
        per_site = self.how.per_site
        if draft.numbers is None or draft.known is None:
            many = len(self.table.sites.names) if per_site else 1
            return replace(draft.column, mean=(0.0,) * many, deviation=(1.0,) * many)
        known = draft.known if per_site else told.counted[name].sum(keepdims=True)
        counted = np.maximum(known, 1)
        mean = (_sums(*draft.numbers, draft.known) if per_site else np.array([math.fsum(told.sums[name])])) / counted
        total = _squares(*draft.numbers, np.resize(mean, len(draft.known)))
        if name in told.squares:  # convert squares around the site means to squares around the common mean
            sizes, sums = told.counted[name], told.sums[name]
            apart = np.where(sizes > 0, sums / np.maximum(sizes, 1) - mean, 0.0)
            total = told.squares[name] + sizes * apart**2
        deviation = np.sqrt((total if per_site else total.sum(keepdims=True)) / counted)
        deviation = np.where(deviation <= _ROUNDING * np.abs(mean), 0.0, deviation)  # constant up to rounding
        return replace(draft.column, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    def _floats(self, columns: Sequence[Column], target: Column) -> int:
        """Return an upper bound on the floats that a site shares: counts, sums, sums of squares, and names."""
        learned = [] if self.how.preparation is not None else [*columns, target]
        words = [name for one in learned if one.name not in self.how.declared for name in one.categories or ()]
        names = sum(-(-len(name.encode()) // _LETTERS) for name in words)
        if self.how.per_site:  # its number of rows, and the number of known values of some columns
            return 1 + len(columns) + names
        numbers = sum(one.categories is None for one in columns)
        aim = 2 * (target.categories is None and self.how.standardize_target)
        return 1 + len(columns) + 2 * numbers + aim + names


def _sums(values: np.ndarray, owner: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Sum the values [n] of every site, [k], around the site's first value to keep precision if all are equal."""
    first = np.zeros(len(known))
    first[owner[::-1]] = values[::-1]
    return known * first + np.bincount(owner, values - first[owner], len(known))


def _squares(values: np.ndarray, owner: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Sum the squared deviations of values [n] from the site means, [k]."""
    return np.bincount(owner, (values - mean[owner]) ** 2, len(mean)).astype(np.float64, copy=False)  # int64 if empty


def declared_columns(categories: Mapping[str, Sequence[Any]]) -> dict[str, Column]:
    """Return the columns whose categories are all declared, in the order given."""
    declared = {}
    for name, given in categories.items():
        values = read_column(open_table({name: given}), name)
        names, codes = factorized(values)
        if not len(codes) or codes.min() < 0 or len(names) < len(codes):
            raise InvalidValueError(
                f"column {name!r}", f"categories= must name different values for column {name!r}, got {[*given]}"
            )
        kind = values.dtype.kind
        chosen = tuple(names[k] for k in codes.tolist())
        declared[name] = Column(name, categories=chosen, numbers=kind != "O", truths=kind == "b")
    return declared


def _few_enough(name: str, names: Sized) -> None:
    if len(names) > _MOST_CATEGORIES:
        raise TooManyError(
            f"column {name!r}",
            f"column {name!r} has {len(names)} different values: {without(name)}, or group them first",
        )
