"""Documents of all nodes: gathered, checked, divided into splits, and tokenized."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.errors import EmptyError, InvalidTypeError, MismatchError
from graphcollab._base.naming import few
from graphcollab.data._sites import WORDS, Draw, Sites, find_sites, to_groups
from graphcollab.data.samples import Split


@dataclass(frozen=True)
class Documents:
    """Documents of all nodes, [N]; ``copies`` numbers the distinct texts of every node: copies share a number."""

    texts: list[str]
    labels: list[Any]
    sites: Sites
    words: np.ndarray | None
    copies: Tensor

    def divide(self, draw: Draw, kinds: Tensor | None = None) -> dict[str, Split]:
        """Divide every node's documents into splits, stratified by ``kinds`` [N]; the given order is kept.

        In drawn splits all copies of a text go together; a warning counts texts given for training and another split.
        """
        together = self.copies
        if self.words is not None:
            together = len(WORDS) * together + torch.tensor([WORDS.index(word) for word in self.words])
            self._warn_of_known()
        splits = draw.divide(self.sites, kinds, together)
        for name, split in splits.items():
            lists = [split.of(k).sort().values for k in range(split.num_nodes)]
            splits[name] = Split.from_lists(split.pool, lists)
        return splits

    def _warn_of_known(self) -> None:
        trained = torch.from_numpy(np.asarray(self.words == "train", bool))
        known = torch.isin(self.copies, self.copies[trained]) & ~trained
        if count := int(known.sum()):
            first = self.sites.names[int(self.sites.owner[known].min())]
            message = f"{count} of {int((~trained).sum())} documents for validation and testing are for training, too"
            issue("quality", "documents", f"{message}, first at {first!r}: leave them out of one of the two")


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
    if isinstance(some, str | bytes) or not some:
        raise InvalidTypeError(subject, f"{who}: expected a list of documents, got {some!r:.40}")
    pairs = [one if labeled else (one, None) for one in some]
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
