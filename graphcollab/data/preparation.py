"""The transformation of table rows to numbers, fitted without pooling any rows."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphcollab._base.errors import (
    ConflictError,
    FormatError,
    InvalidValueError,
    MissingError,
    ShapeError,
    UnknownError,
    VersionError,
)
from graphcollab._base.findings import Finding
from graphcollab._base.naming import close, few, setting
from graphcollab._base.settings import SettingError, check_settings
from graphcollab.data._values import DROP, as_number, factorized, is_finite, numbers_of
from graphcollab.data.quality_of_values import of_new_numbers, of_new_words, of_no_values, warn_of
from graphcollab.data.table import open_table, read_column, sites_in

_VERSION = 1


@dataclass(frozen=True)
class Column:
    """The transformation of one column to numbers.

    Numbers are standardized, (value - mean) / deviation, and 0 where the deviation is 0 or the value is missing. Text
    is one-hot encoded, all zeros where the value is missing or an unknown category.

    Args:
        name: Column name in the table.
        mean: Mean of the known training values: one for all sites, or one per site.
        deviation: Their standard deviation, likewise.
        categories: The distinct values of a text column, or the classes of a target; None for numbers.
        indicator: Whether an additional feature indicates missing or unknown values.
        numbers: Whether the categories are numbers in the table.
        truths: Whether the categories are false and true in the table.
    """

    name: str
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    categories: tuple[str, ...] | None = None
    indicator: bool = False
    numbers: bool = False
    truths: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        odd = [one for one in self.categories or () if self.numbers and not is_finite(one)]
        if odd:
            raise InvalidValueError(
                f"column {self.name!r}", f"column {self.name!r} has categories that are numbers, and {odd[0]!r} is none"
            )

    @property
    def features(self) -> tuple[str, ...]:
        """Name of every feature that the column becomes."""
        values = (self.name,) if self.categories is None else tuple(f"{self.name} = {one}" for one in self.categories)
        return (*values, f"{self.name} missing") if self.indicator else values

    def standardized(self, values: np.ndarray, site: np.ndarray) -> np.ndarray:
        """Return numbers [n] standardized with the statistics of every row's site [n], NaN where they are missing."""
        mean, deviation = (np.array(one)[site] for one in (self.mean, self.deviation))
        return np.where(deviation > 0, (values - mean) / np.where(deviation > 0, deviation, 1.0), 0.0 * values)

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the category index of every row [n], -1 where the value is missing or unknown."""
        place = {name: k for k, name in enumerate(self.categories or ())}
        names, codes = factorized(values)
        if self.numbers and values.dtype.kind == "O":
            names = tuple(map(as_number, names))
        return np.array([*(place.get(name, -1) for name in names), -1], np.int64)[codes]

    def targets(self, values: np.ndarray, site: np.ndarray, at: Callable[[int], str] = "row {}".format) -> Tensor:
        """Convert values to targets [n]: class labels, int64, or real values, float32; missing values are an error."""
        out: np.ndarray
        classes = ""
        if self.categories is None:
            out = self.standardized(numbers_of(self.name, values, at, DROP), site).astype(np.float32)
            known = ~np.isnan(out)
        else:
            out = self.codes(values)
            known, classes = out >= 0, f", and the classes that were trained on are {few(self.categories)}"
        if not known.all():
            row = int((~known).argmax())
            amounts = f"; if they are amounts, give {setting(loss='mse')}" if self.numbers else ""
            raise UnknownError(
                f"column {self.name!r}",
                f"{at(row)} has {values.tolist()[row]!r} in column {self.name!r}{classes}: drop such rows, or train on "
                f"some{amounts}",
            )
        return torch.from_numpy(out)

    def encode(self, values: np.ndarray, site: np.ndarray, at: Callable[[int], str] = "row {}".format) -> np.ndarray:
        """Convert values [n] to features, float32 [n, features]; errors name the invalid row, formatted by ``at``."""
        if self.categories is None:
            values = numbers_of(self.name, values, at)
            known = ~np.isnan(values)
            out = np.nan_to_num(self.standardized(values, site))[:, None]
        else:
            codes = self.codes(values)
            known = codes >= 0
            out = np.zeros((len(values), len(self.categories)))
            out[known.nonzero()[0], codes[known]] = 1
        return (np.column_stack([out, ~known]) if self.indicator else out).astype(np.float32)

    def findings(self, values: np.ndarray, site: np.ndarray) -> list[Finding]:
        """Return findings about values [n] of rows at sites [n] that the column was not fitted to."""
        if self.categories is None:
            values = numbers_of(self.name, values)
            if len(values) and np.isnan(values).all():
                return [] if self.indicator else of_no_values(self.name, "as its mean in training")
            return of_new_numbers(self.name, values, np.abs(self.standardized(values, site)), np.array(self.mean)[site])
        words = factorized(values)[0]
        if len(values) and not words:
            return [] if self.indicator else of_no_values(self.name, "as no category")
        known = bool((self.codes(values) >= 0).any())
        return of_new_words(self.name, words, self.categories, known)


@dataclass(frozen=True)
class Preparation:
    """The transformation of table rows to numbers: plain data, fitted on training rows, without pooling any rows.

    `Tasks.from_frame` fits it; across sites, it is fitted on all rows that may be used for training in some split.
    Sites share counts, sums, sums of squared deviations, and the names of categories and classes. If every site has its
    own means and standard deviations (``sites``), they share only the names and which columns have missing values. Row
    weights are ignored.

    Args:
        columns: The input columns, in order.
        target: The target column. Its categories are the classes; without categories, targets are real.
        node: The column that names the site of a row.
        sites: Names of the sites, if each has its own means and standard deviations.
        floats_per_site: Upper bound on what a site has shared, in floats of 4 bytes; ``bytes_sent`` starts from it.
            Four letters of a name count as one float. 0 for tasks built with an existing preparation.
        group: The column of groups, such as patients, if any; tasks built with this preparation also keep their rows
            together.
        scale: Mean count of the training rows, with ``loss="poisson"``; see `Tasks`.

    Example:
        >>> from graphcollab import Tasks
        >>> table = {"site": ["a", "a", "a", "b", "b", "b"], "age": [30, 50, 40, 60, None, 60], "y": [0, 1] * 3}
        >>> tasks = Tasks.from_frame(table, val_fraction=0, test_fraction=0)
        >>> tasks.preparation.features, tasks.preparation.classes
        (('age', 'age missing'), (0, 1))
        >>> tasks.preparation.apply({"age": [48.0, None]})
        tensor([[0., 0.],
                [0., 1.]])
    """

    columns: tuple[Column, ...]
    target: Column
    node: str = "site"
    sites: tuple[str, ...] = ()
    floats_per_site: int = 0
    group: str | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_settings(self)
        count = max(len(self.sites), 1)
        for column in (*self.columns, self.target):
            subject = f"column {column.name!r}"
            if len(column.mean) != count or len(column.deviation) != count:
                raise ShapeError(subject, f"{subject} needs {count} means and deviations, got {len(column.mean)}")

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return {name: k for k, name in enumerate(self.sites)}

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the D input features."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def classes(self) -> tuple[str | int | float | bool, ...]:
        """The classes as written in the table, in the order of their labels; empty for real targets."""
        names = self.target.categories or ()
        if self.target.truths:
            return tuple(name == "1" for name in names)
        if self.target.numbers:
            return tuple(int(name) if name.lstrip("-").isdigit() else float(name) for name in names)
        return names

    def apply(self, frame: Any, site: str | None = None) -> Tensor:
        """Return the inputs of a table's rows, float32 [n, D].

        Args:
            frame: A table, as accepted by `Tasks.from_frame`; additional columns are ignored.
            site: Site of the rows. Default: read from the table if needed.

        Raises:
            ValueError: If a column is missing or of the wrong kind, a site is needed but unknown, or rows belong to
                another site.
        """
        table = self._open(frame, site)
        rows, read = self._sites_of(table, site), {one.name: read_column(table, one.name) for one in self.columns}
        inputs = self.encode(read, rows)
        warn_of(finding for one in self.columns for finding in one.findings(read[one.name], rows))
        return inputs

    def encode(
        self, read: Mapping[str, np.ndarray], site: np.ndarray, at: Callable[[int], str] = "row {}".format
    ) -> Tensor:
        """Return the inputs that columns [n] become, float32 [n, D], given the position of every row's site [n]."""
        parts = [one.encode(read[one.name], site, at) for one in self.columns]
        return torch.from_numpy(np.concatenate([np.zeros((len(site), 0), np.float32), *parts], 1))

    def targets(self, frame: Any, site: str | None = None) -> Tensor:
        """Return the targets of a table's rows [n]: class labels, int64, or real values, float32.

        Raises:
            ValueError: If a target is missing or an unknown class, the column is missing, or rows belong to another
                site.
        """
        table = self._open(frame, site)
        values = read_column(table, self.target.name)
        rows = np.zeros(len(table), np.int64) if self.classes else self._sites_of(table, site)
        return self.target.targets(values, rows)

    def restore(self, predictions: Tensor, site: str | None = None) -> Tensor:
        """Convert standardized predictions of real targets back to the units of the table."""
        place = 0 if not self.sites else self._known(site)
        return predictions * self.target.deviation[place] + self.target.mean[place]

    def places(self, names: Sequence[str]) -> np.ndarray:
        """Return the positions of sites in the means and standard deviations, [K]."""
        return np.array([self._known(name) if self.sites else 0 for name in names], np.int64)

    def to_json(self) -> dict[str, Any]:
        """Return the preparation as plain lists, text and numbers; `from_json` restores it."""
        plain: dict[str, Any] = json.loads(json.dumps({"version": _VERSION, **dataclasses.asdict(self)}))
        return plain

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Preparation:
        """Restore a preparation from the output of `to_json`. It is validated, and nothing in it is executed."""
        if not isinstance(stored, Mapping):
            raise SettingError(
                "a preparation", "the dict that `to_json` returned; json.load reads it of a file", stored
            )
        if stored.get("version") != _VERSION:
            raise VersionError(
                "preparation", f"this is version {stored.get('version')!r} of a preparation; {_VERSION} is read"
            )
        try:
            about = {key: value for key, value in stored.items() if key != "version"}
            about["columns"] = tuple(_column(one) for one in about["columns"])
            return cls(**{**about, "target": _column(about["target"]), "sites": tuple(about["sites"])})
        except (KeyError, TypeError) as error:
            raise FormatError("preparation", f"this is no preparation that `to_json` returned: {error}") from error

    def __repr__(self) -> str:
        kind = f"{len(self.classes)} classes" if self.classes else "real targets"
        sites = "each site by its own" if self.sites else "by sums over sites"
        return f"Preparation({len(self.columns)} columns, {len(self.features)} features, {kind}, {sites})"

    def _open(self, frame: Any, site: str | None) -> pd.DataFrame:
        """Open a table; if a site is given and the table names sites, all rows must belong to it."""
        table = open_table(frame, self.node)
        if site is not None and self.node in table:
            names, codes = factorized(read_column(table, self.node))
            others = [name for name in names if name != str(site)]
            if others:
                row = int((codes == names.index(others[0])).argmax())
                raise ConflictError(
                    "site",
                    f"row {row} is of site {others[0]!r} by column {self.node!r}, and not of {site!r}: drop the column",
                )
        return table

    def _sites_of(self, table: pd.DataFrame, site: str | None) -> np.ndarray:
        """Return the position of every row's site in the means."""
        if not self.sites:
            return np.zeros(len(table), np.int64)
        if site is not None or self.node not in table:
            return np.full(len(table), self._known(site))
        names, codes = sites_in(table, self.node)
        return self.places(names)[codes]

    def _known(self, site: str | None) -> int:
        if site is None:
            raise MissingError(
                "site", f"every site has means of its own here: give site=NAME, or the column {self.node!r}"
            )
        if str(site) not in self._place:
            raise UnknownError(
                "site",
                f"unknown site {str(site)!r}; {close(str(site), self.sites)}Known: {few(self.sites)}. A new one needs "
                "means of its own: Tasks.from_frame(..., preparation=preparation, refit=True, pooled='per_site')",
            )
        return self._place[str(site)]


def _column(stored: Mapping[str, Any]) -> Column:
    if not isinstance(stored, Mapping):
        raise SettingError("a column", "a dict", stored)
    about: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in stored.items()}
    return Column(**about)
