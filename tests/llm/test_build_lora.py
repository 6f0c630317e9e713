"""Which layers get adapters, and what becomes of the base."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Tasks, run
from graphcollab.engine.randomness import own_randomness
from graphcollab.llm import LanguageModel, build_lora, token_loss
from graphcollab.llm.base import transformers
from graphcollab.methods import fedavg
from tests.llm.tiny import CAUSAL, bert, gpt, llama
from tests.raising import raises

LAYERS = {
    "gpt": {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"},
    "llama": {
        *(f"self_attn.{name}_proj" for name in "qkvo"),
        *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
    },
}


def adapted(model):
    return {name.partition(".lora_A.")[0] for name, _ in model.named_parameters() if ".lora_A." in name}


@pytest.mark.parametrize("family", CAUSAL)
def test_all_layers_of_attention_and_mlp_get_adapters_by_default(family):
    found = adapted(build_lora(CAUSAL[family]()))
    assert {".".join(name.split(".")[-2:]) for name in found} == LAYERS[family]
    assert len(found) == 2 * len(LAYERS[family])


def test_neither_pooler_nor_head_of_an_encoder_gets_adapters():
    found = adapted(build_lora(bert(kind="Roberta")))
    assert len(found) == 6
    assert all(".encoder.layer.0." in name for name in found)


def test_layers_are_named_by_the_ends_of_their_names():
    model = build_lora(llama(), targets=["q_proj", "layers.1.mlp.up_proj"])
    assert {name.split("layers.")[1] for name in adapted(model)} == {
        "0.self_attn.q_proj",
        "1.self_attn.q_proj",
        "1.mlp.up_proj",
    }


def test_settings_reach_the_adapters():
    model = build_lora(llama(), rank=3, alpha=6, dropout=0.25, targets=["q_proj"])
    layer = model.model.get_base_model().model.layers[0].self_attn.q_proj
    assert layer.lora_A["default"].weight.shape == (3, 8)
    assert layer.scaling["default"] == 2.0
    assert layer.lora_dropout["default"].p == 0.25


def test_the_base_stays_as_it_is_and_lies_in_memory_once():
    base = gpt()
    before = {name: (p.data_ptr(), p.requires_grad) for name, p in base.named_parameters()}
    modules = [*map(str, base.named_modules())]
    models = [build_lora(base) for _ in range(2)]
    assert {name: (p.data_ptr(), p.requires_grad) for name, p in base.named_parameters()} == before
    assert [*map(str, base.named_modules())] == modules
    for model in models:
        frozen = {p.data_ptr() for p in model.parameters() if not p.requires_grad}
        assert frozen == {place for place, _ in before.values()}
    assert not any(p.requires_grad for name, p in models[0].named_parameters() if ".lora_" not in name)


def test_a_base_is_read_from_a_folder(tmp_path):
    base = gpt()
    base.half().save_pretrained(tmp_path / "base")
    model = build_lora(tmp_path / "base")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    own = dict(model.model.get_base_model().named_parameters())
    weight = own["transformer.wte.weight"]
    assert torch.equal(weight, base.float().transformer.wte.weight)


def test_a_new_head_is_drawn_as_other_weights_are(tmp_path, caplog):
    bert(2).bert.save_pretrained(tmp_path / "bert")
    heads, state = [], torch.get_rng_state()
    for seed in (1, 1, 2):
        with own_randomness(seed):
            model = build_lora(str(tmp_path / "bert"), classes=5)
        heads.append(dict(model.named_parameters())[model.parts["head"][0]])
    assert heads[0].shape == (5, 8)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    assert torch.equal(state, torch.get_rng_state())


def test_a_function_is_drawn_by_the_seed():
    base = gpt()
    blocks = torch.tensor([[1, 2, 3]] * 4)
    tasks = Tasks.from_samples([{"x": blocks, "y": torch.zeros(4)}] * 2, loss=token_loss, metric="mae")
    rows = [
        run(fedavg(part="lora", epochs=1), tasks, lambda: build_lora(base), rounds=1, seed=seed).stacks.part("lora")
        for seed in (1, 1, 2)
    ]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


def test_what_cannot_be_adapted_is_refused():
    with raises("unknown", "targets", "'q_proj'"):
        build_lora(gpt(), targets=["c_attn", "q_proj"])
    with raises("value", "targets"):
        build_lora(gpt(), targets=[])
    with raises("type", "model", kind=TypeError):
        build_lora(torch.nn.Linear(2, 2))
    with raises("type", "model", kind=TypeError):
        build_lora(gpt().transformer)
    with raises("conflict", "model"):
        build_lora(build_lora(gpt()).model)
    with raises("conflict", "classes"):
        build_lora(bert(2), classes=3)
    with raises("value", "rank"):
        build_lora(gpt(), rank=0)
    with raises("value", "share"):
        build_lora(gpt(), share="C")


def test_a_model_that_sees_what_it_predicts_is_refused(caplog):
    library = transformers()
    config = bert().config
    with raises("unsupported", "model"):
        build_lora(library.BertLMHeadModel(config))
    config.is_decoder = True
    assert isinstance(build_lora(library.BertLMHeadModel(config)), LanguageModel)


def test_classes_are_for_classifiers():
    with raises("conflict", "classes"):
        build_lora(gpt(), classes=3)
    assert build_lora(bert(3), classes=3).parts.keys() == {"lora", "head"}


def small(kind, name="ForCausalLM", **settings):
    library = transformers()
    with own_randomness(0):
        return getattr(library, kind + name)(getattr(library, f"{kind}Config")(vocab_size=24, **settings))


def test_layers_that_peft_takes_no_adapters_for_are_refused():
    base = small("Mamba", hidden_size=8, num_hidden_layers=1, state_size=2)
    with raises("value", "targets", "'out_proj'"):
        build_lora(base)
    assert len(adapted(build_lora(base, targets=["in_proj"]))) == 1


def test_a_model_that_writes_to_its_weights_is_refused():
    base = small("Rwkv", hidden_size=8, num_hidden_layers=7)  # those from the seventh on are halved in evaluation
    with raises("contract", "parameter 'base_model.model.rwkv.blocks.6.attention.output.base_layer.weight'"):
        build_lora(base)


def test_only_models_that_can_be_made_causal_are_told_so():
    sizes = {"d_model": 8, "n_layer": 1, "n_head": 2, "d_inner": 8}
    with raises("unsupported", "model"):
        build_lora(small("XLNet", "LMHeadModel", **sizes))


def test_a_classifier_must_know_its_padding():
    sizes = {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2, "num_labels": 3, "initializer_range": 0.3}
    base = small("GPT2", "ForSequenceClassification", **sizes)
    with raises("missing", "pad_token_id"):
        build_lora(base)
    base.config.pad_token_id = 24
    with raises("range", "pad_token_id", "24"):
        build_lora(base)
    base.config.pad_token_id = 5
    base.eval()
    texts = torch.tensor([[2, 7, 9, 4], [3, 8, -1, -1]])
    expected = torch.cat([base(input_ids=text[text >= 0][None]).logits for text in texts])
    torch.testing.assert_close(build_lora(base).eval()(texts), expected)
