"""Text tasks: next-token prediction, and classification of labeled texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Annotated, Any, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.errors import (
    DuplicateError,
    EmptyError,
    InvalidTypeError,
    MismatchError,
    MissingError,
    UnknownError,
)
from graphcollab._base.settings import Count, Seed, checked
from graphcollab.data._builders import AnyMetric, Part
from graphcollab.data._pairs import facts_of_pool
from graphcollab.data._sites import SAMPLES, Draw
from graphcollab.data.samples import Pool, Split
from graphcollab.data.statistics import HERE, Statistics
from graphcollab.data.tasks import Tasks
from graphcollab.llm.documents import Documents, encode, fingerprint, gather_documents
from graphcollab.llm.token_loss import PADDING, blocks_of, count_predicted, perplexity, token_loss

Texts: TypeAlias = Annotated[Mapping[Any, Any], "a dict {node: documents of the node}"]
Clusters: TypeAlias = Annotated[Mapping[Any, int] | None, "a dict {node: number of its cluster}"]


@checked
def text_tasks(
    train: Texts,
    tokenizer: Any,
    *,
    context: Count = 512,
    val: Texts | None = None,
    test: Texts | None = None,
    val_fraction: Part = 0.2,
    test_fraction: Part = 0.2,
    joined: bool = True,
    seed: Seed = 0,
    cluster: Clusters = None,
    statistics: Statistics = HERE,
) -> Tasks:
    """Build next-token prediction tasks from every node's texts, for a causal `LanguageModel`.

    Documents are divided before they are cut, and all copies of a text at a node go together, so no block has text of
    two of the node's splits. Every document ends with the tokenizer's end token. A node's documents in a split are
    joined into one stream and cut into blocks of ``context`` predicted tokens; each token but the first is predicted
    once. The last block is padded with -1, which never counts.

    A sample is a block, [L + 1] int64, weighted by its number of predicted tokens, so that the loss (`token_loss`) and
    the metric (`perplexity`) are means over tokens. Sample counts are numbers of blocks.

    Args:
        train: Documents by node, {node: list of texts}, ideally each text once; nodes as in ``Tasks.from_arrays``.
        tokenizer: The transformers tokenizer used by all nodes.
        context: L, the number of predicted tokens per block.
        val: Documents for validation, given like ``train``. Default: ``val_fraction`` of each node's documents.
        test: Documents for testing, likewise.
        val_fraction: Fraction of a node's training documents for validation, if ``val`` is not given.
        test_fraction: Fraction of a node's documents for testing, if neither ``val`` nor ``test`` is given.
        joined: Whether documents follow each other in a block. Otherwise each starts a new block, with more padding;
            long ones are cut.
        seed: Seed of the draws.
        cluster: True cluster of every node, if known.
        statistics: Statistics over all texts, if some are held elsewhere.

    Raises:
        TypeError: If documents are no list of texts, or the tokenizer is none.
        ValueError: If the tokenizer has no end token; or if a node, which is named, has too few documents to divide, or
            an empty or broken one.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"<end>": 0, "a": 1, "b": 2}, unk_token="<end>"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>")
        >>> tasks = text_tasks({"north": ["a b", "b"]}, tokenizer, context=3, val_fraction=0, test_fraction=0)
        >>> tasks.pools["train"].inputs, tasks.pools["train"].weight
        (tensor([[ 1,  2,  0,  2],
                [ 2,  0, -1, -1]]), tensor([3., 1.], dtype=torch.float64))
    """
    if tokenizer.eos_token_id is None:
        raise MissingError(
            "tokenizer", "the tokenizer has no end token, which texts are joined by: set tokenizer.eos_token"
        )
    documents = gather_documents({"train": train, "val": val, "test": test}, labeled=False)
    given = frozenset(word for word, some in (("val", val), ("test", test)) if some is not None)
    divided = documents.divide(Draw(documents.words, val_fraction, test_fraction, False, seed, given))
    tokens = [[*some, tokenizer.eos_token_id] for some in _tokens(documents, tokenizer)]
    pools, splits = _pools(divided, tokens, context, joined)
    statistics.agree({**facts_of_pool(pools["train"]), "tokenizer": fingerprint(tokenizer)}, len)
    names, ids = documents.sites.names, documents.sites.node_id
    clusters = clusters_in_order(cluster, names)  # blocks of one text must not be split again
    tasks = Tasks(pools, splits, names, token_loss, perplexity, ids, clusters, split_given=True)
    return statistics.union(tasks, splits["train"])


def clusters_in_order(cluster: Clusters, names: Sequence[str]) -> Tensor | None:
    """Return the cluster of every node, [K], in the order of ``names``; a ValueError if the nodes differ."""
    if cluster is None:
        return None
    given = {str(node): number for node, number in cluster.items()}
    if {*given} != {*names}:
        odd = sorted({*given} ^ {*names})[0]
        raise MismatchError(
            "cluster", f"cluster must name the cluster of each of the nodes and of no others, {odd!r} is odd"
        )
    return torch.tensor([given[name] for name in names])


def _tokens(documents: Documents, tokenizer: Any) -> list[list[int]]:
    found = encode(tokenizer, documents.texts)
    for place, some in enumerate(found):
        if not some:
            node, text = documents.sites.names[int(documents.sites.owner[place])], documents.texts[place]
            raise EmptyError(f"node {node!r}", f"{node!r}: the tokenizer has no tokens for {text[:40]!r}: leave it out")
    return found


def _pools(
    divided: Mapping[str, Split], tokens: Sequence[Sequence[int]], context: int, joined: bool
) -> tuple[dict[str, Pool], dict[str, Split]]:
    pools, splits = {}, {}
    for name, split in divided.items():
        every = [_blocks([tokens[d] for d in split.of(k).tolist()], context, joined) for k in range(split.num_nodes)]
        blocks = torch.cat(every)
        pools[name] = Pool(blocks, torch.zeros(len(blocks)), count_predicted(blocks))
        bounds = torch.tensor([0, *map(len, every)]).cumsum(0)
        splits[name] = Split(name, torch.arange(len(blocks)), bounds)
    return pools, splits


def _blocks(documents: Sequence[Sequence[int]], context: int, joined: bool) -> Tensor:
    """Return the blocks of a node's documents, [n, L + 1]."""
    streams = [[token for document in documents for token in document]] if joined else documents
    return torch.cat([torch.empty(0, context + 1, dtype=torch.int64), *(blocks_of(s, context) for s in streams if s)])


