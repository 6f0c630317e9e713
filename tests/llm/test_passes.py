"""Adapters trained in one pass of the base over several nodes' blocks, and by PEFT and PyTorch alone."""

from __future__ import annotations

import re

import pytest
import torch
from torch.nn import functional as F

from graphcollab.data.schedule import make_schedule
from graphcollab.engine import AdamW, Engine, LocalSteps, Rows, Stacks, shared_backend as shared
from graphcollab.engine.randomness import own_randomness
from graphcollab.engine.stack import ParamSpec
from graphcollab.llm import build_lora, text_classification_tasks, text_tasks
from graphcollab.llm.base import peft, transformers
from tests.llm.tiny import CAUSAL, SIZE, TEXTS, bert, gpt, words
from tests.raising import raises

BATCH, LR = 3, 0.01
STEPS = LocalSteps(batch_size=BATCH, epochs=2, optimizer=AdamW(lr=LR, weight_decay=0.0))


def texts(seeds=(3, 8, 5)):
    """Texts of three nodes with unequally many, of which most blocks are padded."""
    return {f"node {n}": [TEXTS[(n + k) % len(TEXTS)] for k in range(count)] for n, count in enumerate(seeds)}


def blocks():
    return text_tasks(texts(), words(), context=6, joined=False, val_fraction=0.2, test_fraction=0)


def spec_and_models(module, count=3):
    """Return the module's columns and a model for every node, none of which is the base."""
    spec = ParamSpec.from_module(module)
    noise = torch.randn(count, spec.num_columns, generator=torch.Generator().manual_seed(2))
    return spec, Stacks.single(spec, spec.flatten(module) + 0.1 * noise)


def computed(make, tasks, backend, **settings):
    """Return adapters after local steps, losses, gradients and outputs."""
    with own_randomness(0):
        module = make()
    spec, models = spec_and_models(module)
    engine = Engine(tasks, [module], [spec], backend=backend, **settings)
    assert engine.plans[0].backend == ("shared" if backend == "auto" else backend)
    rows = Rows.own(models)
    fitted = engine.fit(rows, STEPS, seed=1, round_=0)
    drawn = engine.batch_gradient(rows, seed=1, round_=0, batch_size=BATCH)[:2]
    outputs = torch.cat([out.outputs.flatten() for out in engine.predict(rows, "val")])
    return [fitted.models.tensors[0], fitted.told()[0], *engine.grad(rows, "train"), *drawn, outputs]


def assert_alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", CAUSAL)
def test_passes_of_several_nodes_are_those_of_the_loop(family, checkpointing):
    """With dropout in the adapters, unequal nodes, padded blocks, and activations that are computed again."""
    make = lambda: build_lora(CAUSAL[family](), dropout=0.3, checkpointing=checkpointing)  # noqa: E731
    alone = computed(make, blocks(), "loop", microbatch=100)
    assert_alike(computed(make, blocks(), "auto", microbatch=100), alone)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # of PyTorch, about attention
def test_checkpointing_under_vmap_is_refused_with_what_to_take():
    model = build_lora(gpt(), dropout=0.0, checkpointing=True)
    with raises("unsupported", "backend", "'shared'"):
        Engine(blocks(), [model], [ParamSpec.from_module(model)], backend="vmap")


def test_the_plan_says_why_nodes_are_not_in_one_pass():
    """OPT flattens its samples, and dropout, which speaks against stacking, would be no obstacle to one pass."""
    sizes = {"hidden_size": 8, "ffn_dim": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers().OPTConfig(vocab_size=SIZE, max_position_embeddings=16, word_embed_proj_dim=8, **sizes)
    model = build_lora(transformers().OPTForCausalLM(config))
    plan = Engine(blocks(), [model], [ParamSpec.from_module(model)]).plans[0]
    assert plan.backend == "loop"
    assert re.search("not for several nodes in one pass: .*nobody knows whose they are; randomness", plan.reason)


@pytest.mark.parametrize("family", CAUSAL)
def test_blocks_in_parts_and_nodes_a_few_at_a_time_change_nothing(family, monkeypatch):
    make = lambda: build_lora(CAUSAL[family](), dropout=0.0)  # noqa: E731
    whole = computed(make, blocks(), "shared", microbatch=100)
    assert_alike(computed(make, blocks(), "shared", microbatch=1), whole)
    monkeypatch.setattr(shared, "CPU_POSITIONS", 1)
    assert_alike(computed(make, blocks(), "shared", microbatch=100), whole)


def test_dropout_in_all_layers_of_the_base_is_keyed_too():
    make = lambda: build_lora(CAUSAL["gpt"](dropout=0.3), dropout=0.3)  # noqa: E731
    assert_alike(computed(make, blocks(), "auto", microbatch=2), computed(make, blocks(), "loop", microbatch=2))


def test_classifiers_share_passes_with_their_heads():
    labels = {name: [(text, len(text) % 2) for text in own] for name, own in texts((6, 8, 7)).items()}
    tasks = text_classification_tasks(labels, words(), context=6, val_fraction=0.3, test_fraction=0)
    make = lambda: build_lora(bert(), dropout=0.2)  # noqa: E731
    assert_alike(computed(make, tasks, "auto"), computed(make, tasks, "loop"))


@pytest.mark.parametrize("family", CAUSAL)
def test_steps_are_those_of_an_adapter_that_peft_trains(family):
    """One PEFT model, whose adapter is set to every node's in turn, and AdamW of PyTorch, in double precision.

    In single precision AdamW takes whole steps by gradients that are rounding errors.
    """
    with own_randomness(0):
        tasks, module = blocks(), build_lora(CAUSAL[family](), dropout=0.0).double()
    spec, models = spec_and_models(module)
    engine = Engine(tasks, [module], [spec])
    found = engine.fit(Rows.own(models), STEPS, seed=1, round_=0).models.tensors[0]
    split, pool = tasks.splits["train"], tasks.pools["train"]
    schedule = make_schedule(split.sizes, tasks.ids, 1, 0, BATCH, 2)
    config = module.model.active_peft_config
    for node, row in enumerate(models.tensors[0]):
        model = peft().get_peft_model(CAUSAL[family](), config).double()
        own = dict(zip(spec.names, spec.views(row), strict=True))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.data.copy_(own[f"model.{name}"])
        stepper = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, weight_decay=0.0)
        mean = float(pool.weight[split.of(node)].mean())
        for step in range(int(schedule.steps[node])):
            some = split.of(node)[schedule.position[node, step, : int(schedule.size[node, step])]]
            tokens = pool.inputs[some]
            there = tokens[:, :-1] >= 0
            logits = model(input_ids=tokens[:, :-1].clamp(min=0), attention_mask=there.long()).logits
            total = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=-1, reduction="sum")
            stepper.zero_grad()
            (total / (mean * len(some))).backward()
            stepper.step()
        after = {f"model.{name}": p for name, p in model.named_parameters()}
        torch.testing.assert_close(found[node], torch.cat([after[n].detach().flatten() for n in spec.names]), **NEAR)


NEAR = {"rtol": 0, "atol": 1e-6}
