"""Documents are divided, then cut into blocks; every token is predicted once and no text is lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from graphcollab import benefit
from graphcollab.analysis import resplit
from graphcollab.llm import text_classification_tasks, text_tasks
from graphcollab.llm.documents import fingerprint
from graphcollab.sites import tasks_of_site
from tests.data.rooms import at_sites, results_of
from tests.llm.tiny import TEXTS, gpt, words
from tests.raising import raises, warns

WORDS = words()
NODES = {"south": TEXTS[:5], "north": TEXTS[3:]}
WHOLE = {"val_fraction": 0.0, "test_fraction": 0.0}


def tokens(text):
    return [*WORDS(text)["input_ids"], 0]


def blocks_of(tasks, split, node):
    own = tasks.splits[split]
    return tasks.pools[own.pool].inputs[own.of(node)]


def predicted(blocks):
    """What is predicted, block by block, without padding."""
    return [token for block in blocks.tolist() for token in block[1:] if token >= 0]


def test_a_stream_is_cut_into_blocks_that_overlap_by_a_token():
    tasks = text_tasks({"a": ["red cat", "dog"]}, WORDS, context=2, **WHOLE)
    red, cat, dog, end = (*WORDS("red cat dog")["input_ids"], 0)
    assert blocks_of(tasks, "train", 0).tolist() == [[red, cat, end], [end, dog, end]]
    tasks = text_tasks({"a": ["red cat", "dog"]}, WORDS, context=3, **WHOLE)
    assert blocks_of(tasks, "train", 0).tolist() == [[red, cat, end, dog], [dog, end, -1, -1]]
    assert tasks.pools["train"].weight.tolist() == [3, 1]


def test_documents_by_themselves_begin_a_block_each():
    tasks = text_tasks({"a": ["red cat", "dog", "red red red cat"]}, WORDS, context=3, joined=False, **WHOLE)
    red, cat, dog, end = (*WORDS("red cat dog")["input_ids"], 0)
    assert blocks_of(tasks, "train", 0).tolist() == [
        [red, cat, end, -1],
        [dog, end, -1, -1],
        [red, red, red, cat],
        [cat, end, -1, -1],
    ]
    assert tasks.pools["train"].weight.tolist() == [2, 1, 3, 1]


@pytest.mark.parametrize("context", [1, 4, 100])
@pytest.mark.parametrize("joined", [True, False])
def test_every_token_but_the_first_is_predicted_once(context, joined):
    tasks = text_tasks(NODES, WORDS, context=context, joined=joined, **WHOLE)
    for node, name in enumerate(("north", "south")):
        documents = [tokens(text) for text in NODES[name]]
        streams = [[t for d in documents for t in d]] if joined else documents
        assert predicted(blocks_of(tasks, "train", node)) == [t for stream in streams for t in stream[1:]]
    assert tasks.names == ("north", "south")
    assert tasks.input_shape == (context + 1,)


def test_documents_are_divided_before_they_are_cut():
    """By names of documents that occur in one split each; a node's draw does not depend on other nodes."""
    texts = {
        node: [f"{word} {word} {word}" for word in some]
        for node, some in {
            "a": ["red", "green", "blue", "one", "two", "three", "four", "cat", "dog", "bird"],
            "b": ["runs", "eats", "sees", "a", "the"],
        }.items()
    }
    tasks = text_tasks(texts, WORDS, context=3, val_fraction=0.25, test_fraction=0.2, seed=4)
    alone = text_tasks({"b": texts["b"]}, WORDS, context=3, val_fraction=0.25, test_fraction=0.2, seed=4)
    for node, name in enumerate("ab"):
        seen = Counter()
        for split in ("train", "val", "test"):
            seen.update({t for block in blocks_of(tasks, split, node).tolist() for t in block if t > 0})
        assert seen == Counter({t: 1 for text in texts[name] for t in tokens(text)[:1]})
    sizes = {name: len({*blocks_of(tasks, name, 0).flatten().tolist()} - {0, -1}) for name in tasks.splits}
    assert sizes == {"train": 6, "val": 2, "test": 2}
    for split in alone.splits:
        assert torch.equal(blocks_of(alone, split, 0), blocks_of(tasks, split, 1))


REPEATED = {"a": ["one cat two", "the dog eats", "red bird"] * 10, "b": ["a cat", "red red red cat", "four", "two"] * 5}


def parts_of(tasks):
    """The texts of every split of every node, each block being one text."""
    own = {name: [blocks_of(tasks, name, node).tolist() for node in (0, 1)] for name in tasks.splits}
    return {name: [Counter(map(tuple, blocks)) for blocks in nodes] for name, nodes in own.items()}


