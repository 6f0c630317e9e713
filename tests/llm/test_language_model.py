"""Losses of blocks, logits of texts, parts, and activation checkpointing of a `LanguageModel`."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from graphcollab import Tasks, run
from graphcollab.engine import ParamSpec
from graphcollab.engine.randomness import own_randomness
from graphcollab.llm import LanguageModel, build_lora, token_loss
from graphcollab.llm.base import peft
from graphcollab.methods import fedavg, local
from tests.llm.tiny import CAUSAL, bert, gpt, llama
from tests.raising import raises

BLOCKS = torch.tensor([[2, 5, 9, 4, 7, 3], [3, 8, 2, 0, -1, -1], [6, 1, -1, -1, -1, -1]])


def moved(model, seed=1):
    """Give B, which begins as zero, other values."""
    with torch.no_grad(), own_randomness(seed):
        for name, p in model.named_parameters():
            if ".lora_B." in name:
                p.normal_(0, 0.3)
    return model.eval()


@pytest.mark.parametrize("family", CAUSAL)
def test_loss_is_the_mean_over_predicted_tokens(family):
    base = CAUSAL[family]()
    losses = build_lora(base)(BLOCKS).detach()
    base.eval()
    for block, loss in zip(BLOCKS, losses, strict=True):
        tokens = [token for token in block.tolist() if token >= 0]
        nats = 0.0
        for known in range(1, len(tokens)):  # one token after the other, each from what comes before it
            logits = base(input_ids=torch.tensor([tokens[:known]])).logits[0, -1].double()
            nats -= (logits[tokens[known]] - logits.logsumexp(0)).item()
        assert loss.item() == pytest.approx(nats / (len(tokens) - 1), rel=1e-5)


@pytest.mark.parametrize("family", CAUSAL)
def test_padding_counts_for_nothing(family):
    """Nor does the number that is put in its place, be it one that occurs in the block."""
    model = moved(build_lora(CAUSAL[family]()))
    losses, gradients = [], []
    for padding, width in ((0, 6), (0, 4), (3, 6)):
        model.padding = padding
        loss = model(BLOCKS[1:2, :width]).sum()
        losses.append(loss.item())
        parameters = [p for p in model.parameters() if p.requires_grad]
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]))
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)
    for one in gradients[1:]:
        torch.testing.assert_close(one, gradients[0], rtol=1e-3, atol=1e-4)


def test_samples_do_not_interact():
    model = moved(build_lora(llama()))
    alone = torch.cat([model(block[None]) for block in BLOCKS])
    torch.testing.assert_close(model(BLOCKS), alone)


def test_a_block_without_tokens_has_no_loss_and_one_with_padding_amid_is_refused():
    model = build_lora(gpt())
    empty = torch.full((1, 6), -1)
    assert model(empty).item() == 0
    samples = {"x": torch.tensor([[1, -1, 2, 3]] * 4), "y": torch.zeros(4)}
    tasks = Tasks.from_samples([samples], loss=token_loss, metric="mae")
    with raises("value", "split 'train'"):
        run(local(), tasks, model, rounds=1)


@pytest.mark.parametrize("kind", ["Bert", "Roberta"])
def test_logits_of_padded_texts_are_those_of_texts(kind):
    base = bert(3, kind=kind)
    model = build_lora(base).eval()
    base.eval()
    texts = torch.tensor([[2, 5, 9, 4], [3, 8, -1, -1]])
    expected = torch.cat([base(input_ids=t[t >= 0][None]).logits for t in texts])
    torch.testing.assert_close(model(texts), expected)
    assert model.parts.keys() == {"lora", "head"}


def test_a_causal_model_classifies_too():
    base = llama(classes=3)
    texts = torch.tensor([[2, 5, 9, 4], [3, 8, -1, -1]])
    expected = torch.cat([base.eval()(input_ids=t[t >= 0][None]).logits for t in texts])
    torch.testing.assert_close(build_lora(base).eval()(texts), expected)


def test_parts_hold_what_is_shared():
    both, first, second = (ParamSpec.from_module(build_lora(gpt(), share=share)) for share in ("both", "A", "B"))
    # a block: 8 -> 24, 8 -> 8, 8 -> 32, 32 -> 8; two blocks, rank 4
    a, b = 2 * 4 * (8 + 8 + 8 + 32), 2 * 4 * (24 + 8 + 32 + 8)
    sizes = [{part: stop - start for part, (start, stop) in spec.parts.items()} for spec in (both, first, second)]
    assert [one["lora"] for one in sizes] == [a + b, a, b]
    assert [one["all"] for one in sizes] == [a + b, a + b, b]
    assert sizes[1]["personal"] == b
    assert all(".lora_A." in name for name in first.names_in("lora"))
    assert all(".lora_B." in name for name in second.names_in("lora"))


def test_lora_and_head_lie_side_by_side():
    for share in ("both", "A", "B"):
        spec = ParamSpec.from_module(build_lora(bert(3), share=share))
        head = {name for name in spec.names_in("head") if not name.startswith("model.base_model.model.classifier")}
        assert not head
        assert len(spec.names_in("lora+head")) == len(spec.names_in("lora")) + 2


def tasks_of(count=3):
    blocks = [torch.cat([BLOCKS, BLOCKS.flip(0), (BLOCKS + k).clamp(min=0, max=20)]) for k in range(count)]
    samples = [{"x": b, "y": torch.zeros(9), "weight": (b[:, 1:] >= 0).sum(1)} for b in blocks]
    return Tasks.from_samples(samples, loss=token_loss, metric="mae")


@pytest.mark.parametrize("family", CAUSAL)
def test_checkpointing_changes_nothing(family):
    """Base and adapters drop out, so layers are computed again with the same draws, or gradients differ."""
    base = gpt(dropout=0.3) if family == "gpt" else llama()
    method, tasks = fedavg(part="lora", lr=0.5, epochs=1, batch_size=3, optimizer="sgd"), tasks_of()
    rows = []
    for checkpointing in (False, True):
        with own_randomness(3):
            model = build_lora(base, dropout=0.4, checkpointing=checkpointing)
        found = run(method, tasks, model, rounds=1)
        rows.append(found.stacks.part("lora"))
        assert not torch.equal(rows[-1], ParamSpec.from_module(model).flatten(model)[: rows[-1].shape[1]])
    assert torch.equal(*rows)


def test_checkpointing_computes_blocks_twice():
    base, calls = gpt(), []
    model = build_lora(base, checkpointing=True).train()
    for block in model.model.get_base_model().transformer.h:
        block.mlp.act.register_forward_hook(lambda *_: calls.append(1))
    loss = model(BLOCKS).mean()
    assert len(calls) == 2
    loss.backward()
    assert len(calls) == 4


def test_dropout_is_keyed_by_node():
    """A node's models do not depend on the nodes beside it."""
    with own_randomness(3):
        model = build_lora(gpt(dropout=0.3), dropout=0.4)
    tasks, method = tasks_of(), local(lr=0.5, epochs=1, batch_size=3)
    together = run(method, tasks, model, rounds=1).stacks.part("lora")
    alone = run(method, tasks.select([2]), model, rounds=1).stacks.part("lora")
    # Batches of other sizes are rounded otherwise on some CPUs; other draws differ by more.
    torch.testing.assert_close(together[2:], alone, rtol=1e-5, atol=1e-6)


