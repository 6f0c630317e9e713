"""Newcomers of methods in which a server averages, weights learn, or phases follow each other, by plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from graphcollab import Tasks, join, run
from graphcollab.comm import Relation
from graphcollab.engine.modules import copy_module
from graphcollab.methods import (
    directed,
    ditto,
    fedavg,
    fedclassavg,
    fedsim,
    flt,
    ifca,
    l2c,
    local,
    mapl,
    partial_pooling,
    pfedsim,
)
from graphcollab.models import MLP
from graphcollab.testing import Scene, differences

LR = 0.1
WHOLE = {"epochs": 1, "lr": LR, "batch_size": 100}  # one step a round, on all samples
NAMES = ["node 0", "node 1", "node 2", "node 3"]


def run_and_newcomers(method, rounds=2):
    scene = Scene.small(torch.float64, embeds=method.embeds)
    old, new = scene.tasks.select(range(4)), replace(scene.tasks.select([4, 5]), names=("dora", "emil"))
    result = run(method, old, scene.modules, rounds=rounds, seed=2)
    result = replace(result, data=result.data.clone())
    return result, new


def spread(result):
    """Give old nodes different models, as if a server had not averaged them."""
    shift = torch.randn(4, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    result.data.x = result.data.x.map(lambda x: x + shift.to(x) * torch.sin(torch.arange(x.shape[1])))
    return result.data.x.tensors[0]


def samples(tasks, k, split="train"):
    one = tasks.splits[split]
    pool = tasks.pools[one.pool]
    return pool.inputs[one.of(k)], pool.targets[one.of(k)]


def loss(result, row, tasks, k, split="train"):
    """A plain module's cross-entropy at a row of parameters."""
    spec, module = result.data.x.specs[0], copy_module(result.modules[0])
    inputs, targets = samples(tasks, k, split)
    values = {name: view[0] for name, view in zip(spec.names, spec.views(row[None]), strict=True)}
    return F.cross_entropy(functional_call(module, values, (inputs,)), targets)


def slope(result, row, tasks, k):
    row = row.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(result, row, tasks, k), row)[0]


def named(joined):
    return {(sender, receiver): weight for sender, receiver, weight in joined.graph().named_edges()}


def unchanged(result, new, **settings):
    before = result.data.clone()
    told = join(result, new, **settings)
    assert differences(result.data, before) == []
    return told


def near(row, expected, within=1e-9):
    assert row.tolist() == pytest.approx(expected.tolist(), abs=within)


def test_ifca_gives_the_center_of_least_loss_that_somebody_holds():
    result, new = run_and_newcomers(ifca(**WHOLE, clusters=3))
    draw = torch.Generator().manual_seed(3)
    centers = 0.5 * torch.randn(3, result.data.x.tensors[0].shape[1], generator=draw, dtype=torch.float64)
    for _ in range(300):  # the third center fits best, but nobody holds it
        centers[2] -= 0.5 * (slope(result, centers[2], new, 0) + slope(result, centers[2], new, 1))
    place = torch.tensor([0, 1, 0, 1])
    result.data.centers = {"all": centers}
    result.data.server = Relation(torch.stack([torch.arange(4), place]), torch.ones(4), (4, 3))
    result.data.x = result.data.x.like([centers[place]])
    told = unchanged(result, new, finetune=0)
    edges = {}
    for k, name in enumerate(new.names):
        losses = [float(loss(result, centers[c], new, k)) for c in range(3)]
        assert min(losses) == losses[2]
        best = int(losses[1] < losses[0])
        near(told.stacks.tensors[0][k], centers[best])
        edges |= {(NAMES[best], name): 0.5, (NAMES[best + 2], name): 0.5}
    assert named(told) == pytest.approx(edges)
    some = join(result, new, allowed=[("node 0", "dora"), ("node 1", "emil")], finetune=0)
    near(some.stacks.tensors[0][0], centers[0])
    near(some.stacks.tensors[0][1], centers[1])
    further = join(result, new, allowed=[("node 0", "dora"), ("node 1", "emil")], finetune=1)
    near(further.stacks.tensors[0][0], centers[0] - LR * slope(result, centers[0], new, 0))