@pytest.mark.parametrize("seed", range(5))
def test_all_copies_of_a_text_are_for_the_same(seed):
    parts = parts_of(text_tasks(REPEATED, WORDS, context=8, joined=False, seed=seed))
    for node, (name, copies) in enumerate((("a", 10), ("b", 5))):
        seen = sum((parts[split][node] for split in parts), Counter())
        assert seen == {(*tokens(text), *[-1] * (9 - len(tokens(text)))): copies for text in REPEATED[name]}
        assert sum(len(parts[split][node]) for split in parts) == len(seen)  # none in two splits
        assert all(parts[split][node] for split in ("train", "val", "test"))


def test_all_copies_of_a_labeled_text_are_for_the_same_whatever_their_labels():
    labeled = {name: [(text, k % 2) for k, text in enumerate(texts)] for name, texts in REPEATED.items()}
    tasks = text_classification_tasks(labeled, WORDS, context=8)
    for dealt in (tasks, resplit(tasks, 3)):
        parts = parts_of(dealt)
        assert [sum(len(parts[split][node]) for split in parts) for node in (0, 1)] == [3, 4]
        assert [sum(parts[split][node].total() for split in parts) for node in (0, 1)] == [30, 20]


def test_texts_given_for_two_splits_are_warned_of_once():
    given = {
        "val": {"south": ["dog", TEXTS[0]], "north": ["cat", "cat"]},
        "test": {"south": [TEXTS[1], TEXTS[1]], "north": [TEXTS[4], "cat", "blue"]},
    }
    with warns("quality", "documents", "4 of 9", "'north'") as caught:
        tasks = text_tasks(NODES, WORDS, context=4, **given)
    assert len(caught) == 1
    assert predicted(blocks_of(tasks, "val", 1)) == [*tokens("dog"), *tokens(TEXTS[0])][1:]
    labeled = {node: [(text, len(text) % 2) for text in texts] for node, texts in NODES.items()}
    with warns("quality", "documents", "5 of 6", "'south'"):
        text_classification_tasks(labeled, WORDS, context=4, test={**labeled, "north": [("new", 0)]})


def test_blocks_are_not_dealt_anew():
    """Of one text some would be for training and others for testing."""
    with raises("conflict", "tasks"):
        benefit(text_tasks(REPEATED, WORDS, context=3), lambda: gpt())


def test_splits_may_be_given():
    tasks = text_tasks(
        NODES, WORDS, context=4, val={"south": ["dog"], "north": ["cat"]}, test={"north": ["red"], "south": ["blue"]}
    )
    assert predicted(blocks_of(tasks, "train", 1)) == [t for text in NODES["south"] for t in tokens(text)][1:]
    assert blocks_of(tasks, "val", 0).tolist() == [[*tokens("cat"), -1, -1, -1]]
    assert blocks_of(tasks, "test", 1).tolist() == [[*tokens("blue"), -1, -1, -1]]
    assert tasks.split_given
    drawn = text_tasks(NODES, WORDS, context=4, test={"north": ["red"], "south": ["blue"]}, val_fraction=0.4)
    assert [*drawn.splits] == ["train", "test", "val"]


def test_clusters_are_given_by_name():
    tasks = text_tasks(NODES, WORDS, context=4, cluster={"south": 3, "north": 1})
    assert tasks.cluster.tolist() == [1, 3]
    with raises("mismatch", "cluster", "'east'"):
        text_tasks(NODES, WORDS, context=4, cluster={"south": 3, "north": 1, "east": 2})


@pytest.mark.parametrize(
    ("documents", "error", "wanted"),
    [
        ({"a": "one text"}, TypeError, ("type", "node 'a'")),
        ({"a": TEXTS, "b": []}, TypeError, ("type", "node 'b'")),
        ({"a": TEXTS, "b": ["x", "  "]}, ValueError, ("empty", "node 'b'")),
        ({"a": ["x", None]}, ValueError, ("empty", "node 'a'", "None")),
        ({"a": ["x", b"y"]}, ValueError, ("empty", "node 'a'")),
        ({}, ValueError, ("empty",)),
        (
            {"a": TEXTS, "b": ["x", "y"]},
            ValueError,
            ("too-few", "node 'b'"),
        ),
        ({"a": TEXTS, "b": ["x", "y", "x "] * 9}, ValueError, ("too-few", "node 'b'")),
    ],
)
def test_what_is_no_text_is_refused_by_node(documents, error, wanted):
    with raises(*wanted, kind=error):
        text_tasks(documents, WORDS, context=4)


