"""The tokenizer of all nodes: its checksum, and texts as tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

PASSING = "truncation", "padding"  # how a tokenizer was called last


def fingerprint(tokenizer: Any) -> str:
    """Return 16 digits of a SHA-256 of how texts become tokens: vocabulary, merges, all rules and the end token."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        rules: Any = {"vocabulary": tokenizer.get_vocab(), "class": type(tokenizer).__name__}
    else:
        rules = {name: rule for name, rule in json.loads(backend.to_str()).items() if name not in PASSING}
    text = json.dumps({"rules": rules, "end": tokenizer.eos_token_id}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(tokenizer: Any, texts: Sequence[str], whole: bool = True, longest: int | None = None) -> list[list[int]]:
    """Return the tokens of every text, ``longest`` at most; ``whole``: of parts of a stream, without special tokens."""
    cut = {} if longest is None else {"truncation": True, "max_length": longest}
    found: list[list[int]] = tokenizer(
        list(texts), add_special_tokens=not whole, return_attention_mask=False, verbose=False, **cut
    )["input_ids"]
    return found
