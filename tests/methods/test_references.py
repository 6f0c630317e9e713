"""Two rounds of methods against plain loops from the papers' equations; mutants that hold the contract are caught.

Every node has the loss ½ ‖x - c‖² (the mean over its targets c), so that a step leads from x to x - η (x - c).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch

from graphcollab import Method
from graphcollab.components import Exchange, FirstOrderGain, SampleCounts
from graphcollab.methods import ditto, fedavg, fedavg_finetuned, fomo, local, panm, random_peers
from graphcollab.transforms import WithSelfLoops

START = np.array([[0.0, 1.0], [2.0, -1.0], [-3.0, 0.5], [1.0, 4.0]])
TARGETS = [[[1.0, 2.0]], [[4.0, 0.0], [2.0, 2.0]], [[-1.0, -1.0]] * 3, [[0.0, 1.0]]]
COUNTS = np.array([len(targets) for targets in TARGETS])
GOALS = np.array([np.mean(targets, 0) for targets in TARGETS])
NODES, WIDTH, ROUNDS, LR = len(TARGETS), 2, 2, 0.3
STEP = {"steps": 1, "lr": LR, "weight_decay": 0.0}


def stepped(models, lr=LR):
    return models - lr * (models - GOALS)


def of_local(models):
    """Every node takes its step."""
    for _ in range(ROUNDS):
        models = stepped(models)
    return models, np.zeros(NODES)


def of_fedavg(models):
    """x ← Σ n_k x_k / Σ n_k; a model goes up and another one down."""
    for _ in range(ROUNDS):
        models = np.tile(np.average(stepped(models), axis=0, weights=COUNTS), (NODES, 1))
    return models, np.full(NODES, ROUNDS * 2 * 4.0 * WIDTH)


def of_fedavg_finetuned(models):
    """The average after three more steps of each node."""
    models, sent = of_fedavg(models)
    for _ in range(3):
        models = stepped(models, 0.1)
    return models, sent


def of_ditto(models, lam=0.7):
    """v_k ← v_k - η (∇F_k(v_k) + λ (v_k - w)); w is the mean of what plain steps made of it."""
    personal = models
    for _ in range(ROUNDS):
        personal = personal - LR * (personal - GOALS + lam * (personal - models))
        models = np.tile(stepped(models).mean(0), (NODES, 1))
    return personal, np.full(NODES, ROUNDS * 2 * 4.0 * WIDTH)


def of_random_peers(models):
    """With as many peers as there are, everybody takes the mean by sample counts, and sends along three edges."""
    models, _ = of_fedavg(models)
    return models, np.full(NODES, ROUNDS * (NODES - 1) * 4.0 * WIDTH)


def of_fomo(models):
    """w_ij ∝ max(0, (L_i(start_i) - L_i(θ_j)) / ‖θ_j - start_i‖), and x_i ← start_i + Σ_j w_ij (θ_j - start_i)."""
    for _ in range(ROUNDS):
        trained, mixed = stepped(models), models.copy()
        for i in range(NODES):
            gains = np.zeros(NODES)
            for j in range(NODES):
                before, after = (0.5 * ((m - GOALS[i]) ** 2).sum() for m in (models[i], trained[j]))
                gains[j] = max(0.0, (before - after) / np.sqrt(((trained[j] - models[i]) ** 2).sum()))
            for j in range(NODES):
                mixed[i] += gains[j] / gains.sum() * (trained[j] - models[i])
        models = mixed
    return models, np.full(NODES, ROUNDS * (NODES - 1) * 4.0 * WIDTH)


CASES = {
    "local": (local(**STEP), of_local),
    "fedavg": (fedavg(**STEP), of_fedavg),
    "fedavg_finetuned": (fedavg_finetuned(**STEP, finetune_steps=3, finetune_lr=0.1), of_fedavg_finetuned),
    "ditto": (ditto(**STEP, lam=0.7), of_ditto),
    "random_peers": (random_peers(**STEP, optimizer="sgd", samples=3), of_random_peers),
    "fomo": (fomo(**STEP, samples=3), of_fomo),
}


def distances_from_reference(points, method, reference) -> tuple[float, float]:
    """Return how far the models that nodes are judged by, and their bytes, are from the reference's."""
    data, env = points(TARGETS).begin(method, START.tolist())
    if "x_personal" in data:
        data.x_personal = data.x
    for _ in range(ROUNDS):
        data = method.play(data, env)
    models, sent = reference(START)
    found = method.models(data, env).part("all").numpy()
    return float(np.abs(found - models).max()), float(np.abs(data.bytes_sent.numpy() - sent).max())


@pytest.mark.parametrize("name", CASES)
def test_two_rounds(points, name):
    models, sent = distances_from_reference(points, *CASES[name])
    assert models < 1e-12
    assert sent == 0


@dataclass(frozen=True)
class JudgedByTheAverage(Method):
    """A method that forgets its personal models."""

    def models(self, data, env):
        return data.x


