"""Doubts about values that were not there when columns were fitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphcollab.findings import Finding
from graphcollab.naming import close, few
from graphcollab.tasks._words import plain, visibly

__all__ = ["of_new_numbers", "of_new_words", "of_no_values", "of_unknown_words"]

_FAR, _ALL_FAR, _FEW_FAR, _FEW = 100, 10, 30, 3  # standard deviations: of one value, of most, of most of fewer rows


def of_no_values(name: str, counts: str) -> list[Finding]:
    """Return the doubt that a column has no value in any row, where models have no input that says so."""
    message = (
        f"column {name!r} has no value in any row, and so counts {counts}: models have no input that says where it is "
        "missing, as it hardly ever was in training"
    )
    return [Finding("no-values", f"column {name!r}", message)]


def of_new_numbers(
    name: str, values: np.ndarray, known: np.ndarray, apart: np.ndarray, mean: np.ndarray
) -> list[Finding]:
    """Return the doubt that numbers have another unit than in training.

    Args:
        name: The column.
        values: Its values, [n].
        known: Where these are known, [n].
        apart: How many standard deviations they are from the mean of training, [n].
        mean: This mean for the site of every row, [n].
    """
    middle = np.sort(apart[known])[(known.sum() - 1) // 2] if known.any() else 0.0
    most = middle > (_ALL_FAR if known.sum() >= _FEW else _FEW_FAR)
    if not most and apart.max(initial=0) <= _FAR:
        return []
    row = int(apart.argmax())
    message = (
        f"row {row} has {values[row]:g} in column {name!r}, {apart[row]:.0f} standard deviations from the mean of "
        f"training, {mean[row]:g}, as where units differ"
        + ("; most rows are far from it" if most and len(apart) > 1 else "")
    )
    return [Finding("far-from-training", f"column {name!r}", message, {"deviations": float(apart[row])})]


def of_new_words(name: str, words: Sequence[str], categories: Sequence[str]) -> list[Finding]:
    """Return the doubt that words are categories in another spelling, or that none of them is a category."""
    spelled = {plain(one): one for one in categories}
    near = [(one, spelled[plain(one)]) for one in words if plain(one) in spelled and one not in categories]
    if near:
        pairs = few(["{} (known is {})".format(*visibly(pair)) for pair in near])
        message = f"column {name!r} has {pairs}, which counts as unknown: if they are the same, write them alike"
        return [Finding("spelled-otherwise", f"column {name!r}", message, {"words": len(near)})]
    return []


def of_unknown_words(name: str, words: Sequence[str], categories: Sequence[str]) -> list[Finding]:
    """Return the doubt that no word of a column is a category, or spelled nearly like one."""
    if not words or {*map(plain, words)} & {*map(plain, categories)}:
        return []
    near = close(words[0], categories)
    message = (
        f"column {name!r} has no value that is a known category: it has {few([*map(repr, words)])}, known are "
        f"{few([*map(repr, categories)]) or 'none'}. All of them count as unknown{near and '; '}{near}".strip()
    )
    return [Finding("unknown-categories", f"column {name!r}", message)]