def test_ditto_trains_a_personal_model_towards_the_global_one():
    result, new = run_and_newcomers(ditto(**WHOLE, lam=0.7))
    told = unchanged(result, new, warmup=1, finetune=2)
    common = result.data.x.tensors[0][0]
    assert not torch.equal(common, result.stacks.tensors[0][0])
    for k in range(2):
        own = common
        for _ in range(3):
            own = own - LR * (slope(result, own, new, k) + 0.7 * (own - common))
        near(told.stacks.tensors[0][k], own)
    assert named(told) == pytest.approx({(a, b): 0.25 for a in NAMES for b in new.names})


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
def test_fedsim_keeps_the_shared_part_and_trains_the_rest(server_lr):
    result, new = run_and_newcomers(fedsim(**WHOLE, server_lr=server_lr))
    told = unchanged(result, new, warmup=1, finetune=1)
    head = result.data.x.specs[0].columns("head")
    shared = result.data.x.tensors[0][0, head]
    for k in range(2):
        own = result.data.x_init.tensors[0][0].clone()
        own[head] = shared
        for _ in range(2):
            own = own - LR * slope(result, own, new, k)
            own[head] = shared
        near(told.stacks.tensors[0][k], own)
    counts = result.tasks.sizes("train").double()
    share = {(a, b): float(counts[j] / counts.sum()) for j, a in enumerate(NAMES) for b in new.names}
    assert named(told) == pytest.approx(share)


def test_partial_pooling_keeps_the_common_slopes_and_trains_an_intercept():
    result, new = run_and_newcomers(partial_pooling(**WHOLE))
    told = unchanged(result, new, warmup=1, finetune=1)
    pulled = unchanged(*run_and_newcomers(partial_pooling(**WHOLE, lam=0.7)), warmup=1, finetune=1)
    end = len(result.data.x.tensors[0][0]) - 3  # the output layer has three biases
    slopes = result.data.x.tensors[0][0, :end]
    for k in range(2):
        own = torch.cat([slopes, result.data.x_init.tensors[0][0, end:]])
        for _ in range(2):
            own = own - LR * slope(result, own, new, k)
            own[:end] = slopes
        near(told.stacks.tensors[0][k], own)
        found, inputs = pulled.stacks.tensors[0][k], samples(new, k)[0]
        near(found[:30], own[:30], within=1e-12)  # all but the layer from 6 to 3
        read = torch.relu(F.linear(inputs, own[:24].view(6, 4), own[24:30])).mean(0)
        force = -len(inputs) * slope(result, found, new, k)[30:] / 0.7  # of the loss, which the pull holds
        weights, biases = force[:18].view(3, 6), force[18:]
        near((found - own)[30:48], (weights - biases[:, None] * read).flatten(), within=1e-8)
        level = (found - own)[48:] + (found - own)[30:48].view(3, 6) @ read
        near(level, biases, within=1e-8)


def test_fedclassavg_is_judged_by_what_was_trained_last():
    result, new = run_and_newcomers(fedclassavg(**{**WHOLE, "optimizer": "sgd"}, mu=0, contrast=0, augment=None))
    head = result.data.x.specs[0].columns("head")
    told = unchanged(result, new, warmup=0, finetune=1)
    for k in range(2):
        own = result.data.x_init.tensors[0][0].clone()
        own[head] = result.data.x.tensors[0][0, head]
        near(told.stacks.tensors[0][k], own - LR * slope(result, own, new, k))


def test_servers_of_true_clusters_average_inside_them():
    result, new = run_and_newcomers(fedavg(**WHOLE, within="cluster"))
    models, counts = spread(result), result.tasks.sizes("train").double()
    told = unchanged(result, new, finetune=0)
    for k, name in enumerate(new.names):
        mine = (result.tasks.cluster == new.cluster[k]).nonzero().flatten()
        near(told.stacks.tensors[0][k], (counts[mine] @ models[mine]) / counts[mine].sum())
        assert {a for a, b in named(told) if b == name} == {NAMES[j] for j in mine}


@pytest.mark.parametrize("by", [{"groups": 2}, {}])
def test_flt_averages_those_with_tasks_like_a_newcomers(by):
    draw, parts, where = torch.Generator().manual_seed(0), {}, [0.0, 9.0, 0.0, 9.0, 9.0, 0.0]
    for k, shift in enumerate(where):
        x = torch.randn(12 + k, 4, generator=draw, dtype=torch.float64)
        x[::2] += torch.tensor([shift, 5, 0, 0])  # two centers a node
        x[1::2] += torch.tensor([shift, 0, 0, 5])
        parts[f"node {k}"] = (x, torch.arange(12 + k) % 2)
    tasks = Tasks.from_samples(parts)
    old, new = tasks.select(range(4)), tasks.select([4, 5])
    result = run(flt(**WHOLE, **by), old, MLP(4, (6,), 2), rounds=1)
    result = replace(result, data=result.data.clone())
    models, counts = spread(result), old.sizes("train").float()
    told = unchanged(result, new, finetune=0)
    for k, alike in enumerate([[1, 3], [0, 2]]):
        near(told.stacks.tensors[0][k], (counts[alike] @ models[alike]) / counts[alike].sum(), within=1e-6)
        heard = {a: weight for (a, b), weight in named(told).items() if b == new.names[k]}
        assert heard == pytest.approx({NAMES[j]: float(counts[j] / counts[alike].sum()) for j in alike})