@dataclass(frozen=True)
class SquareOfTheDistance(FirstOrderGain):
    """Divides by the square of the distance."""

    def gains(self, data, env, edge_index):
        sender, receiver = edge_index
        between = data.x.part("all")[sender] - data.x_start.part("all")[receiver]
        return super().gains(data, env, edge_index) / between.norm(dim=1)


def forgetful():
    made = ditto(**STEP, lam=0.7)
    return JudgedByTheAverage(**{field.name: getattr(made, field.name) for field in fields(made)})


def billed_by_the_edge():
    """FedAvg's models, and a bill for every pair of nodes."""
    route = {"weigh": SampleCounts(), "exchange": Exchange("zero", "x"), "prepare": WithSelfLoops()}
    return Method("fedavg", local=local(**STEP).local, **route)


@pytest.mark.parametrize(
    ("mutant", "name", "models_differ"),
    [
        (lambda: ditto(**STEP, lam=0.0), "ditto", True),
        (forgetful, "ditto", True),
        (billed_by_the_edge, "fedavg", False),
        (lambda: fedavg(**STEP, weights="uniform"), "fedavg", True),
        (lambda: fomo(**STEP, samples=3).replace(weigh=SquareOfTheDistance()), "fomo", True),
        (lambda: fomo(**STEP, samples=3, norm="l1"), "fomo", True),
    ],
    ids=["no proximal term", "judged by the average", "billed by the edge", "uniform", "square", "other norm"],
)
def test_mutants_are_caught(points, mutant, name, models_differ):
    models, sent = distances_from_reference(points, mutant(), CASES[name][1])
    assert (models > 1e-3) is models_differ
    assert models_differ or sent > 0


CLUSTERS = [[2.25, -0.25], [3.25, 0.25], [1.0, 0.75], [4.5, 2.0], [-3.5, -1.5], [-3.25, 1.0], [-6.75, 0.5]]
KEPT, STAGES = 3, (2, 3)  # peers that a node merges with; rounds of the two stages


def density(s, of, other):
    variance = of.var() or other.var()  # of a single score: the other set's
    return np.exp(-((s - of.mean()) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def sorted_out(score, bag):
    """Expectation and maximization with hard counts, from a bag; the others are the candidates."""
    while True:
        ins = np.array([s for j, s in score.items() if j in bag])
        outs = np.array([s for j, s in score.items() if j not in bag])
        likelier = {j: len(ins) * density(s, ins, outs) >= len(outs) * density(s, outs, ins) for j, s in score.items()}
        new = {j for j in score if likelier[j]}
        if new == bag:
            return bag
        bag = new


def of_panm(start, every):
    """NSMC keeps the best of all; NAEM, from a bag and all others, sorts them by two Gaussians; means by counts."""
    models, goals, nodes = start.copy(), np.array(CLUSTERS), range(len(start))
    bags = [set() for _ in nodes]
    for t in range(1, sum(STAGES) + 1):
        trained = models - LR * (models - goals)
        moved = (trained - start) / np.linalg.norm(trained - start, axis=1, keepdims=True)
        for i in nodes:
            score = {j: moved[i] @ moved[j] for j in nodes if j != i}
            if t <= STAGES[0]:
                bags[i] = {*sorted(score, key=score.get)[-KEPT:]}
            elif t % every == 0:
                bags[i] = sorted_out(score, bags[i])
            assert len(bags[i]) <= KEPT  # else chance would say with whom it merges
            weights = np.array([i + 1 if j == i else (j + 1) * (j in bags[i]) for j in nodes])
            models[i] = weights @ trained / weights.sum()
    return models, bags


@pytest.mark.parametrize("every", [1, 2])
def test_panm_with_all_others_as_candidates(points, every):
    start = np.random.default_rng(0).normal(size=(len(CLUSTERS), WIDTH))
    settings = {**STEP, "optimizer": "sgd", "batch_size": 10, "samples": 6, "neighbors": KEPT}
    settings["explore_rounds"] = STAGES[0]
    found = []
    for method in (panm(**settings, every=every), panm(**settings, every=3 - every)):
        data, env = points([[c] * (i + 1) for i, c in enumerate(CLUSTERS)]).begin(method, start.tolist())
        for _ in range(sum(STAGES)):
            data = method.play(data, env)
        found.append((method.models(data, env).part("all").numpy(), data.bag.edge_index.T.tolist()))
    models, bags = of_panm(start, every)
    assert {(j, i) for i, bag in enumerate(bags) for j in bag} == {(j, i) for j, i in found[0][1]}
    assert np.abs(found[0][0] - models).max() < 1e-12
    assert np.abs(found[1][0] - models).max() > 1e-3  # in the other rounds
    assert {len(bag) for bag in bags} != {KEPT}  # some have thrown strangers out


def test_the_points_are_what_the_loops_take_them_for(points):
    data, env = points(TARGETS).begin(local(), START.tolist())
    assert torch.equal(data.x.part("all"), torch.from_numpy(START))
    assert env.engine.tasks.sizes("train").tolist() == COUNTS.tolist()
