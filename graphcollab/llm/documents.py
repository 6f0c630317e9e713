"""Documents of all nodes: gathered, checked, divided into splits, and tokenized."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.errors import EmptyError, InvalidTypeError, MismatchError, TooFewError
from graphcollab._base.naming import few
from graphcollab.data._sites import WORDS, Draw, Sites, find_sites, to_groups
from graphcollab.data.samples import Split

USES = {"train": "training", "val": "validation", "test": "testing"}


@dataclass(frozen=True)
class Documents:
    """Documents of all nodes, [N]; ``copies`` numbers the distinct texts of every node: copies share a number."""

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
        """Return the name of the node that owns a document."""
        return self.sites.names[int(self.sites.owner[place])]

    def divide(self, draw: Draw, kinds: Tensor | None = None) -> dict[str, Split]:
        """Divide every node's documents into splits, stratified by ``kinds`` [N]; the given order is kept.

        In drawn splits all copies of a text go together; a warning reports texts given for several splits.
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
        return torch.from_numpy(np.asarray(self.words == word, bool))


def gather_documents(given: Mapping[str, Any], labeled: bool) -> Documents:
    """Check and concatenate the documents of all nodes and splits; ``labeled``: as pairs (text, label)."""
    texts, labels, names, words = [], [], [], []
    for word in WORDS:
        if given.get(word) is None:
            continue
        if odd := {*given[word]} ^ {*given["train"]}:
            nodes = few(sorted(repr(node) for node in odd))
            raise MismatchError(word, f"{nodes}: expected the same nodes for 'train' and {word!r}")
        for node, some in given[word].items():
            for text, label in _checked(some, node, word, labeled):
                texts.append(text)
                labels.append(label)
                names.append(node)
                words.append(word)
    said = any(given.get(word) is not None for word in WORDS[1:])
    sites = find_sites(names)
    copies = to_groups(sites, [f"{name}: {text.strip()}" for name, text in zip(names, texts, strict=True)])
    return Documents(texts, labels, sites, np.array(words, object) if said else None, copies)


def _checked(some: Any, node: str, word: str, labeled: bool) -> list[tuple[str, Any]]:
    subject, who = f"node {node!r}", f"{node} ({word})"
    if isinstance(some, str | bytes):
        raise InvalidTypeError(
            subject, f"{who} is one {type(some).__name__}, and a list of documents is expected: put it into a list"
        )
    pairs = [one if labeled else (one, None) for one in some]
    if not pairs:
        raise EmptyError(subject, f"{who} has no documents: leave the node out, or give it some")
    for place, (text, _) in enumerate(pairs):
        if not isinstance(text, str) or not text.strip():
            raise EmptyError(subject, f"{who}: document {place} is {text!r}, expected a text that is not empty")
    return pairs


PASSING = "truncation", "padding"  # state of the tokenizer's last call


def fingerprint(tokenizer: Any) -> str:
    """Return 16 digits of a SHA-256 of a tokenizer: its vocabulary, merges, all rules, and end token."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        rules: Any = {"vocabulary": tokenizer.get_vocab(), "class": type(tokenizer).__name__}
    else:
        rules = {name: rule for name, rule in json.loads(backend.to_str()).items() if name not in PASSING}
    text = json.dumps({"rules": rules, "end": tokenizer.eos_token_id}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(tokenizer: Any, texts: Sequence[str], whole: bool = True, longest: int | None = None) -> list[list[int]]:
    """Return the tokens of every text, at most ``longest``; ``whole``: without special tokens, as parts of a stream."""
    cut = {} if longest is None else {"truncation": True, "max_length": longest}
    found: list[list[int]] = tokenizer(
        list(texts), add_special_tokens=not whole, return_attention_mask=False, verbose=False, **cut
    )["input_ids"]
    return found
