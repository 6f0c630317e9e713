"""`text_classification_tasks`: the nodes' labelled texts as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Annotated, Any

import torch
from torch import Tensor

from graphcollab.errors import DuplicateError, InvalidTypeError, MissingError, RangeError, UnknownError
from graphcollab.llm.documents import Documents, encode, fingerprint, gather_documents
from graphcollab.llm.text_tasks import Clusters, Texts, clusters_in_order
from graphcollab.llm.token_loss import PADDING
from graphcollab.settings import Count, Seed, checked
from graphcollab.tasks import Pool, Tasks
from graphcollab.tasks._builders import AnyMetric, Part
from graphcollab.tasks._pairs import facts_of_pool
from graphcollab.tasks._sites import SAMPLES, Draw
from graphcollab.tasks.statistics import HERE, Statistics


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
    """Build tasks of classifying every node's texts, for a `LanguageModel` of a classifier.

    A sample is a text with the tokenizer's special tokens, [L] int64, padded with -1 at its end and cut after L tokens.
    Some texts of every class are set aside, as in ``Tasks.from_arrays``, and all copies of a text that a node has go
    together, whatever their labels; see `text_tasks`.

    Args:
        train: Labelled texts of every node, {node: list of pairs (text, label)}. Labels are names, or whole numbers.
        tokenizer: See `text_tasks`.
        context: L. A pass takes the longer the larger it is, however short texts are.
        val: Texts for validation, given like ``train``. Default: ``val_fraction`` of each node's texts.
        test: Texts for testing, likewise.
        val_fraction: See `text_tasks`.
        test_fraction: See there.
        classes: All labels, in the order of the model's outputs, such as ``[1, 2, 3, 4, 5]`` of stars; required where
            sites keep their texts. Default: whole numbers are the numbers of outputs, from 0; of names all that occur,
            sorted.
        seed: Seed of the draws.
        metric: See `Tasks`.
        cluster: True cluster of every node where it is known.
        statistics: Statistics over all texts where some are elsewhere.

    Raises:
        TypeError: If texts are none, or not labelled, or the tokenizer is none.
        ValueError: If a label is no class, or a node has no or too few texts, or an empty or broken one.
    """
    known = None if classes is None else [*classes]
    if known is None and not statistics.alone:
        raise MissingError("classes", "where sites keep their texts, classes= must name all classes, in the same order")
    documents = gather_documents({"train": train, "val": val, "test": test}, labelled=True)
    kinds = _kinds(documents, known)
    given = frozenset(word for word, some in (("val", val), ("test", test)) if some is not None)
    how = Draw(documents.words, val_fraction, test_fraction, True, seed, given)
    divided = documents.divide(how, kinds)
    rows = _padded(encode(tokenizer, documents.texts, whole=False, longest=context), context)
    pool = Pool(rows, kinds, group=documents.copies if documents.repeats and not given else None)
    facts = {"tokenizer": fingerprint(tokenizer), "classes": [*map(str, known or ())]}
    statistics.agree({**facts_of_pool(pool), **facts}, len)
    names, ids = documents.sites.names, documents.sites.node_id
    more: dict[str, Any] = {"cluster": clusters_in_order(cluster, names), "split_given": test is not None}
    tasks = Tasks({SAMPLES: pool}, divided, names, "cross_entropy", metric, ids, **more)
    return statistics.union(tasks, how.may_train(documents.sites))


def _kinds(documents: Documents, classes: Sequence[Any] | None) -> Tensor:
    """Return the labels as numbers from 0, [N]."""
    labels = documents.labels
    whole, named = ([isinstance(one, kind) and not isinstance(one, bool) for one in labels] for kind in (Integral, str))
    if not all(whole) and not all(named):
        kinds = sorted({type(one).__name__ for one in labels})
        raise InvalidTypeError("labels", f"labels must all be whole numbers or all be names, got {', '.join(kinds)}")
    if classes is None and all(whole):
        if min(labels) < 0:
            raise RangeError(
                f"node {documents.node_of(labels.index(min(labels)))!r}",
                f"{documents.node_of(labels.index(min(labels)))!r} has the label {min(labels)}, and whole numbers are "
                "those of the model's outputs, from 0: name all labels in their order by classes=",
            )
        return torch.tensor([int(one) for one in labels])
    known = sorted({*labels}) if classes is None else classes
    if len({*known}) != len(known):
        raise DuplicateError("classes", f"classes must differ from each other, got {known}")
    if strange := sorted({*labels} - {*known}):
        raise UnknownError(
            f"label {strange[0]!r}",
            f"the label {strange[0]!r} is none of the classes {list(known)}: add it, or correct the label",
        )
    place = {name: k for k, name in enumerate(known)}
    return torch.tensor([place[label] for label in labels])


def _padded(tokens: Sequence[Sequence[int]], context: int) -> Tensor:
    """Return texts as rows [N, L]."""
    rows = torch.full((len(tokens), context), PADDING)
    for row, some in zip(rows, tokens, strict=True):
        row[: len(some)] = torch.tensor(some)
    return rows
