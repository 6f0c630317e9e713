"""Runs of language models: every method that mixes a part plays on the adapters."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import pytest
import torch

from graphcollab import compare, methods, run
from graphcollab.engine import ParamSpec
from graphcollab.engine.randomness import own_randomness
from graphcollab.llm import build_lora, text_classification_tasks, text_tasks
from graphcollab.methods import cobo, fedavg, local, meta_l2c
from graphcollab.nn.filters import layers_of
from graphcollab.report import results_table
from graphcollab.train import Compute
from graphcollab.train.fingerprint import describe, fingerprint
from tests.llm.tiny import CAUSAL, SIZE, TEXTS, bert, gpt, words
from tests.methods.quick import early, settings_of
from tests.raising import raises

NODES = {"a": TEXTS[:5], "b": TEXTS[3:], "c": TEXTS[::2]}
TASKS = text_tasks(NODES, words(), context=5, cluster={"a": 0, "b": 1, "c": 0})
LABELED = {node: [(text, k % 2) for k, text in enumerate(texts)] for node, texts in NODES.items()}
MIXING = [name for name in methods.__all__ if "part" in settings_of(name)]


def model(base=None, **settings):
    with own_randomness(3):
        return build_lora(base or gpt(), **settings)


def counted(blocks):
    """How often every word occurs in blocks [n, L + 1], [n, V]."""
    return torch.nn.functional.one_hot(blocks.clamp(min=0), SIZE).sum(1).float()


@pytest.mark.parametrize("backend", ["loop", "auto"])
@pytest.mark.parametrize("family", CAUSAL)
def test_a_run_learns(family, backend):
    method = fedavg(part="lora", lr=0.02, epochs=10, batch_size=100, optimizer="adamw")
    result = run(method, TASKS, model(CAUSAL[family](), dropout=0.0), rounds=3, compute=Compute(backend=backend))
    train = [float(values.mean()) for values in result.history.values["train_loss"]]
    assert train[-1] < train[0] - 0.2
    assert result.summary()["metric"] == "perplexity"
    assert torch.equal(result.scores("perplexity")["perplexity"], result.scores()["perplexity"])
    assert [*result.scores(["perplexity", "mae"]).values] == ["perplexity", "mae"]
    with raises("unknown", "metric"):
        result.scores("perplexities")


@pytest.mark.filterwarnings("ignore:.*its learned weights are uniform:RuntimeWarning")
@pytest.mark.parametrize("name", MIXING)
def test_a_method_that_mixes_a_part_plays_on_adapters(name):
    """One that compares heads needs a classifier, and one that reads latents says that there are none."""
    method, start, tasks = early(name, part="lora", encoder=counted, epochs=1), model(), TASKS
    if method.embeds:
        with raises("missing", "node 'a'"):
            run(method, tasks, start, rounds=2)
        return
    if "head" in settings_of(name):
        start, tasks = model(bert(2)), text_classification_tasks(LABELED, words(), context=8, val_fraction=0.0)
    frozen = {name: p.clone() for name, p in start.named_parameters() if not p.requires_grad}
    result = run(method, tasks, start, rounds=2)
    rows = result.stacks.part("lora")
    assert bool(rows.isfinite().all())
    assert not torch.equal(rows, result.data.x_init.part("lora"))
    for node in tasks.names:
        own = dict(result.model(node).named_parameters())
        assert all(torch.equal(own[name], p) for name, p in frozen.items())


def test_adapters_and_head_of_a_classifier_are_mixed_together():
    tasks = text_classification_tasks(LABELED, words(), context=8, val_fraction=0.0, test_fraction=0.0)
    method = fedavg(part="lora+head", lr=0.1, epochs=2, batch_size=2, optimizer="adamw")
    result = run(method, tasks, model(bert(2), dropout=0.0), rounds=3)
    rows = result.stacks.part("all")
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])
    apart = run(fedavg(part="lora", lr=0.1, epochs=2, batch_size=2), tasks, model(bert(2)), rounds=1).stacks
    assert torch.equal(apart.part("lora")[0], apart.part("lora")[1])
    assert not torch.equal(apart.part("head")[0], apart.part("head")[1])


@pytest.mark.parametrize("share", ["A", "B"])
def test_what_is_not_shared_stays_with_its_node(share):
    start = model(share=share)
    stacks = run(fedavg(part="lora", lr=0.5, epochs=2, batch_size=2), TASKS, start, rounds=2).stacks
    shared = stacks.part("lora")
    assert torch.equal(shared[0], shared[1])
    if share == "A":
        own = stacks.part("personal")
        assert not torch.equal(own[0], own[1])
    matrices = dict(start.named_parameters())
    trained = run(local(lr=0.5, epochs=1), TASKS, start, rounds=1).model("a")
    kept = {name for name, p in trained.named_parameters() if torch.equal(p, matrices[name])}
    assert all((".lora_A." in name) <= (name in kept) for name in matrices) == (share == "B")


def test_averaging_b_alone_is_averaging_what_adapters_do():
    """With A the same everywhere the mean of B A is the product of means, and with both trained it is not."""
    gaps = {}
    for share in ("B", "both"):
        method = local(lr=0.5, epochs=3, batch_size=2)
        result = run(method, TASKS, model(share=share), rounds=1)
        own = [dict(result.model(node).named_parameters()) for node in TASKS.names]
        first = next(name for name in own[0] if ".lora_A." in name)
        a, b = (torch.stack([one[name].detach() for one in own]) for name in (first, first.replace("_A.", "_B.")))
        gaps[share] = float((b.mean(0) @ a.mean(0) - (b @ a).mean(0)).norm() / (b @ a).mean(0).norm())
    assert gaps["B"] < 1e-6
    assert gaps["both"] > 1e-3


def test_a_channel_of_an_adapter_is_a_row_of_a_or_of_b():
    layers = layers_of(ParamSpec.from_module(model(rank=3)), "lora")
    shapes = {name.split("h.0.")[1]: (count, width) for name, (count, [(_, width)]) in layers.items() if "h.0." in name}
    assert shapes["attn.c_attn.lora_A.default"] == (3, 8)
    assert shapes["attn.c_attn.lora_B.default"] == (24, 3)
    assert len(shapes) == 8
    result = run(meta_l2c(part="lora", epochs=1), TASKS, model(), rounds=2)
    assert "mixer" in result.data


def test_cobo_is_played_as_in_the_paper():
    """All pairs in every round, from equal weights, on the simplex."""
    result = run(cobo(part="lora", domain="simplex", sampling="all"), TASKS, model(), rounds=2)
    graph = result.graph()
    given = torch.zeros(3).index_add(0, graph.edge_index[1], graph.edge_weight)
    assert graph.edge_weight.shape == (6,)
    torch.testing.assert_close(given, torch.ones(3), rtol=0, atol=1e-5)


def test_a_run_goes_on_over_a_base_that_has_moved(tmp_path):
    gpt().save_pretrained(tmp_path / "here")
    method, folder = fedavg(part="lora", epochs=1), tmp_path / "run"
    run(method, TASKS, model(tmp_path / "here"), rounds=1, checkpoint=folder)
    (tmp_path / "here").rename(tmp_path / "there")
    result = run(method, TASKS, model(tmp_path / "there"), rounds=2, checkpoint=folder)
    assert result.history.rounds == [1, 2]


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    method = fedavg(part="lora", lr=0.5, epochs=1, batch_size=2)
    whole = run(method, TASKS, model(checkpointing=True), rounds=3)
    run(method, TASKS, model(checkpointing=True), rounds=1, checkpoint=tmp_path / "run")
    resumed = run(method, TASKS, model(checkpointing=True), rounds=3, checkpoint=tmp_path / "run")
    assert torch.equal(whole.stacks.part("lora"), resumed.stacks.part("lora"))


def test_a_model_is_the_same_whatever_was_done_before():
    """What the package remembers, such as checksums of bases, is no part of a model."""
    one = model()
    fresh = describe(one, "", tensors=False)
    one.parts_over()
    assert describe(one, "", tensors=False) == fresh
    run(fedavg(part="lora", epochs=1), TASKS, model(gpt(5)), rounds=1)
    assert describe(one, "", tensors=False) == fresh


def test_methods_are_compared_over_the_same_models():
    both = {"local": partial(local, epochs=1), "fedavg": partial(fedavg, part="lora", epochs=1)}
    found = compare(both, lambda seed: TASKS, model, [0], budget=1, progress=False)
    assert "not the same models" not in str(results_table(found, reference="local"))


CONFIG = "models[0].model.base_model_prepare_inputs_for_generation.self.config.graphcollab_padding"


@pytest.mark.parametrize(("share", "padding", "subject"), [("A", 0, "models[0].parts['lora']"), ("both", 1, CONFIG)])
def test_another_module_over_the_same_weights_is_refused(share, padding, subject, tmp_path):
    """The model itself holds what is shared, and transformers' module inside, which is called model too."""
    method, base, other = fedavg(part="lora", epochs=1), gpt(), gpt()
    other.config.graphcollab_padding = padding
    run(method, TASKS, model(base), rounds=1, checkpoint=tmp_path)
    with raises("other-run", subject):
        run(method, TASKS, model(other, share=share), rounds=2, checkpoint=tmp_path)


SCRIPT = "from tests.llm.test_runs import *; print(fingerprint(model(bert(2))), fingerprint(model()))"


@pytest.mark.slow
def test_a_model_is_known_in_every_process():
    """Whatever numbers Python gives to texts there, which configurations keep."""
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip().splitlines()[-1])
    assert len(found) == 1
    assert fingerprint(model()) != fingerprint(model(dropout=0.2))
