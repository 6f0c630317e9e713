"""What the examples of language models do themselves: which prose they take, whose texts are whose, and their table."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def test_without_a_root_parties_have_the_topics(example, monkeypatch):
    monkeypatch.delenv("GRAPHCOLLAB_DATA", raising=False)
    languages = example("_languages")
    monkeypatch.setattr(languages, "prose_of", lambda package: [package])  # which takes seconds to read
    assert [*languages.read_texts(None, None)] == ["numpy", "scipy", "sklearn", "matplotlib"]


def words():
    from graphcollab.llm.base import transformers  # first: it makes transformers importable

    library = transformers()
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"<end>": 0} | {str(n): n + 1 for n in range(200)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return library.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("The nodes of a graph are visited in the order in which they were added, until there are none left.", True),
        ("Too short to be a paragraph.", False),
        ("the nodes of a graph are visited in the order in which they were added, until there are none left.", False),
        (
            "Call `f(x)` with the nodes of a graph, which are visited in the order in which they were added before.",
            False,
        ),
        (
            "Parameters ---------- the nodes of a graph, in the order in which they were added, until there are none.",
            False,
        ),
        (
            "The 10 20 30 40 50 60 70 80 90 100 110 120 130 140 150 160 170 180 190 200 210 220 230 240 250 260 270.",
            False,
        ),
    ],
)
def test_what_is_prose(example, text, prose):
    assert example("_prose").is_prose(text) is prose


def test_parties_share_no_text_but_those_they_are_tested_on(example):
    texts = {"a": [str(n) for n in range(100)], "b": [str(n) for n in range(100, 200)]}
    sizes = {"parties": 2, "train": 10, "val": 5, "test": 8, "context": 4}
    tasks = example("_languages").draw_tasks(texts, words(), 3, **sizes)
    assert tasks.names == ("a-1", "a-2", "b-1", "b-2")
    assert tasks.cluster.tolist() == [0, 0, 1, 1]
    found = {}
    for name, split in tasks.splits.items():
        pool = tasks.pools[split.pool]
        for k in range(4):
            tokens = pool.inputs[split.of(k)]
            found[name, k] = set(tokens[tokens > 0].tolist())
    assert [len(found["train", k]) for k in range(4)] == [10] * 4
    assert [len(found["val", k]) for k in range(4)] == [5] * 4
    assert found["test", 0] == found["test", 1] != found["test", 2]
    own = [found["train", 0], found["train", 1], found["val", 0], found["val", 1], found["test", 0]]
    assert sum(map(len, own)) == len(set.union(*own)) == 38
    assert all(1 <= token <= 100 for some in own for token in some)


def test_too_few_texts_are_refused(example):
    texts = {"a": ["1"] * 10}
    sizes = {"parties": 2, "train": 4, "val": 1, "test": 1, "context": 4}
    with pytest.raises(SystemExit, match="2 parties need 11 texts of 'a', and there are 10"):
        example("_languages").draw_tasks(texts, words(), 0, **sizes)


def test_missing_sentences_are_told(example, tmp_path):
    with pytest.raises(SystemExit, match=r"there is no .*commonvoice_ca\.txt: give the folder that has text/"):
        example("_languages").read_texts("languages", str(tmp_path))


def test_what_a_language_gets_of_a_party_of_another(example):
    # Parties 0 and 1 speak one language, 2 another. 0 hears 1 and 2, 1 hears 2 alone, 2 hears both; 0 also itself.
    edge_index = torch.tensor([[1, 2, 2, 0, 1, 0], [0, 0, 1, 2, 2, 0]])
    weight = torch.tensor([0.25, 0.75, 1.0, 0.5, 0.5, 9.0])
    found = example("_language_tables").listening((edge_index, weight), torch.tensor([0, 0, 1]))
    assert found.tolist() == [[0.125, 0.875], [1.0, 0.0]]


def test_another_base_is_kept_elsewhere(example):
    cached = example("_pretrain").cached
    assert cached(("torch",), {"steps": 1}) == cached(("torch",), {"steps": 1}) != cached(("torch",), {"steps": 2})
