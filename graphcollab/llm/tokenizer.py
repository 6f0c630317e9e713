"""One tokenizer for all nodes: what it is known by, and texts as tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from graphcollab.errors import EmptyError, InvalidTypeError, MismatchError
from graphcollab.naming import few

__all__ = ["AnyTokenizer", "encode", "fingerprint", "one_tokenizer"]

AnyTokenizer: TypeAlias = Annotated[Any, "a tokenizer of transformers, or a dict of them by node"]
PASSING = "truncation", "padding"  # how a tokenizer was called last


def fingerprint(tokenizer: Any) -> str:
    """Return 16 digits of a SHA-256 checksum of how texts become tokens: vocabulary, merges and all rules.

    Two tokenizers that differ in any of them differ in it, and so do two that end texts with different tokens.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        rules: Any = {"vocabulary": tokenizer.get_vocab(), "class": type(tokenizer).__name__}
    else:
        rules = {name: rule for name, rule in json.loads(backend.to_str()).items() if name not in PASSING}
    text = json.dumps({"rules": rules, "end": tokenizer.eos_token_id}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def one_tokenizer(given: Any, documents: Any) -> Any:
    """Return the tokenizer of all nodes, of one or of a dict of equal ones.

    Args:
        given: The tokenizer, or a dict of them by node.
        documents: The nodes' documents, of which only the names of the nodes matter here.

    Raises:
        TypeError: If something is no tokenizer of transformers.
        ValueError: If two nodes' tokenizers differ: one number would mean different words to their models. Or if a node
            has none, or a tokenizer is of no node.
    """
    many = dict(given) if isinstance(given, Mapping) else {"": given}
    for node, one in many.items():
        if not callable(one) or not hasattr(one, "get_vocab") or not hasattr(one, "eos_token_id"):
            where = f" of {node!r}" if node else ""
            raise InvalidTypeError(
                "tokenizer",
                f"expected a tokenizer of transformers{where}, such as AutoTokenizer.from_pretrained(folder) or "
                f"PreTrainedTokenizerFast(tokenizer_object=...), got {type(one).__name__}",
            )
    if not many:
        raise EmptyError("tokenizer", "expected a tokenizer for every node, got an empty dict", public=True)
    if isinstance(given, Mapping) and isinstance(documents, Mapping):
        _check_nodes([*map(str, given)], [*map(str, documents)])
    marks = {node: fingerprint(one) for node, one in many.items()}
    first, *others = many
    for node in others:
        if marks[node] != marks[first]:
            raise MismatchError(
                "tokenizer",
                f"{first!r} and {node!r} have different tokenizers ({marks[first]} and {marks[node]}), so the same "
                "number would be different words: give all nodes one tokenizer",
            )
    return many[first]


def _check_nodes(given: Sequence[str], nodes: Sequence[str]) -> None:
    """Raise a ValueError that names nodes without a tokenizer, or tokenizers without a node, if there are such."""
    lacking, strange = ([repr(n) for n in some if n not in {*rest}] for some, rest in ((nodes, given), (given, nodes)))
    if lacking or strange:
        told = [f"no tokenizer of {few(lacking)}"] * bool(lacking)
        told += [f"one of {few(strange)}, which has no documents"] * bool(strange)
        raise MismatchError(
            "tokenizer", f"tokenizers by node have {' and '.join(told)}: give one tokenizer for all, or one of each"
        )


def encode(tokenizer: Any, texts: Sequence[str], whole: bool = True, longest: int | None = None) -> list[list[int]]:
    """Return the tokens of every text.

    Args:
        tokenizer: How texts are cut.
        texts: The texts.
        whole: Leave out special tokens, since texts are parts of a stream.
        longest: Drop what is beyond so many tokens.
    """
    cut = {} if longest is None else {"truncation": True, "max_length": longest}
    found: list[list[int]] = tokenizer(
        list(texts), add_special_tokens=not whole, return_attention_mask=False, verbose=False, **cut
    )["input_ids"]
    return found
