"""How the values of one column become numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from graphcollab.checks import issue
from graphcollab.errors import AmbiguousError, InvalidValueError, RangeError
from graphcollab.naming import close, few
from graphcollab.settings import check_settings
from graphcollab.tasks._values import factorised, is_number
from graphcollab.tasks._words import LACKING, plain, visibly

__all__ = ["LARGEST", "Column", "encoded", "numbers_of"]

LARGEST = 1e30  # whose square is a float of 8 bytes, with room for sums, and which is one of 4 itself
_FAR, _ALL_FAR, _FEW_FAR, _FEW = 100, 10, 30, 3  # standard deviations: of one value, of most, of most of fewer rows


@dataclass(frozen=True)
class Column:
    """How the values of a column become numbers.

    Numbers are standardised, (value - mean) / deviation, and are 0 where the deviation is 0 or the value is missing.
    Text is encoded one-hot, and is all zeros where it is missing or no known category.

    Args:
        name: Its name in the table.
        mean: Mean of the known training values: one for all sites, or one for each.
        deviation: Their standard deviation, likewise.
        categories: The different values of a column of text, or the classes of a target; None for numbers.
        indicator: Whether a further number says where the value is missing, or no known category.
        numbers: Whether categories are numbers in the table.
        truths: Whether they are false and true there.
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
        odd = [one for one in self.categories or () if self.numbers and not _is_finite(one)]
        if odd:
            raise InvalidValueError(
                f"column {self.name!r}", f"column {self.name!r} has categories that are numbers, and {odd[0]!r} is none"
            )

    @property
    def features(self) -> tuple[str, ...]:
        """What every number is called that the column becomes."""
        values = (self.name,) if self.categories is None else tuple(f"{self.name} = {one}" for one in self.categories)
        return (*values, f"{self.name} missing") if self.indicator else values

    def standardised(self, values: np.ndarray, site: np.ndarray) -> np.ndarray:
        """Return numbers [n] standardised by what is known of every row's site [n], NaN where they are missing."""
        mean, deviation = (np.array(one)[site] for one in (self.mean, self.deviation))
        return np.where(deviation > 0, (values - mean) / np.where(deviation > 0, deviation, 1.0), 0.0 * values)

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the number of every row's category [n], -1 where it is missing or unknown."""
        place = {name: k for k, name in enumerate(self.categories or ())}
        names, codes = factorised(values)
        if self.numbers and values.dtype.kind == "O":
            names = tuple(map(_as_number, names))
        return np.array([*(place.get(name, -1) for name in names), -1], np.int64)[codes]

    def encode(self, values: np.ndarray, site: np.ndarray, out: np.ndarray) -> None:
        """Write the numbers that a column of values becomes into ``out``, zeros [n, features]."""
        if self.categories is None:
            known = ~np.isnan(values)
            out[:, 0] = np.nan_to_num(self.standardised(values, site))
        else:
            codes = self.codes(values)
            known = codes >= 0
            if not known.any():
                self._warn_of_unknown(values)
            out[known.nonzero()[0], codes[known]] = 1
        if self.indicator:
            out[:, -1] = ~known

    def warn_of_strangers(self, values: np.ndarray, site: np.ndarray) -> None:
        """Warn of new values that differ from a category only by case or spaces, or are numbers far from all others.

        And of a column without any values, where models have no input that says so.
        """
        known = np.array([one is not None for one in values]) if values.dtype.kind == "O" else ~np.isnan(values)
        if len(values) and not known.any() and not self.indicator:
            counts = "as its mean in training" if self.categories is None else "as no category"
            issue(
                "quality",
                f"column {self.name!r}",
                f"column {self.name!r} has no value in any row, and so counts {counts}: models have no input that says "
                "where it is missing, as it hardly ever was in training",
            )
        if self.categories is None:
            apart = np.abs(np.nan_to_num(self.standardised(values, site)))
            middle = np.sort(apart[known])[(known.sum() - 1) // 2] if known.any() else 0.0
            most = middle > (_ALL_FAR if known.sum() >= _FEW else _FEW_FAR)
            if most or apart.max(initial=0) > _FAR:
                row = int(apart.argmax())
                issue(
                    "quality",
                    f"column {self.name!r}",
                    f"row {row} has {values[row]:g} in column {self.name!r}, {apart[row]:.0f} standard deviations from "
                    f"the mean of training, {self.mean[site[row]]:g}, as where units differ"
                    + ("; most rows are far from it" if most and len(apart) > 1 else ""),
                )
            return
        spelled = {plain(one): one for one in self.categories}
        names = () if self.numbers else factorised(values)[0]
        near = [(one, spelled[plain(one)]) for one in names if plain(one) in spelled and one not in self.categories]
        if near:
            pairs = few(["{} (known is {})".format(*visibly(pair)) for pair in near])
            issue(
                "quality",
                f"column {self.name!r}",
                f"column {self.name!r} has {pairs}, which counts as unknown: if they are the same, write them alike",
            )

    def _warn_of_unknown(self, values: np.ndarray) -> None:
        """Warn of values of which none is a known category, if there are any, nor spelled nearly like one."""
        names, _ = factorised(values)
        if names and not {*map(plain, names)} & {*map(plain, self.categories or ())}:
            near = close(names[0], self.categories or ())
            issue(
                "quality",
                f"column {self.name!r}",
                f"column {self.name!r} has no value that is a known category: it has {few([*map(repr, names)])}, known "
                f"are {few([*map(repr, self.categories or ())]) or 'none'}. All of them count as unknown{near and '; '}"
                f"{near}".strip(),
            )


def encoded(read: Sequence[tuple[Column, np.ndarray]], site: np.ndarray) -> np.ndarray:
    """Return the numbers that columns and their values become, float32 [n, D], given every row's site [n]."""
    ends = np.cumsum([0, *(len(column.features) for column, _ in read)]).tolist()
    out = np.zeros((len(site), ends[-1]), np.float32)
    for (column, values), start, end in zip(read, ends[:-1], ends[1:], strict=True):
        column.encode(values, site, out[:, start:end])
    return out


def numbers_of(
    name: str, values: np.ndarray, at: Callable[[int], str] = "row {}".format, lacking: str = LACKING
) -> np.ndarray:
    """Return a column's values as float64.

    A ValueError says by ``at`` which is the first that is text, infinite or too large, and what to do with what is
    ``lacking``.
    """
    if values.dtype.kind == "O":
        known = [k for k, one in enumerate(values.tolist()) if one is not None]
        if known:
            raise AmbiguousError(
                f"column {name!r}",
                f"{at(known[0])} has the text {values[known[0]]!r} in column {name!r}, where numbers are needed: "
                + (
                    "make the column numbers, without quotes"
                    if is_number(values[known[0]])
                    else f"correct it, or {lacking}"
                ),
            )
        return np.full(len(values), np.nan)
    out = values.astype(np.float64)
    bad = (np.abs(out) > LARGEST).nonzero()[0]
    if len(bad):
        value = float(out[bad[0]])
        said = "infinity" if np.isinf(value) else f"{value:g}, which is too large to compute with,"
        raise RangeError(
            f"column {name!r}", f"{at(int(bad[0]))} has {said} in column {name!r}: correct it, or {lacking}"
        )
    return out


def _as_number(text: str) -> str:
    """Return text that is a number as a column of numbers would have it, "2" for "2.0" and for "02"."""
    return factorised(np.array([float(text)]))[0][0] if _is_finite(text) else text


def _is_finite(text: str) -> bool:
    return is_number(text) and bool(np.isfinite(float(text)))
