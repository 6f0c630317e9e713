"""Nodes with names: the assignment of the rows of a flat table to nodes, and their splits."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import cumsum

from graphcollab._base.errors import ConflictError, EmptyError, InvalidValueError, MissingError, ShapeError, TooFewError
from graphcollab._base.naming import AS_OPTIONS, few as few_names, setting
from graphcollab.data._values import factorized, is_missing
from graphcollab.data.samples import Split, hold_out

SAMPLES = "samples"
"""Name of the pool that holds all rows."""
WORDS = ("train", "val", "test")
"""Valid values of a split column."""
_LAST = 2**63 - 1
_EXACT = 2.0**53  # up to this number, floats represent integers exactly


@dataclass(frozen=True)
class Sites:
    """The assignment of the rows of a flat table to nodes, sorted by name: numbers by value, text alphabetically."""

    names: tuple[str, ...]
    node_id: Tensor  # [K], a function of the names alone
    rows: Split  # in the table's order
    owner: Tensor  # [N], the node of every row
    number: np.ndarray | None = None  # [N], numbers in the table, if they are not the places of rows

    def at(self, row: int) -> str:
        """Describe a row by its number and site."""
        number = row if self.number is None else int(self.number[row])
        return f"row {number} (site {self.names[int(self.owner[row])]!r})"


def name_ids(names: Iterable[str]) -> Tensor:
    """Return 63-bit integers derived from the names alone by BLAKE2b, [K]."""
    encoded = (name.encode(errors="surrogatepass") for name in names)
    digests = b"".join(blake2b(one, digest_size=8).digest() for one in encoded)
    return torch.from_numpy(np.frombuffer(digests, "<i8").astype(np.int64) & _LAST)


def in_order(names: Sequence[Any]) -> list[int]:
    """Return the positions of names in sorted order: numbers by value, text alphabetically."""
    whole = all(_is_whole(kind) for kind in set(map(type, names)))
    return sorted(range(len(names)), key=names.__getitem__ if whole else lambda k: str(names[k]))


def find_sites(node: Any, where: str = "") -> Sites:
    """Find the sites in a column of names, strings or integers; ``where`` describes the column in error messages."""
    of_rows = _names_of(node, where)
    if not of_rows:
        raise EmptyError("column 'node'", "tasks need at least one node, and the column node is empty")
    found = sorted({*of_rows})
    place = dict(zip(found, range(len(found)), strict=True))
    names, owner = tuple(map(str, found)), torch.tensor([*map(place.__getitem__, of_rows)])
    rows = Split(SAMPLES, owner.argsort(stable=True), cumsum(owner.bincount(minlength=len(names))))
    return Sites(names, name_ids(names), rows, owner)


_GAPS = 1.25  # maximum ratio of the range of numbers to the numbers that occur


def to_groups(sites: Sites, group: Any) -> Tensor:
    """Number the groups named in a column, [N]; numbers that restart at every site are other groups there."""
    column, rows = names_of_groups(group), len(sites.owner)
    if column.shape != (rows,):
        named = column.shape == (1,) and isinstance(column[0], str)
        raise ShapeError(
            "group",
            f"group must have a name for each of the {rows} rows, got {list(column.shape)}"
            + (f"; a column is named by group={column[0]!r}" if named else ""),
        )
    codes = factorized(column)[1]
    if (codes < 0).any():
        raise MissingError("group", f"{sites.at(int((codes < 0).argmax()))} has no group: name it or drop the row")
    group = torch.from_numpy(codes).long()
    pairs, number = torch.stack([sites.owner, group], 1).unique(dim=0, return_inverse=True)
    alone = len(pairs) == len(group.unique()) or (column.dtype.kind in "iuf" and _begin_anew(sites, column, pairs))
    return number if alone else group


def names_of_groups(group: Any) -> np.ndarray:
    """Return a group column as numbers, or as text and None."""
    column = _column(group.cpu().numpy() if isinstance(group, Tensor) else group)
    if column.dtype.kind in "iuf":
        return column
    texts = [None if one is None or one != one else str(one) for one in column.flat]
    return np.array(texts, object).reshape(column.shape)


def _begin_anew(sites: Sites, numbers: np.ndarray, pairs: Tensor) -> bool:
    """Return whether the row numbers [N] run from 0 or 1 at every site, with few gaps."""
    largest = np.full(len(sites.names), -np.inf)
    np.maximum.at(largest, sites.owner.numpy(), numbers)
    least = numbers.min()
    return bool(least in (0, 1) and (largest - least + 1).sum() <= _GAPS * len(pairs))


@dataclass(frozen=True)
class Draw:
    """How every node's rows are split: by words, otherwise at random."""

    words: Any  # train, val or test, [N]
    val_fraction: float  # of training rows, if no word says val
    test_fraction: float  # of all rows, if there are no words
    stratify: bool
    seed: int
    elsewhere: frozenset[str] = frozenset()  # words that occur at other sites

    @property
    def said(self) -> list[str]:
        """Distinct words of the rows."""
        return [] if self.words is None else [word for word in WORDS if np.any(_column(self.words) == word)]

    def may_train(self, sites: Sites) -> Split:
        """Return the rows that may be in the training split for some seed: all that no word assigns elsewhere."""
        return sites.rows if self.words is None else _by_word(sites, self.words)["train"]

    def divide(
        self, sites: Sites, labels: Tensor | None, group: Tensor | None = None, table: bool = False
    ) -> dict[str, Split]:
        """Split every node's rows, given the classes and groups of all rows, [N], if any."""
        splits = {"train": sites.rows}
        draws = {"test": self.test_fraction, "val": self.val_fraction}
        if self.words is not None:
            splits = _by_word(sites, self.words, self.elsewhere)
            draws = {} if "val" in splits else {"val": self.val_fraction}
        draws = {name: fraction for name, fraction in draws.items() if fraction}
        if group is not None:
            _refuse_divided(sites, splits, group)
        _check_sizes(sites, splits["train"], list(draws), group, table and self.words is None)
        for name, fraction in draws.items():
            train = splits["train"]
            kinds = labels[train.index] if labels is not None and self.stratify else None
            whole = None if group is None else group[train.index]
            splits["train"], splits[name] = hold_out(train, sites.node_id, fraction, self.seed, kinds, name, whole)
        return splits