def test_a_models_own_adapters_can_be_handed_in():
    library, base = peft(), llama()
    config = library.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    model = LanguageModel(library.get_peft_model(base, config))
    assert ParamSpec.from_module(model).parts["lora"] == (0, 2 * 2 * (8 + 8))
    assert "share='both'" in repr(model)


def test_what_is_no_such_model_is_refused():
    library = peft()
    with raises("type", "model", kind=TypeError):
        LanguageModel(gpt())
    tuned = library.get_peft_model(gpt(), library.PromptTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM"))
    with raises("unsupported", "model"):
        LanguageModel(tuned)
    resting = build_lora(gpt()).model
    for p in resting.parameters():
        p.requires_grad_(False)
    with raises("empty", "model"):
        LanguageModel(resting)
    config = library.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", use_dora=True)
    with raises("conflict", "share", "'A'"):
        LanguageModel(library.get_peft_model(llama(), config), share="A")


def test_blocks_that_are_too_long_and_unknown_tokens_are_refused():
    for blocks, base, *wanted in (
        (torch.zeros(4, 18, dtype=torch.int64), llama, "too-many", "context", "17", "16"),
        (torch.zeros(4, 18, dtype=torch.int64), gpt, "too-many", "context", "17", "16"),
        (torch.tensor([[1, 99, 3]] * 4), gpt, "range", "tokens", "99"),
    ):
        tasks = Tasks.from_samples([{"x": blocks, "y": torch.zeros(4)}], loss=token_loss, metric="mae")
        with raises(*wanted):
            run(local(), tasks, build_lora(base()), rounds=1)


def test_no_limit_and_a_padding_token_of_another_vocabulary_do_no_harm():
    base = gpt()
    expected = build_lora(base)(BLOCKS)
    base.config.max_position_embeddings, base.config.pad_token_id = -1, 999
    assert torch.equal(build_lora(base)(BLOCKS), expected)


def test_perplexity_is_over_tokens():
    """Blocks of 1 and of 3 predicted tokens with losses 1 and 2: exp(7 / 4), not the mean of exponentials."""
    from graphcollab.llm import perplexity

    found = perplexity(torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2), weight=torch.tensor([[1.0, 3.0]]))
    assert found.item() == pytest.approx(math.exp(7 / 4))


def test_loss_of_a_run_is_over_tokens():
    model = build_lora(gpt())
    result = run(local(lr=0.0001, epochs=1), tasks_of(1), model, rounds=1)
    train = result.scores("mae", split="train").loss.item()
    split = result.tasks.splits["train"]
    blocks = result.tasks.pools["train"].inputs[split.of(0)]
    logits = result.model(0).model(input_ids=blocks[:, :-1].clamp(min=0)).logits
    expected = F.cross_entropy(logits.flatten(0, 1), blocks[:, 1:].flatten(), ignore_index=-1)
    assert train == pytest.approx(expected.item(), rel=1e-5)
