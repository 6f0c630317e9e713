"""What must be the same at all sites before they share any statistics of their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphcollab.errors import DuplicateError, EmptyError, InvalidValueError, MismatchError, VersionError
from graphcollab.naming import few
from graphcollab.sites.received import require_facts, require_parts
from graphcollab.tasks._values import without
from graphcollab.tasks.statistics import common_kind, differing

_ALIKE = {
    "inputs": "inputs of different shapes, {}: bring them to one shape first",
    "input_type": "inputs of different types, {}: make them the same",
    "targets": "targets of different shapes, {}: bring them to one shape first",
    "target_type": "targets of different types, {}: make them class labels (whole numbers) at all sites, or amounts",
    "target": "targets of different kinds, {}: make them the same at all sites",
    "classes": "different classes=, {}: name the same ones in the same order at all of them",
    "tokenizer": "different tokenizers, with the checksums {}: give the same one at all of them",
    "weighted": "weights at some only, {}: give weights at all sites, such as ones, or at none",
}
"""What is said of facts that differ."""

_KINDS = {"site": (str, int), "of": (str,), "settings": (dict,), "failed": (str, type(None))}
"""What every site tells of itself."""

Readers = Sequence[Mapping[str, Any]]


def require_agreed(told: Readers, own: Mapping[str, Any]) -> None:
    """Check what each site tells first; a ValueError, worded alike at all sites, names them and what differs."""
    if not all(isinstance(one, Mapping) for one in told):
        raise MismatchError("sites", "a site tells something that is no description of its samples")
    if which := _differing(told, [one.get("version") for one in told]):
        raise VersionError(
            "graphcollab", f"sites have different versions of graphcollab, {which}: install the same one at all of them"
        )
    for one in told:
        if any(type(one.get(part)) not in kinds for part, kinds in _KINDS.items()):
            raise MismatchError(
                f"site {one.get('site')!r}",
                f"site {one.get('site')!r} tells something that is no description of its samples",
            )
    names = [str(one["site"]) for one in told]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DuplicateError(
            f"site {twice!r}", f"two sites are called {twice!r}: names tell sites apart and must differ"
        )
    if which := _differing(told, [one["of"] for one in told]):
        raise MismatchError("data", f"sites give different kinds of data, {which}: give the same kind at all of them")
    _require_same_settings(told)
    require_done(told, names)
    require_parts(names, told, {"facts": {}})
    require_facts(names, [one["facts"] for one in told], own)
    empty = [one["site"] for one in told if not one["facts"]["rows"]]
    if empty:
        have = "site {} has" if len(empty) == 1 else "sites {} have"
        message = f"{have.format(few([*map(repr, empty)]))} no rows: leave such sites out"
        raise EmptyError(f"site {empty[0]!r}", message)
    facts: list[Mapping[str, Any]] = [one["facts"] for one in told]
    if "columns" in facts[0]:
        _require_columns(told)
        for name in facts[0]["columns"]:
            common_kind(name, [(one["site"], one["facts"]["columns"][name]) for one in told])
    for name, words in _ALIKE.items():
        if which := _differing(told, [one.get(name) for one in facts]):
            raise MismatchError(name, f"sites have {words.format(which)}")


def require_done(told: Readers, names: Sequence[str]) -> None:
    """Check that no site has failed; a ValueError names the first that has. Its own message stays there."""
    for name, one in zip(names, told, strict=True):
        if one["failed"] is not None:
            raise InvalidValueError(f"site {name!r}", f"site {name!r} {one['failed']}; its message stays there")


def _require_same_settings(told: Readers) -> None:
    settings = [one["settings"] for one in told]
    differing = {
        name: _differing(told, [one.get(name) for one in settings])
        for name in dict.fromkeys(n for s in settings for n in s)
    }
    said = [f"{name}= is {which}" for name, which in differing.items() if which]
    if said:
        raise MismatchError("settings", f"sites have different settings: {few(said)}. Give the same at all of them")


def _require_columns(told: Readers) -> None:
    columns = {one["site"]: one["facts"]["columns"] for one in told}
    partly = {
        name: [site for site, known in columns.items() if name in known]
        for name in dict.fromkeys(name for known in columns.values() for name in known)
    }
    partly = {name: have for name, have in partly.items() if len(have) < len(columns)}
    for name, have in partly.items():
        lack = [site for site in columns if site not in have]
        instead = [repr(other) for other, where in partly.items() if sorted(where) == sorted(lack)]
        renamed = f", where there is {few(instead)} instead: if they are the same, rename one; else" if instead else ":"
        raise MismatchError(
            f"column {name!r}",
            f"column {name!r} is at {few([*map(repr, have)])} and not at {few([*map(repr, lack)])}{renamed} add it "
            f"there, with missing values where nothing is known, or {without(name)} where it is",
        )


def _differing(told: Readers, values: Sequence[Any]) -> str:
    return differing(zip([one.get("site") for one in told], values, strict=True))
