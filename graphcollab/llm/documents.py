"""Every node's documents, one behind the other, checked, and divided into those for training and the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab.checks import issue
from graphcollab.errors import EmptyError, FormatError, InvalidTypeError, MismatchError, TooFewError
from graphcollab.naming import few
from graphcollab.tasks import Split
from graphcollab.tasks._sites import WORDS, Draw, Sites, find_sites, to_groups

USES = {"train": "training", "val": "validation", "test": "testing"}


@dataclass(frozen=True)
class Documents:
    """Documents of all nodes.

    Args:
        texts: The texts, [N].
        labels: What each is labelled as, [N], where they are.
        sites: Whose they are.
        words: For which split each is, [N], where that was said.
        copies: A number that a node's documents of the same text have in common, [N].
    """

    texts: list[str]
    labels: list[Any]
    sites: Sites
    words: np.ndarray | None
    copies: Tensor

    @property
    def repeats(self) -> bool:
        """Whether a node has a text more than once."""
        return len(self.copies.unique()) < len(self.copies)

    def node_of(self, place: int) -> str:
        """Return the name of the node that a document is of."""
        return self.sites.names[int(self.sites.owner[place])]

    def divide(self, draw: Draw, kinds: Tensor | None = None) -> dict[str, Split]:
        """Divide every node's documents, some of every class [N] to each; each node's stay in the order given.

        All copies of a text are for the same, where that is drawn; it is warned of those that are given for several.
        """
        together = self.copies
        if self.words is not None:
            together = len(WORDS) * together + torch.tensor([WORDS.index(word) for word in self.words])
            self._warn_of_shared()
        try:
            splits = draw.divide(self.sites, kinds, together)
        except TooFewError as error:
            raise TooFewError(
                "documents",
                f"{error.subject} has too few different documents to set some aside for validation or testing, all "
                "copies of one together: divide long ones, such as into paragraphs, give val= and test=, or "
                "val_fraction=0 and test_fraction=0",
            ) from error
        for name, split in splits.items():
            lists = [split.of(k).sort().values for k in range(split.num_nodes)]
            splits[name] = Split.from_lists(split.pool, lists)
        return splits

    def _warn_of_shared(self) -> None:
        """Warn of texts that a node has for two splits."""
        told, nodes = [], []
        for one, other in combinations(WORDS, 2):
            again = self._of(other) & torch.isin(self.copies, self.copies[self._of(one)])
            if count := int(again.sum()):
                total = int(self._of(other).sum())
                told.append(f"{count} of {total} documents for {USES[other]} are for {USES[one]}, too")
                nodes.append(int(self.sites.owner[again].min()))
        if told:
            issue(
                "quality",
                "documents",
                f"{'; '.join(told)}, first at {self.sites.names[min(nodes)]!r}, so models are judged by texts that "
                "they know: leave such documents out of one of the two",
            )

    def _of(self, word: str) -> Tensor:
        """Tell which documents are given for a split, [N]."""
        return torch.from_numpy(np.asarray(self.words == word, bool))


def gather_documents(given: Mapping[str, Any], labelled: bool) -> Documents:
    """Put the documents of all nodes and splits one behind the other.

    Args:
        given: Documents of every node in a dict, by split; None where none are given.
        labelled: Whether documents are pairs (text, label).

    Raises:
        TypeError: If documents are no dict by node, or one is no text.
        ValueError: If a split is of other nodes, or a node has no text, or an empty or broken one.
    """
    texts, labels, names, words = [], [], [], []
    for word in WORDS:
        if given.get(word) is None:
            continue
        _check_nodes(word, given[word], given["train"])
        for node, some in given[word].items():
            for text, label in _checked(some, node, word, labelled):
                texts.append(text)
                labels.append(label)
                names.append(node)
                words.append(word)
    said = any(given.get(word) is not None for word in WORDS[1:])
    sites = find_sites(names)
    copies = to_groups(sites, [text.strip() for text in texts])
    return Documents(texts, labels, sites, np.array(words, object) if said else None, copies)


def _check_nodes(word: str, some: Any, train: Any) -> None:
    if not isinstance(some, Mapping):
        raise InvalidTypeError(
            word,
            f"documents must be a dict {{node: documents of the node}}, got a {type(some).__name__} for {word!r}",
        )
    if not some:
        raise EmptyError(
            word, f"there are no nodes in the documents for {word!r}: give {{node: documents of the node}}"
        )
    odd = [node for node in {**some, **train} if node not in some or node not in train]
    if odd:
        raise MismatchError(
            word,
            f"{few([repr(node) for node in odd])} {'has' if len(odd) == 1 else 'have'} documents for only one of "
            f"'train' and {word!r}: give documents of the same nodes",
        )


def _checked(some: Any, node: str, word: str, labelled: bool) -> list[tuple[str, Any]]:
    """Return a node's documents as pairs of text and label."""
    subject, who = f"node {node!r}", f"{node} ({word})"
    if isinstance(some, str | bytes):
        raise InvalidTypeError(
            subject, f"{who} is one {type(some).__name__}, and a list of documents is expected: put it into a list"
        )
    found = [*some]
    if not found:
        raise EmptyError(subject, f"{who} has no documents: leave the node out, or give it some")
    pairs = []
    for place, one in enumerate(found):
        if labelled and (not isinstance(one, Sequence) or isinstance(one, str) or len(one) != 2):
            raise InvalidTypeError(subject, f"{who}: document {place} must be a pair (text, label), got {_shown(one)}")
        text, label = one if labelled else (one, None)
        if not isinstance(text, str):
            raise InvalidTypeError(subject, f"{who}: document {place} must be a text, got {_shown(text)}")
        if not text.strip():
            raise EmptyError(subject, f"{who}: document {place} is empty: leave it out")
        _check_unicode(text, subject, f"{who}: document {place}")
        pairs.append((text, label))
    return pairs


def _check_unicode(text: str, subject: str, who: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(
            subject,
            f"{who} has half of a character, {error.object[error.start]!r} at place {error.start}, which no tokenizer "
            "takes: read the text again by its own encoding, or drop what is broken, "
            "text.encode(errors='ignore').decode()",
        ) from None


def _shown(value: object) -> str:
    return f"{str(value)[:40]!r}, a {type(value).__name__}"
