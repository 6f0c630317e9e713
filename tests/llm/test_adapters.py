"""Adapters that PEFT loads, over the base that they were trained over and no other."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

from graphcollab import Tasks, build_model, run
from graphcollab._base.checks import own_filter
from graphcollab.engine import ParamSpec
from graphcollab.engine.randomness import own_randomness
from graphcollab.llm import (
    LanguageModel,
    build_lora,
    load_adapter,
    save_adapters,
    text_classification_tasks,
    text_tasks,
)
from graphcollab.llm.adapters import base_checksum
from graphcollab.llm.base import peft, transformers
from graphcollab.methods import fedavg, local
from tests.llm.tiny import CAUSAL, TEXTS, bert, gpt, llama, words
from tests.raising import raises
from tests.train.forged import forge, manifest_of

NODES = {"català": TEXTS[:5], "a/b": TEXTS[3:]}
TOKENS = torch.tensor([[2, 5, 9, 4], [3, 8, 1, 1]])
FILES = {"adapter_config.json", "adapter_model.safetensors", "about.safetensors"}


def trained(base, tasks=None, **settings):
    tasks = tasks or text_tasks(NODES, words(), context=4, val_fraction=0.0)
    with own_randomness(3):
        model = build_lora(base, **settings)
    return run(local(lr=0.5, epochs=1, batch_size=2), tasks, model, rounds=2)


def logits_of(model):
    return model.eval()(input_ids=TOKENS, attention_mask=torch.ones_like(TOKENS)).logits.detach()


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("share", ["both", "A", "B"])
def test_peft_loads_what_was_saved(tmp_path, family, share):
    result = trained(CAUSAL[family](), share=share)
    places = save_adapters(result, tmp_path / "adapters")
    assert {name: place.name for name, place in places.items()} == {"a/b": "a%2fb", "català": "català"}
    for name, place in places.items():
        loaded = peft().PeftModel.from_pretrained(CAUSAL[family](), place)  # a fresh base
        torch.testing.assert_close(logits_of(loaded), logits_of(result.model(name).model), rtol=0, atol=0)
        assert {one.name for one in place.iterdir()} == FILES
    assert not torch.equal(logits_of(result.model("a/b").model), logits_of(result.model("català").model))


def test_a_classifier_comes_back_with_its_head(tmp_path):
    labeled = {node: [(text, k % 3) for k, text in enumerate(some)] for node, some in NODES.items()}
    tasks = text_classification_tasks(labeled, words(), context=8, val_fraction=0.0, test_fraction=0.0)
    result = trained(bert(3), tasks)
    places = save_adapters(result, tmp_path / "adapters")
    other_head = bert(3)
    with torch.no_grad():
        other_head.classifier.weight.zero_()
    assert base_checksum(other_head) == base_checksum(bert(3)) == base_checksum(result.model("a/b"))
    again = load_adapter(other_head, places["a/b"])
    assert again.parts.keys() == {"lora", "head"}
    loaded = peft().PeftModel.from_pretrained(other_head, places["a/b"])
    torch.testing.assert_close(logits_of(loaded), logits_of(result.model("a/b").model), rtol=0, atol=0)


@pytest.mark.parametrize("share", ["both", "A", "B"])
def test_training_goes_on_from_what_was_saved(tmp_path, share):
    result = trained(gpt(), share=share)
    places = save_adapters(result, tmp_path / "adapters")
    model = load_adapter(gpt(), places["català"])
    assert model.share == share
    spec, row = result.stacks.row(result.tasks.names.index("català"))
    columns = spec.columns("all")
    assert torch.equal(ParamSpec.from_module(model).flatten(model)[columns], row[columns])
    run(fedavg(part="lora", epochs=1), result.tasks, model, rounds=1)


def test_an_adapter_of_another_base_is_refused(tmp_path):
    places = save_adapters(trained(gpt()), tmp_path / "adapters")
    with raises("mismatch", "base"):
        load_adapter(gpt(seed=1), places["a/b"])
    with raises("mismatch", "base"):
        load_adapter(llama(), places["a/b"])


def test_a_base_is_known_by_its_weights():
    base = gpt()
    mark = base_checksum(base)
    assert mark == base_checksum(gpt()) == base_checksum(build_lora(base)) == base_checksum(build_lora(base).model)
    assert mark != base_checksum(gpt(seed=1))
    assert len(mark) == 32
    half = gpt().half()
    assert base_checksum(half) == base_checksum(half.float()) != mark
    with torch.no_grad():
        base.transformer.h[1].mlp.c_fc.bias[3] += 1e-6
    assert base_checksum(base) != mark


def test_adapters_are_replaced_and_nothing_else_is(tmp_path):
    result = trained(gpt())
    save_adapters(result, tmp_path / "adapters")
    save_adapters(result, tmp_path / "adapters")
    assert [one.name for one in tmp_path.iterdir()] == ["adapters"]
    (tmp_path / "adapters" / "notes.txt").write_text("mine")
    with raises("exists", f"folder {tmp_path / 'adapters'}", "'notes.txt'", kind=FileExistsError):
        save_adapters(result, tmp_path / "adapters")
    with raises("exists", None, "notes.txt", "is a file"):
        save_adapters(result, tmp_path / "adapters" / "notes.txt")
    assert (tmp_path / "adapters" / "notes.txt").read_text() == "mine"


def test_nothing_is_there_if_writing_fails(tmp_path, monkeypatch):
    result, written = trained(gpt()), []

    def fails(path, content):
        written.append(path)
        if len(written) == 2:
            raise OSError("the disk is full")
        path.write_bytes(content)

    monkeypatch.setattr("graphcollab.llm.adapters.write_new", fails)
    with pytest.raises(OSError, match="the disk is full"):
        save_adapters(result, tmp_path / "adapters")
    assert [*tmp_path.iterdir()] == []


def test_what_is_no_adapter_is_refused(tmp_path):
    places = save_adapters(trained(gpt()), tmp_path / "adapters")
    with raises("missing-file", f"folder {tmp_path}", "has no about.safetensors", kind=FileNotFoundError):
        load_adapter(gpt(), tmp_path)
    place = places["a/b"]
    told = manifest_of(place)["content"]
    for fields, code in (({"content": {**told, "base": 3}}, "damaged"), ({"version": 4}, "version")):
        forge(place, **{"content": told, **fields})
        with raises(code, f"folder {place}"):
            load_adapter(gpt(), place)
    forge(place, told, version=3)
    weights = (place / "adapter_model.safetensors").read_bytes()
    (place / "adapter_model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with raises("damaged", f"folder {place}", "adapter_model.safetensors"):
        load_adapter(gpt(), place)
    samples = [(torch.ones(4, 3), torch.tensor([0, 1, 0, 1]))]
    other = run(local(epochs=1), Tasks.from_samples(samples), build_model("mlp", (3,), 2), rounds=1)
    with raises("type", "result", kind=TypeError):
        save_adapters(other, tmp_path / "other")


@pytest.mark.parametrize(
    "settings",
    [
        {"modules_to_save": ["lm_head"]},
        {"modules_to_save": ["wte"]},
        {"trainable_token_indices": [1, 2]},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_adapters_with_more_than_two_matrices_come_back(tmp_path, settings):
    library = peft()
    make = lambda: library.get_peft_model(gpt(), library.LoraConfig(r=2, target_modules=["c_attn"], **settings))  # noqa: E731
    with own_filter("ignore"):  # PEFT's, of tied weights
        model = LanguageModel(make())
        assert base_checksum(model) == base_checksum(gpt())
        tasks = text_tasks(NODES, words(), context=4, val_fraction=0.0)
        result = run(local(lr=0.5, epochs=1, batch_size=2), tasks, model, rounds=2)
        place = save_adapters(result, tmp_path)["a/b"]
        again = load_adapter(gpt(), place)
    torch.testing.assert_close(logits_of(again.model), logits_of(result.model("a/b").model), rtol=0, atol=0)


def test_what_a_classifier_draws_beside_its_head_is_saved_with_it(tmp_path):
    """The pooler is not in the file of a model that was trained to fill gaps."""
    bert(3).bert.save_pretrained(tmp_path / "whole")
    library = transformers()
    config = library.AutoConfig.from_pretrained(tmp_path / "whole")
    library.BertForMaskedLM(config).save_pretrained(tmp_path / "base")
    labeled = {node: [(text, k % 3) for k, text in enumerate(some)] for node, some in NODES.items()}
    tasks = text_classification_tasks(labeled, words(), context=8, val_fraction=0.0, test_fraction=0.0)
    result = run(
        local(lr=0.5, epochs=1, batch_size=2), tasks, lambda: build_lora(tmp_path / "base", classes=3), rounds=2
    )
    place = save_adapters(result, tmp_path / "adapters")["a/b"]
    expected = logits_of(result.model("a/b").model)
    load = library.AutoModelForSequenceClassification.from_pretrained
    own = load(tmp_path / "base", num_labels=3)
    for again in (load_adapter(tmp_path / "base", place).model, load_adapter(own, place).model):
        torch.testing.assert_close(logits_of(again), expected, rtol=0, atol=0)
    plain = peft().PeftModel.from_pretrained(load(tmp_path / "base", num_labels=3), place)
    torch.testing.assert_close(logits_of(plain), expected, rtol=0, atol=0)


OTHERS = {
    "another base": lambda: build_lora(gpt(seed=5)),
    "another scale": lambda: build_lora(gpt(), alpha=8),
}


@pytest.mark.parametrize("other", OTHERS)
def test_adapters_over_other_weights_are_not_averaged(other):
    tasks = text_tasks(NODES, words(), context=4, val_fraction=0.0)
    play = partial(run, tasks=tasks, rounds=1, architecture=[0, 1])
    with raises("mismatch", "part 'lora'"):
        play(fedavg(part="lora", epochs=1), model=[build_lora(gpt()), OTHERS[other]()])
    play(local(epochs=1), model=[build_lora(gpt()), OTHERS[other]()])  # by themselves they may differ
    play(fedavg(part="lora", epochs=1), model=[build_lora(gpt()), build_lora(gpt(), dropout=0.3)])


def test_b_is_shared_over_one_a_only():
    tasks = text_tasks(NODES, words(), context=4, val_fraction=0.0)
    play = partial(run, fedavg(part="lora", epochs=1), tasks, rounds=1, architecture=[0, 1])
    one = build_lora(gpt(), share="B")
    with raises("mismatch", "part 'lora'"):
        play([one, build_lora(gpt(), share="B")])
    play([one, copy.deepcopy(one)])


def with_two(choose):
    """A model of PEFT with the adapters 'default' and 'b', as a function leaves it."""
    config = partial(peft().LoraConfig, r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    model = peft().get_peft_model(llama(), config())
    model.add_adapter("b", config(r=3))
    choose(model)
    return model


def test_of_several_active_adapters_none_is_lost():
    with raises("ambiguous", "model", "'default'", "'b'"):
        LanguageModel(with_two(lambda model: model.base_model.set_adapter(["default", "b"])))


ONE = {"by the model": lambda model: model.set_adapter("b"), "inside": lambda model: model.base_model.set_adapter("b")}


@pytest.mark.parametrize("choose", ONE.values(), ids=ONE)
def test_the_adapter_that_is_chosen_is_the_one_that_is_saved(tmp_path, choose):
    tasks = text_tasks(NODES, words(), context=4, val_fraction=0.0)
    result = run(local(lr=0.5, epochs=1, batch_size=2), tasks, LanguageModel(with_two(choose)), rounds=1)
    place = save_adapters(result, tmp_path / "adapters")["a/b"]
    loaded = peft().PeftModel.from_pretrained(llama(), place)
    torch.testing.assert_close(logits_of(loaded), logits_of(result.model("a/b").model), rtol=0, atol=0)


def test_tokens_that_are_trained_come_back_though_embeddings_are_tied(tmp_path):
    tasks = text_tasks(NODES, words(), context=4, val_fraction=0.0)
    settings = {"target_modules": ["c_attn"], "fan_in_fan_out": True, "task_type": "CAUSAL_LM"}
    model = peft().get_peft_model(gpt(), peft().LoraConfig(r=2, trainable_token_indices=[1, 3], **settings))
    result = run(fedavg(part="lora", lr=0.5, epochs=1), tasks, LanguageModel(model), rounds=1)
    rows = result.stacks.part("lora")
    assert torch.equal(rows[0], rows[1])
    loaded = peft().PeftModel.from_pretrained(gpt(), save_adapters(result, tmp_path / "adapters")["a/b"])
    tokens = [m.trainable_tokens_delta["default"] for m in loaded.modules() if hasattr(m, "trainable_tokens_delta")]
    assert not torch.equal(tokens[0], gpt().transformer.wte.weight[[1, 3]])
    torch.testing.assert_close(logits_of(loaded), logits_of(result.model("a/b").model), rtol=0, atol=0)