def _names_of(node: Any, where: str) -> list[str] | list[int]:
    """Return the names of rows, all text or all integers; an error names the first row without a valid name."""
    given = node.cpu().numpy() if isinstance(node, Tensor) else node
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise ShapeError(
            "node", f"node must be a column with a name for each row, [N], got an array {list(given.shape)}"
        )
    listed: list[Any] = given.tolist() if isinstance(given, np.ndarray) else list(given)
    text = any(issubclass(kind, str) for kind in set(map(type, listed)))

    def is_name(one: Any) -> bool:
        if text:
            return isinstance(one, str) and one != ""
        return _is_whole(type(one)) or (isinstance(one, float) and one.is_integer() and abs(one) <= _EXACT)

    odd = {row: one for row, one in enumerate(listed) if not is_name(one)}
    for row, one in sorted(odd.items(), key=lambda item: is_missing(item[1]))[:1]:  # real numbers before empty cells
        if not is_missing(one):
            raise InvalidValueError(
                "node",
                f"row {row} has {one!r} as the name of its site{where}, no text or whole number: name another column",
            )
        raise MissingError(
            "node",
            f"row {row} has no name of its site{where}: name it"
            + f", or give {setting(drop_missing_target=True)}" * bool(where),
        )
    return listed if text else [*map(int, listed)]


def _is_whole(kind: type) -> bool:
    return issubclass(kind, numbers.Integral) and not issubclass(kind, bool)


def _column(values: Any) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else np.array(list(values), object)


def _by_word(sites: Sites, words: Any, elsewhere: Collection[str] = ()) -> dict[str, Split]:
    """Split rows by the words train, val and test; omit words that no row has, here or ``elsewhere``."""
    column = _column(words)
    if column.shape != (len(sites.owner),):
        raise ShapeError(
            "split", f"split must have a word for each of the {len(sites.owner)} rows, got {list(column.shape)}"
        )
    masks = {word: torch.from_numpy(np.asarray(column == word, bool)) for word in WORDS}
    unknown = ~torch.stack(list(masks.values())).any(0)
    if bool(unknown.any()):
        row = int(unknown.nonzero()[0])
        raise InvalidValueError(
            "split",
            f"{sites.at(row)} has the split {column[row : row + 1].tolist()[0]!r}: it must be 'train', 'val' or 'test'",
        )
    out = {}
    for word, mask in masks.items():
        index = sites.rows.index[mask[sites.rows.index]]
        if word == "train" or len(index) or word in elsewhere:
            out[word] = Split(SAMPLES, index, cumsum(sites.owner[index].bincount(minlength=len(sites.names))))
    return out


def _refuse_divided(sites: Sites, splits: Mapping[str, Split], group: Tensor) -> None:
    seen = torch.full((int(group.max()) + 1,), -1)
    for place, (name, split) in enumerate(splits.items()):
        before = seen[group[split.index]]
        if bool((before >= 0).any()):
            at = int((before >= 0).nonzero()[0])
            raise ConflictError(
                "group",
                f"{sites.at(int(split.index[at]))} is for {name!r}, and others of its group are for "
                f"{list(splits)[int(before[at])]!r}",
            )
        seen[group[split.index]] = place


def _check_sizes(sites: Sites, train: Split, drawn: Sequence[str], group: Tensor | None, by_size: bool) -> None:
    """Check that every node has one sample, or group, for training and one for every split drawn from these."""
    sizes, what = train.sizes, "sample"
    if group is not None:
        owners = sites.owner[train.index], group[train.index]
        sizes, what = torch.stack(owners).unique(dim=1)[0].bincount(minlength=len(sizes)), "group"
    few = (sizes < 1 + len(drawn)).nonzero().flatten()
    if not len(few):
        return
    who = few_names([f"{sites.names[k]!r} has {int(sizes[k])}" for k in few.tolist()])
    uses = [{"val": "validation", "test": "testing"}[name] for name in drawn]
    each = f"{1 + len(drawn)} {what}s, one to train on, {' and '.join(f'one for {use}' for use in uses)}"
    least = f" by {setting(min_rows=1 + len(drawn))}" * by_size
    cure = f"leave such sites out{least}, merge them with others, or "
    if AS_OPTIONS.get():
        cure = f"leave such sites out{least}, or merge them with others"  # the CLI needs splits to compare by
    elif drawn and int(sizes.min()):
        off = " and ".join(setting(**{f"{name}_fraction": 0}) for name in drawn)
        cure += f"give {off}, which would do away with {' and '.join(uses)}"
    else:  # given by the words of a split
        cure += "give them some for 'train'"
    each = each if drawn else f"a {what} to train on"
    raise TooFewError(f"node {sites.names[int(few[0])]!r}", f"every site needs {each}, and {who}: {cure}")
