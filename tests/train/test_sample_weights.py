"""Runs, comparisons and what is made of them, with weights of samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks, benefit, compare, join, load, report, run
from graphcollab._base.errors import OtherRunError
from graphcollab.analysis.constants import constants
from graphcollab.analysis.metrics import METRICS, Metric
from graphcollab.engine import Loss
from graphcollab.methods import fedavg, ifca, l2c, local
from graphcollab.train import Compute
from tests.raising import raises


def columns(sizes=(30, 24, 36), seed=0):
    draw = np.random.default_rng(seed)
    site = np.repeat(["a", "b", "c"][: len(sizes)], sizes)
    x = draw.normal(size=(len(site), 2))
    y = (x.sum(1) + draw.normal(size=len(site)) > 0).astype(int)
    return {"site": site, "one": x[:, 0], "two": x[:, 1], "y": y, "w": draw.integers(0, 4, len(site)) + 0.5}


def tasks(**settings):
    return Tasks.from_frame(columns(), **{"weight": "w", "metric": "auc", **settings})


def linear():
    return nn.Linear(2, 2)


def zeros():
    module = linear()
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return module


def samples_of(tasks, node, split):
    held = tasks.splits[split]
    pool, own = tasks.pools[held.pool], held.of(node)
    return pool.inputs[own], pool.targets[own], pool.weight[own]


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_a_run_against_plain_pytorch(backend):
    """Local training with full batches, and the weighted losses of what it ends with."""
    made = tasks()
    method = local(lr=0.5, epochs=3, batch_size=100, weight_decay=0, momentum=0)
    result = run(method, made, zeros(), rounds=2, compute=Compute(backend=backend))
    for node in range(3):
        module = zeros()
        x, y, w = samples_of(made, node, "train")
        for _ in range(6):
            loss = (w * F.cross_entropy(module(x), y, reduction="none")).sum() / w.sum()
            gradients = torch.autograd.grad(loss, list(module.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(module.parameters(), gradients, strict=True):
                    parameter -= 0.5 * gradient
        for mine, theirs in zip(result.model(node).parameters(), module.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        x, y, w = samples_of(made, node, "test")
        with torch.no_grad():
            outputs = module(x)
        loss = float((w * F.cross_entropy(outputs, y, reduction="none")).sum() / w.sum())
        scores = result.scores(["accuracy", "auc"])
        assert float(scores.loss[node]) == pytest.approx(loss, rel=1e-4)
        right = float((w * (outputs.argmax(1) == y)).sum() / w.sum())
        assert float(scores["accuracy"][node]) == pytest.approx(right, rel=1e-4)
        assert float(result.history.table("test_metric")[-1, node]) == pytest.approx(float(scores["auc"][node]))


def test_comparisons_and_tables():
    found = compare({"local": lambda: local(lr=0.1), "fedavg": lambda: fedavg(lr=0.1)}, lambda seed: tasks(seed=seed),
                    linear, rounds=2, seeds=[0, 1])  # fmt: skip
    assert "fedavg" in str(report.results_table(found))
    assert "accuracy" in str(report.site_table(found, metrics=["accuracy", "ece"], resamples=20))


def test_results_of_other_weights_cannot_stand_side_by_side():
    results = {name: run(local(), tasks(weight=weight, columns=["one", "two"]), linear, rounds=1)
               for name, weight in (("one", "w"), ("other", columns()["w"] + 1))}  # fmt: skip
    with raises("mismatch", "results"):
        report.site_table(results, resamples=10)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_who_gains_by_whom(loss):
    metric, model = ("accuracy", linear) if loss == "cross_entropy" else ("mae", lambda: nn.Linear(2, 1))
    settings = {"repeats": 3, "rounds": 2, "lrs": [0.1], "batch_size": 1000, "evaluations": 1}
    settings["methods"] = {"l2c": l2c} if loss == "cross_entropy" else {}
    found, plain = (
        benefit(
            lambda seed, w=w: tasks(loss=loss, metric=metric, weight=w, columns=["one", "two"], seed=seed),
            model,
            **settings,
        )
        for w in ("w", None)
    )
    assert found.matrix.shape == (3, 3)
    assert not torch.equal(found.scores["together"], plain.scores["together"])


def test_constants_are_weighted_means():
    pairs = {"train": [1.0, 4.0], "val": [2.0, 5.0], "test": [0.0, 6.0]}
    given = [[{"x": torch.zeros(2, 1), "y": torch.tensor(y), "weight": [1, 2]}] for y in pairs.values()]
    made = Tasks.from_samples(*given, loss="mse", metric="mae")
    loss, score = constants(made, [METRICS["mae"]], ["test"], (1,))  # the mean of (1, 4, 4) is 3
    assert (float(loss), float(score)) == pytest.approx(((1 + 2 * 4) / 3, (3 + 2 * 3) / 3))


def test_checkpoints_of_other_weights_are_refused(tmp_path):
    made = tasks()
    run(local(), made, linear, rounds=1, checkpoint=tmp_path)
    again = run(local(), made, linear, rounds=2, checkpoint=tmp_path)
    whole = run(local(), made, linear, rounds=2)
    assert torch.equal(again.model("a").weight, whole.model("a").weight)
    with raises("other-run", "weights in split 'train'", kind=OtherRunError):
        run(local(), tasks(weight=columns()["w"] + 1, columns=["one", "two"]), linear, rounds=2, checkpoint=tmp_path)


def test_saved_models_and_newcomers(tmp_path):
    made = tasks()
    result = run(fedavg(lr=0.1), made, linear, rounds=2)
    result.save(tmp_path / "saved")
    saved = load(tmp_path / "saved", model=result.model)
    assert len(saved.predict("a", {"one": [0.1], "two": [0.2]})) == 1
    west = {**columns(sizes=(20,), seed=3), "site": ["west"] * 20}
    joined = join(result, Tasks.from_frame(west, weight="w", preparation=made.preparation))
    assert joined.scores().sizes.tolist() == [4]


def test_centers_are_tried_on_few_samples_that_count():
    """Most samples have weight 0; one that has some is always among those drawn."""
    weight = np.where(np.arange(90) % 4 == 0, 1.0, 0.0)
    made = tasks(weight=weight, columns=["one", "two"], val_fraction=0, test_fraction=0)
    result = run(ifca(lr=0.1, samples=1, clusters=2), made, linear, rounds=3)
    assert torch.isfinite(result.stacks.tensors[0]).all()


def worst(outputs, targets):
    return (outputs.argmax(1) != targets).float().max()


worst.higher_is_better = False


def share(outputs, targets, weight):
    return (weight * (outputs.argmax(1) == targets)).sum() / weight.sum()


share.higher_is_better = share.weighted = True


def test_what_takes_no_weights_is_refused_before_the_first_round():
    for metric in (worst, Metric.per_node("worst", False, worst)):
        with raises("contract", "metric 'worst'"):
            run(local(), tasks(metric=metric), linear, rounds=1)
    with raises("contract", "loss"):
        run(local(), tasks(loss=F.cross_entropy), linear, rounds=1)
    result = run(local(), tasks(metric=share), linear, rounds=1)
    assert torch.equal(result.scores()["share"], result.scores("accuracy")["accuracy"])
    with raises("contract", "metric 'worst'"):
        result.scores(worst)
    own = Loss(nn.CrossEntropyLoss(reduction="none"), per_sample=True)
    found = run(local(), tasks(loss=own), linear, rounds=1)
    assert torch.equal(found.model(0).weight, result.model(0).weight)
