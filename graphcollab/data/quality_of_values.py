"""Findings about the names of classes, categories and sites, and about values not seen in training."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from graphcollab._base.checks import issue
from graphcollab._base.findings import Finding
from graphcollab._base.naming import close, few, setting
from graphcollab.data._values import is_number

MOST = 10  # maximum number of values of a coding


def warn_of(findings: Iterable[Finding]) -> None:
    """Issue warnings about findings, attributed to the first caller outside the package."""
    for finding in findings:
        issue("quality", finding.subject, finding.message)


def of_many_classes(target: str, different: int, above: int = 10) -> list[Finding]:
    """Return the finding that targets with so many distinct integers are treated as classes."""
    message = (
        f"column {target!r} has {different} different whole numbers, which are taken for classes: give "
        f"{setting(loss='poisson')} if they are counts, {setting(loss='mse')} if they are other amounts, and "
        f"{setting(loss='cross_entropy')} if they are classes"
    )
    return [Finding("many-classes", f"column {target!r}", message, {"different": different})] * (different > above)


def of_codings(
    sites: Sequence[str], rows: Sequence[int], names: Mapping[str, Sequence[Sequence[str]]], target: str
) -> list[Finding]:
    """Return the finding that sites code the values of a column differently, such as 0, 1 and no, yes.

    Two sites have no value in common (for classes, at most half), or count from 0 and from 1. Each has two to ten
    values (more are names, such as streets) and enough rows to show the other's, and no site has values of both that
    the other lacks. ``rows`` [K] counts training rows, and ``names`` has lists [K] of their values, by column.
    """
    found = {name: _codings(sites, rows, by_site, 0.5 * (name == target)) for name, by_site in names.items()}
    found = {name: one for name, one in found.items() if one}
    if not found:
        return []
    told = [f"{'the target' if name == target else 'column'} {name!r} has {one}" for name, one in found.items()]
    message = (
        f"{few(told, '; ')}, and no site has both among its training rows: if they mean the same, write them alike at "
        "all sites"
    )
    return [Finding("coded-differently", f"column {next(iter(found))!r}", message, {"columns": [*found]})]


def _codings(sites: Sequence[str], rows: Sequence[int], by_site: Sequence[Sequence[str]], most: float) -> str:
    """Describe which values occur at which of two groups of sites; "" if all sites use the same coding."""
    groups: dict[frozenset[str], list[int]] = {}
    for k, words in enumerate(by_site):
        groups.setdefault(frozenset(words), []).append(k)
    if len(groups) > 100:
        return ""
    largest = [one for one in groups if not any(one < other for other in groups)]
    for one, other in combinations(largest, 2) if len(largest) <= 8 else ():  # with more, they are not codings
        smaller = min(len(one), len(other))
        enough = min(sum(rows[k] for k in groups[words]) for words in (one, other)) >= 5 * len(one | other)
        mixed = any(words & (one - other) and words & (other - one) for words in groups)
        if (
            enough
            and not mixed
            and smaller > 1
            and max(len(one), len(other)) <= MOST
            and (len(one & other) <= most * smaller or _shifted(one, other))
        ):
            told = [(by_site[groups[words][0]], [sites[k] for k in groups[words]]) for words in (one, other)]
            return " and ".join(f"{few([*map(repr, words)])} at {few([*map(repr, at)])}" for words, at in told)
    return ""


def _shifted(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two equally large sets of values are numbers that differ by an offset of one."""
    first, second = (sorted(map(float, words)) if all(map(is_number, words)) else [] for words in (one, other))
    return len(first) == len(second) > 0 and all(abs(a - b) == 1 for a, b in zip(first, second, strict=True))


def of_spellings(subject: str, names: Iterable[str]) -> list[Finding]:
    """Return the finding that names differ only in case or spaces."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_plain(name), []).append(name)
    several = [" and ".join(map(repr, same)) for same in alike.values() if len(same) > 1]
    if not several:
        return []
    more = f", … ({len(several)} in all)" if len(several) > 3 else ""
    message = (
        f"{subject} has both {', '.join(several[:3])}{more}, which are told apart: if they are the same, write them "
        "alike"
    )
    return [Finding("spelled-differently", subject, message, {"names": len(several)})]


def of_no_values(name: str, counts: str) -> list[Finding]:
    """Return the finding that a column has no value in any row, and models have no input that indicates it."""
    message = (
        f"column {name!r} has no value in any row, and so counts {counts}: models have no input that says where it is "
        "missing, as it hardly ever was in training"
    )
    return [Finding("no-values", f"column {name!r}", message)]


def of_new_numbers(name: str, values: np.ndarray, apart: np.ndarray, mean: np.ndarray) -> list[Finding]:
    """Return the finding that values [n] have another unit than in training, ``apart`` in deviations from ``mean``."""
    known = np.sort(apart[~np.isnan(apart)])
    if not len(known):
        return []
    most = known[(len(known) - 1) // 2] > (10 if len(known) >= 3 else 30)
    if not most and known[-1] <= 100:
        return []
    row = int(np.nanargmax(apart))
    message = (
        f"row {row} has {values[row]:g} in column {name!r}, {apart[row]:.0f} standard deviations from the mean of "
        f"training, {mean[row]:g}, as where units differ"
        + ("; most rows are far from it" if most and len(apart) > 1 else "")
    )
    return [Finding("far-from-training", f"column {name!r}", message, {"deviations": float(apart[row])})]


def of_new_words(name: str, words: Sequence[str], categories: Sequence[str], known: bool) -> list[Finding]:
    """Return the finding that words are categories in another spelling, or that none of them is ``known``."""
    spelled = {_plain(one): one for one in categories}
    near = [(one, spelled[_plain(one)]) for one in words if one not in categories and _plain(one) in spelled]
    if near:
        pairs = few([f"{one!r} (known is {category!r})" for one, category in near])
        message = f"column {name!r} has {pairs}, which counts as unknown: if they are the same, write them alike"
        return [Finding("spelled-otherwise", f"column {name!r}", message, {"words": len(near)})]
    if known or not words:
        return []
    hint = close(words[0], categories)
    message = (
        f"column {name!r} has no value that is a known category: it has {few([*map(repr, words)])}, known are "
        f"{few([*map(repr, categories)]) or 'none'}. All of them count as unknown{hint and '; '}{hint}".strip()
    )
    return [Finding("unknown-categories", f"column {name!r}", message)]


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).split()).casefold()