@pytest.mark.parametrize("own", ["largest", "softmax"])
def test_l2c_learns_weights_by_a_newcomers_validation_samples(own):
    """PyTorch's AdamW on logits of plain modules, in as many steps as the run has taken."""
    result, new = run_and_newcomers(l2c(**WHOLE, own=own), rounds=5)
    told = unchanged(result, new, warmup=2, finetune=0)
    alone = run(local(**WHOLE, weight_decay=5e-4), new, result.modules[0], rounds=2, seed=2).data.x.tensors[0]
    start = result.data.x_init.tensors[0][0]
    for k, name in enumerate(new.names):
        changes = torch.cat([result.data.x.tensors[0], alone[k][None]]) - start
        logit = torch.zeros(5, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.AdamW([logit], lr=0.1, weight_decay=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            loss(result, start + logit.softmax(0) @ changes, new, k, "val").backward()
            optimizer.step()
            if own == "largest":
                logit.data[4] = logit.data.max()
        weight = logit.detach().softmax(0)
        assert float(weight.max() - weight.min()) > 0.05
        found = [named(told)[sender, name] for sender in (*NAMES, name)]
        assert found == pytest.approx(weight.tolist(), abs=1e-6)
        assert told.stacks.tensors[0][k].tolist() == pytest.approx((start + weight @ changes).tolist(), abs=1e-6)


def test_pfedsim_begins_with_the_average_and_mixes_backbones_of_those_with_like_classifiers():
    result, new = run_and_newcomers(pfedsim(**WHOLE, warmup=1))
    told = unchanged(result, new, warmup=0, finetune=1)
    counts, old = result.tasks.sizes("train").double(), result.stacks.tensors[0]
    spec = result.data.x.specs[0]
    head = spec.columns("head")
    (classes, width), _ = spec.part_layout("head")
    for k, name in enumerate(new.names):
        average = (counts @ result.data.x.tensors[0]) / counts.sum()
        trained = average - LR * slope(result, average, new, k)
        near(told.stacks.tensors[0][k], trained)  # judged before mixing
        worth = []
        for row in (*old, trained):
            mine, theirs = (one[head][: classes * width].view(classes, width) for one in (trained, row))
            alike = sum(float(F.cosine_similarity(a, b, dim=0)) for a, b in zip(mine, theirs, strict=True)) / classes
            worth.append(-math.log(1 - min(max(alike, 0.0), 0.9999)))
        found = [named(told)[sender, name] for sender in (*NAMES, name)]
        assert found == pytest.approx([one / sum(worth) for one in worth], abs=1e-9)


def test_directed_tries_mixtures_and_then_trains_through_them():
    result, new = run_and_newcomers(directed(**WHOLE, weight_decay=0, learn_rounds=1))
    told = unchanged(result, new, warmup=1, finetune=1)
    for k, name in enumerate(new.names):
        weights = torch.tensor([named(told)[sender, name] for sender in (*NAMES, name)], dtype=torch.float64)
        assert float(weights.sum()) == pytest.approx(1)
        for p in weights[:4] / weights[4]:  # ½, and 0.1 more or less where the mixture was better or worse
            assert min(abs(float(p) - tried) for tried in (0.4, 0.5, 0.6)) < 1e-6
        start = result.data.x_init.tensors[0][0]
        own = start - LR * slope(result, start, new, k)
        mixture = weights @ torch.cat([result.stacks.tensors[0], own[None]])
        through = mixture - float(weights[4]) ** 2 * LR * slope(result, mixture, new, k)
        near(told.stacks.tensors[0][k], through)


def test_mapl_learns_weights_by_classifiers():
    """A step on the simplex from equal weights; the node's own classifier is not mixed."""
    result, new = run_and_newcomers(mapl(epochs=1, batch_size=100, warmup=1, augment=None))
    told = unchanged(result, new, warmup=1, finetune=1)
    head = result.data.x.specs[0].columns("head")
    counts = result.tasks.sizes("train").double()
    for k, name in enumerate(new.names):
        mine = told.stacks.tensors[0][k, head]
        rows = torch.cat([result.stacks.tensors[0][:, head], mine[None]])
        alike = F.cosine_similarity(rows, mine, dim=1)
        many = torch.cat([counts, new.sizes("train")[k : k + 1].double()])
        weight = torch.full((5,), 0.2, dtype=torch.float64)
        step = -0.5 * many / many.sum() * alike + 0.1 * 0.5 * weight / weight.norm()
        step[:4] -= 0.1 / (weight[:4].sum() + 1e-6)
        low, high = -10.0, 10.0
        for _ in range(100):  # the projection subtracts what makes positive parts sum to 1
            middle = (low + high) / 2
            low, high = (middle, high) if float((weight - step - middle).clamp(min=0).sum()) > 1 else (low, middle)
        expected = (weight - step - low).clamp(min=0)
        found = [named(told).get((sender, name), 0.0) for sender in (*NAMES, name)]
        assert found == pytest.approx(expected.tolist(), abs=1e-6)
