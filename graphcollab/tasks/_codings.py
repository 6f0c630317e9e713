"""Sites that seem to code the classes, or categories, of a column differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from graphcollab.checks import issue
from graphcollab.naming import few
from graphcollab.tasks._values import is_number

__all__ = ["warn_of_codings"]

_CODINGS, _SETS = 8, 100  # sets of values of which none is part of another, and different sets, at most
_ROWS = 5  # for every value of two sets, so that chance hardly leaves one out


def warn_of_codings(
    sites: Sequence[str], rows: Sequence[int], names: Mapping[str, Sequence[Sequence[str]]], target: str
) -> None:
    """Warn of columns whose values some sites seem to write otherwise than others, such as 0, 1 and no, yes.

    Two sites have no value in common, of classes at most half of them, or one counts from 0 and another from 1; each
    has two or more of them and enough rows to show what the other has, and no site has the values of both.

    Args:
        sites: Their names, [K].
        rows: How many training rows each has, [K].
        names: Values that every site has in training rows, [K] lists by column of categories.
        target: The column of classes.
    """
    found = [
        f"{'the target' if name == target else 'column'} {name!r} has {differing}"
        for name, by_site in names.items()
        if (differing := _differing(sites, rows, by_site, 0.5 * (name == target)))
    ]
    if found:
        issue(
            "quality",
            "columns",
            f"{few(found, '; ')}, and no site has the values of both: if they mean the same, write them alike at all "
            "sites",
        )


def _differing(sites: Sequence[str], rows: Sequence[int], by_site: Sequence[Sequence[str]], most: float) -> str:
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