@checked
def text_classification_tasks(
    train: Texts,
    tokenizer: Any,
    *,
    context: Count = 128,
    val: Texts | None = None,
    test: Texts | None = None,
    val_fraction: Part = 0.2,
    test_fraction: Part = 0.2,
    classes: Annotated[Sequence[Any], "a list of the names of classes"] | None = None,
    seed: Seed = 0,
    metric: AnyMetric = "accuracy",
    cluster: Clusters = None,
    statistics: Statistics = HERE,
) -> Tasks:
    """Build text classification tasks from every node's texts, for a `LanguageModel` with a classifier.

    A sample is a text with the tokenizer's special tokens, [L] int64, cut after L tokens and padded with -1 at its end.
    Splits are stratified by class, as in ``Tasks.from_arrays``, and all copies of a text at a node go together,
    whatever their labels; see `text_tasks`.

    Args:
        train: Labeled texts by node, {node: list of pairs (text, label)}. Labels are names, or whole numbers.
        tokenizer: See `text_tasks`.
        context: L. The time of a pass grows with it, however short the texts are.
        val: Texts for validation, given like ``train``. Default: ``val_fraction`` of each node's texts.
        test: Texts for testing, likewise.
        val_fraction: See `text_tasks`.
        test_fraction: See `text_tasks`.
        classes: All labels, in the order of the model's outputs, such as ``[1, 2, 3, 4, 5]`` for stars; required if
            sites keep their texts. Default: whole numbers are output positions, from 0; names are all those that occur,
            sorted.
        seed: Seed of the draws.
        metric: See `Tasks`.
        cluster: True cluster of every node, if known.
        statistics: Statistics over all texts, if some are held elsewhere.

    Raises:
        TypeError: If samples are not texts, or not labeled, or the tokenizer is none.
        ValueError: If a label is no class, or if a node has too few texts, or an empty or broken one.
    """
    known = None if classes is None else [*classes]
    if known is None and not statistics.alone:
        raise MissingError("classes", "where sites keep their texts, classes= must name all classes, in the same order")
    documents = gather_documents({"train": train, "val": val, "test": test}, labeled=True)
    kinds = _kinds(documents.labels, known)
    given = frozenset(word for word, some in (("val", val), ("test", test)) if some is not None)
    how = Draw(documents.words, val_fraction, test_fraction, True, seed, given)
    divided = documents.divide(how, kinds)
    rows = _padded(encode(tokenizer, documents.texts, whole=False, longest=context), context)
    repeated = len(documents.copies.unique()) < len(documents.copies)
    pool = Pool(rows, kinds, group=documents.copies if repeated and not given else None)
    facts = {"tokenizer": fingerprint(tokenizer), "classes": [*map(str, known or ())]}
    statistics.agree({**facts_of_pool(pool), **facts}, len)
    names, ids = documents.sites.names, documents.sites.node_id
    more: dict[str, Any] = {"cluster": clusters_in_order(cluster, names), "split_given": test is not None}
    tasks = Tasks({SAMPLES: pool}, divided, names, "cross_entropy", metric, ids, **more)
    return statistics.union(tasks, how.may_train(documents.sites))


def _kinds(labels: Sequence[Any], classes: Sequence[Any] | None) -> Tensor:
    """Return the labels as numbers from 0, [N]."""
    whole, named = ([isinstance(one, kind) and not isinstance(one, bool) for one in labels] for kind in (Integral, str))
    if not all(whole) and not all(named):
        kinds = sorted({type(one).__name__ for one in labels})
        raise InvalidTypeError("labels", f"labels must all be whole numbers or all be names, got {', '.join(kinds)}")
    if classes is None:
        classes = range(max(labels) + 1) if all(whole) else sorted({*labels})
    if len({*classes}) != len(classes):
        raise DuplicateError("classes", f"classes must differ from each other, got {classes}")
    if strange := sorted({*labels} - {*classes}):
        raise UnknownError(f"label {strange[0]!r}", f"the label {strange[0]!r} is none of the classes {[*classes]}")
    place = {name: k for k, name in enumerate(classes)}
    return torch.tensor([place[label] for label in labels])


def _padded(tokens: Sequence[Sequence[int]], context: int) -> Tensor:
    """Return texts as rows [N, L]."""
    rows = torch.full((len(tokens), context), PADDING)
    for row, some in zip(rows, tokens, strict=True):
        row[: len(some)] = torch.tensor(some)
    return rows