def test_other_mistakes_are_refused():
    with raises("value", "train"):
        text_tasks(TEXTS, WORDS)
    with raises("mismatch", "val", "'south'", "'train'"):
        text_tasks(NODES, WORDS, val={"north": ["red"]})
    with raises("missing", "tokenizer"):
        text_tasks(NODES, words(end=None))
    for tokenizer in ("gpt2", dict.fromkeys(NODES, WORDS)):
        with pytest.raises(AttributeError, match="eos_token_id"):
            text_tasks(NODES, tokenizer)
    with pytest.raises(TypeError):  # of half a character, by the tokenizer
        text_tasks({"a": TEXTS, "b": [f"caf\ud800 {k}" for k in range(9)]}, WORDS)


def test_a_tokenizer_is_known_by_its_vocabulary():
    """Not by how it was called last or how often it was made."""
    called = words()
    called(TEXTS, truncation=True, max_length=2)
    assert fingerprint(called) == fingerprint(words())
    assert len({fingerprint(one) for one in (words(), words("more"), words(start=1), words(end=None))}) == 4


def at_site(build, door, name, documents, tokenizer=WORDS, **settings):
    return tasks_of_site(door, name, documents[name], build=build, tokenizer=tokenizer, **settings)


def test_sites_make_the_tasks_that_one_would_make():
    together = text_tasks(NODES, WORDS, context=3, seed=2)
    found, _ = at_sites(
        lambda door, k: at_site(text_tasks, door, ["south", "north"][k], NODES, context=3, seed=2),
        2,
    )
    for k, tasks in enumerate(results_of(found)):
        assert tasks.names == together.names
        place = 1 - k
        for split in together.splits:
            assert torch.equal(blocks_of(tasks, split, place), blocks_of(together, split, place))
            assert torch.equal(tasks.sizes(split), together.sizes(split))


def test_sites_with_different_tokenizers_are_told():
    texts = {"a": TEXTS, "b": TEXTS}
    found, room = at_sites(lambda door, k: at_site(text_tasks, door, "ab"[k], texts, words(start=k), context=3), 2)
    assert [(one.code, one.subject) for one in found] == [("mismatch", "tokenizer")] * 2
    assert not any("red" in text for heard in room.heard for text in heard)


LABELED = {"a": [(text, ["odd", "even"][k % 2]) for k, text in enumerate(TEXTS)], "b": [(t, "odd") for t in TEXTS[:3]]}


def test_labeled_texts_are_padded_rows():
    tasks = text_classification_tasks(LABELED, WORDS, context=5)
    pool = tasks.pools["samples"]
    assert pool.inputs[0].tolist() == [*WORDS(TEXTS[0])["input_ids"], -1]
    assert pool.inputs[4].tolist() == WORDS(TEXTS[4])["input_ids"][:5]
    assert pool.targets.tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1]
    assert {name: tasks.sizes(name).tolist() for name in tasks.splits} == {
        "train": [5, 1],
        "val": [1, 1],
        "test": [2, 1],
    }
    given = text_classification_tasks(LABELED, WORDS, context=5, classes=["odd", "never", "even"])
    assert given.pools["samples"].targets.tolist()[:2] == [0, 2]


def test_whole_numbers_are_those_of_outputs_unless_classes_are_named():
    stars = {"a": [(text, np.int64(1 + k % 2)) for k, text in enumerate(TEXTS)]}
    assert text_classification_tasks(stars, WORDS).pools["samples"].targets.tolist() == [1, 2] * 4
    named = text_classification_tasks(stars, WORDS, classes=[3, 2, 1])
    assert named.pools["samples"].targets.tolist() == [2, 1] * 4
    with raises("unknown", "label -1"):
        text_classification_tasks({"a": [("red", 0), ("cat", 1), ("dog", -1)]}, WORDS)


def test_labels_that_are_none_are_refused():
    with pytest.raises(ValueError, match="unpack"):
        text_classification_tasks({"a": ["red"]}, WORDS)
    with raises("unknown", "label 'odd'"):
        text_classification_tasks(LABELED, WORDS, classes=["even", "none"])
    with raises("type", "labels", kind=TypeError):
        text_classification_tasks({"a": [("red", 0), ("blue", "one"), ("cat", 1)]}, WORDS)
    texts = {"a": LABELED["a"], "b": LABELED["a"]}
    found, _ = at_sites(lambda door, k: at_site(text_classification_tasks, door, "ab"[k], texts), 2)
    assert all("classes= must name all classes" in f"{one} {getattr(one, '__notes__', '')}" for one in found)
    orders = [["odd", "even"], ["even", "odd"]]
    found, _ = at_sites(lambda door, k: at_site(text_classification_tasks, door, "ab"[k], texts, classes=orders[k]), 2)
    assert [(one.code, one.subject) for one in found] == [("mismatch", "classes")] * 2
