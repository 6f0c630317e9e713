"""The mixers that the package brings: by name, with a card each, and of use where the card says so."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from graphcollab import build_model, compare, load_dataset
from graphcollab.data.partition import shard_tasks
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import local, meta_l2c
from graphcollab.nn import MixingEncoder, mixer_cards
from tests.raising import raises

MODELS = {
    "digits": lambda: build_model("mlp", (1, 8, 8), 10),
    "fashion_mnist": lambda: build_model("mlp", (1, 28, 28), 10),
    "parkinsons": lambda: build_model("mlp", (19,), 1, hidden=32),
}


def test_every_card_is_of_a_mixer_that_fits_its_model():
    assert mixer_cards().keys() == MODELS.keys()
    for name, card in mixer_cards().items():
        MixingEncoder.load(name).check(ParamSpec.from_module(MODELS[name]()))
        assert f'pretrained="{name}"' in card
        assert f"examples/pretrain_mixers.py {name}" in card
        assert "minus local" in card


def test_a_file_of_the_same_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = MixingEncoder.create(ParamSpec.from_module(build_model("mlp", (5,), 2)))
    own.save(Path("digits"))
    assert MixingEncoder.load("digits").widths == own.widths
    with raises("missing-file", "file clothes", "'digits'", "'fashion_mnist'", "'parkinsons'", kind=FileNotFoundError):
        MixingEncoder.load("clothes")


def test_a_mixer_helps_on_digits_that_it_has_not_seen():
    digits = load_dataset("digits")
    draw = lambda seed: shard_tasks(digits, 10, 2, seed, classes=range(6, 10), shard_size=12)  # noqa: E731
    mixing = partial(meta_l2c, pretrained="digits", frozen=True, lr=0.05)
    methods = {"local": partial(local, lr=0.05), "pretrained": mixing}
    found = compare(methods, draw, MODELS["digits"], [77, 78, 79], rounds=20, evaluate_every=20, budget="rounds")
    assert found.paired("pretrained", "local").mean > 0.01
