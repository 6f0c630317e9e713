"""Some rounds of methods for networks against plain loops from the papers' equations; mutants are caught.

A model is a dictionary of its parameters by name; forward passes, losses, optimizers and mixtures are written out.
"""

from __future__ import annotations

import functools
import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from graphcollab import Phases
from graphcollab.components import ClassifierSimilarity, Judge
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import fedproto, mapl, meta_l2c, pfedsim
from graphcollab.nn import MixingEncoder
from graphcollab.testing import Scene
from tests.methods import plain_attention
from tests.methods.plain import Plain

SIZES, CLASSES = (8, 9, 7, 6), 3
SPEC = ParamSpec.from_module(Scene.small().modules[0])
STEP = {"steps": 2, "batch_size": 100, "lr": 0.3}


def mlp(model, x):
    return F.linear(F.linear(x, model["backbone.1.weight"], model["backbone.1.bias"]).relu(), *head(model))


def head(model):
    return model["head.weight"], model["head.bias"]


def latent(model, x):
    return F.linear(x.flatten(1), model["backbone.latent.weight"], model["backbone.latent.bias"]).relu()


def projection(model, z):
    hidden = F.linear(z, model["projection.0.weight"], model["projection.0.bias"])
    hidden = (hidden - hidden.mean(1, keepdim=True)) / (hidden.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    hidden = (hidden * model["projection.1.weight"] + model["projection.1.bias"]).relu()
    return F.linear(hidden, model["projection.3.weight"], model["projection.3.bias"])


def gradients(model, loss):
    """The gradient of a loss of a model, 0 for parameters that it does not read."""
    model = {name: value.detach().clone().requires_grad_() for name, value in model.items()}
    found = torch.autograd.grad(loss(model), list(model.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(model, found, strict=True))


def sgd(model, loss, lr, steps, momentum=0.0):
    """v ← μ v + g, θ ← θ - η v, from v = 0."""
    velocity = {name: torch.zeros_like(value) for name, value in model.items()}
    for _ in range(steps):
        step = gradients(model, loss)
        velocity = {name: momentum * velocity[name] + step[name] for name in model}
        model = {name: model[name] - lr * velocity[name] for name in model}
    return model


class Adam:
    """Adam with weight decay in the gradient, or beside the step."""

    def __init__(self, lr, betas=(0.9, 0.999), decay=0.0, beside=0.0):
        self.lr, self.betas, self.decay, self.beside = lr, betas, decay, beside
        self.count, self.first, self.second = 0, {}, {}

    def step(self, model, step):
        (one, two), self.count, new = self.betas, self.count + 1, {}
        for name, value in model.items():
            g = step[name] + self.decay * value
            self.first[name] = one * self.first.get(name, 0) + (1 - one) * g
            self.second[name] = two * self.second.get(name, 0) + (1 - two) * g**2
            mean, square = self.first[name] / (1 - one**self.count), self.second[name] / (1 - two**self.count)
            new[name] = (1 - self.lr * self.beside) * value - self.lr * mean / (square.sqrt() + 1e-8)
        return new


def mean_of(models, weights, part=""):
    """The first model with the weighted mean of a part of all."""
    mean = {n: sum(w * m[n] for w, m in zip(weights, models, strict=True)) for n in models[0] if n.startswith(part)}
    return mean


# FedProto


def of_fedproto(nodes, start, env, data, lam=0.7, rounds=3):
    """λ times the mean squared error to the class's prototype; prototypes are means over all samples of a class."""
    models, prototypes = [start] * len(nodes), {}
    for _ in range(rounds):
        means = {}
        for i, (x, y) in enumerate(nodes):

            def loss(model, x=x, y=y):
                z, far = latent(model, x), 0.0
                for q in range(len(y)):
                    if int(y[q]) in prototypes:
                        far = far + ((z[q] - prototypes[int(y[q])]) ** 2).mean() / len(y)
                return F.cross_entropy(F.linear(z, *head(model)), y) + lam * far

            models[i] = sgd(models[i], loss, STEP["lr"], STEP["steps"], momentum=0.5)
            z = latent(models[i], x)
            for k in y.unique().tolist():
                means.setdefault(k, []).append((int((y == k).sum()), z[y == k].mean(0)))
        for k, own in means.items():
            prototypes[k] = sum(n * mean for n, mean in own) / sum(n for n, _ in own)
    c = torch.stack([prototypes[k] for k in range(CLASSES)])
    nearest = {"head.weight": 2 * c, "head.bias": -(c**2).sum(1)}  # -‖z - c‖² but for ‖z‖²
    heads = [h.flatten() for model in models for h in head(model)]
    return [{**model, **nearest} for model in models], torch.cat([c.flatten(), *heads])


# MAPL


def project(v):
    """The nearest point on the simplex: by trying how many entries stay above zero."""
    for count in range(len(v), 0, -1):
        shift = (sum(sorted(v, reverse=True)[:count]) - 1) / count
        if sorted(v, reverse=True)[count - 1] > shift:
            return [max(entry - shift, 0.0) for entry in v]
    raise AssertionError


def of_mapl(nodes, start, env, data, rounds=4, warmup=1, tau=0.5, eta=20.0):
    """Algorithm 3; every sample is seen twice, since nothing is augmented."""
    models, count = [start] * len(nodes), len(nodes)
    weights = [[1 / count] * count for _ in nodes]
    heard = [set(range(count)) for _ in nodes]
    share = [len(y) / sum(len(other) for _, other in nodes) for _, y in nodes]
    for round_ in range(rounds):
        for i, (x, y) in enumerate(nodes):

            def loss(model, x=x, y=y):
                x, y = torch.cat([x, x]), torch.cat([y, y])
                z, xi = latent(model, x), model["prototypes"]
                p = projection(model, z)
                p, xi = p / p.norm(dim=1, keepdim=True), xi / xi.norm(dim=1, keepdim=True)
                alone, contrast, proto = torch.eye(len(y), dtype=bool), 0.0, 0.0
                for q in range(len(y)):
                    others = (p @ p[q] / tau)[~alone[q]]
                    contrast = contrast - (others.log_softmax(0)[y[~alone[q]] == y[q]]).mean()
                    proto = proto - (xi @ p[q] / tau).log_softmax(0)[y[q]]
                apart = sum(xi[k] @ xi[r] for k in range(CLASSES) for r in range(CLASSES) if r != k) / CLASSES
                return F.cross_entropy(F.linear(z, *head(model)), y) + (contrast + proto) / len(y) + apart

            adam = Adam(0.01, (0.5, 0.999))
            for _ in range(STEP["steps"]):
                models[i] = adam.step(models[i], gradients(models[i], loss))
        if round_ >= warmup:
            heads = [torch.cat([h.flatten() for h in head(model)]) for model in models]
            for i in range(count):
                own, known = weights[i], sorted(heard[i])
                degree, length = sum(own[j] for j in known if j != i), math.sqrt(sum(own[j] ** 2 for j in known))
                moved = []
                for j in known:
                    alike = float(heads[i] @ heads[j] / heads[i].norm() / heads[j].norm())
                    slope = 0.5 * share[j] * -alike + 0.1 * (0.5 * own[j] / length - (j != i) / (degree + 1e-6))
                    moved.append(own[j] - eta * slope)
                weights[i] = [0.0] * count
                for j, w in zip(known, project(moved), strict=True):
                    weights[i][j] = w
        mixed = [mean_of(models, weights[i], "prototypes") for i in range(count)]
        models = [{**model, **new} for model, new in zip(models, mixed, strict=True)]
        heard = [{j for j in heard[i] if weights[i][j] > 0 or j == i} for i in range(count)]
    assert min(map(len, heard)) < count  # some have been dropped
    return models, torch.tensor(weights, dtype=torch.float64).flatten()


# Meta-L2C


def paper_weights(mixer, encoders, changes, heard, gate):
    """Equations 4 to 8: codes of filters, a softmax of their products."""
    codes = []
    for change in changes:
        code = []
        for layer in ("backbone.1", "head"):
            first, second = ((encoders[f"{layer}/weight{n}"], encoders[f"{layer}/bias{n}"]) for n in (1, 2))
            for row, bias in zip(change[f"{layer}.weight"], change[f"{layer}.bias"], strict=True):
                code.append(F.linear(F.linear(torch.cat([row, bias[None]]), *first).relu(), *second))
        codes.append(torch.cat(code))
    rows = []
    for i in range(len(changes)):
        known = sorted(heard[i])
        found = torch.stack([codes[i] @ codes[j] for j in known]).softmax(0)
        rows.append(dict(zip(known, found, strict=True)))
    return rows


def bounded_weights(mixer, encoders, changes, heard, gate):
    """Cosines of layers' codes of normalized changes, and a gate for the own model."""
    form = MixingEncoder(
        mixer.widths, encoders, None, "cosine", True, "gate", torch.tensor([gate], dtype=torch.float64)
    )
    sparse = any(len(others) < len(changes) for others in heard)
    table = plain_attention.weights(form, torch.stack([flat(change) for change in changes]), SPEC, heard, sparse)
    return [{j: table[i, j] for j in sorted(heard[i])} for i in range(len(changes))]


def of_meta_l2c(nodes, start, env, data, rounds=4, dropped=1, weigh=bounded_weights, adam=None):
    """Equations 2 and 6: changes are mixed, and the encoders take one step of Adam on the sum of validation losses."""
    encoders = {name: value.clone() for name, value in data.mixer.tensors.items()}  # as they were drawn
    models, count, adam = [start] * len(nodes), len(nodes), Adam(0.01, **(adam or {"beside": 0.01}))
    val = Plain(scene_of(mlp)).samples["val"]
    heard = [set(range(count)) for _ in nodes]

    def weights(encoders, changes):
        return weigh(data.mixer, encoders, changes, heard, gate)

    gate, alone = -4.0, [start] * len(nodes)
    for round_ in range(rounds):
        trained = [
            sgd(models[i], lambda m, x=x, y=y: F.cross_entropy(mlp(m, x), y), STEP["lr"], STEP["steps"])
            for i, (x, y) in enumerate(nodes)
        ]
        changes = [{name: model[name] - start[name] for name in start} for model in trained]
        before = models

        def mixed(rows, before=before, trained=trained):
            return [
                {n: before[i][n] - sum(w * (before[j][n] - trained[j][n]) for j, w in rows[i].items()) for n in start}
                for i in range(count)
            ]

        def loss(encoders, changes=changes, mixed=mixed):
            judged = mixed(weights(encoders, changes))
            return sum(F.cross_entropy(mlp(model, x), y) for model, (x, y) in zip(judged, val, strict=True))

        rows = weights(encoders, changes)
        models = mixed(rows)
        alone = [
            sgd(model, lambda m, x=x, y=y: F.cross_entropy(mlp(m, x), y), STEP["lr"], STEP["steps"])
            for model, (x, y) in zip(alone, nodes, strict=True)
        ]
        encoders = adam.step(encoders, gradients(encoders, loss))

        losses = [
            sum(float(F.cross_entropy(mlp(model, x), y)) for model, (x, y) in zip(those, val, strict=True))
            for those in (models, alone)
        ]
        gate += 0.01 * (round_ + 1) * math.log(losses[0] / losses[1])
        if round_ == 1:
            for i in range(count):
                others = sorted(heard[i] - {i}, key=lambda j, i=i: float(rows[i][j]))
                heard[i] -= {*others[:dropped]}
    gates = [] if data.mixer.gate is None else [torch.tensor([gate], dtype=torch.float64)]
    return models, torch.cat([encoders[name].flatten() for name in data.mixer.tensors] + gates)


# pFedSim


def of_pfedsim(nodes, start, env, data, rounds=3):
    """FedAvg in the first round; then backbones by -log(1 - cosine); judged by the models before they are mixed."""
    models, count = [start] * len(nodes), len(nodes)
    for round_ in range(rounds):
        trained = [
            sgd(models[i], lambda m, x=x, y=y: F.cross_entropy(mlp(m, x), y), STEP["lr"], STEP["steps"])
            for i, (x, y) in enumerate(nodes)
        ]
        sizes = [len(y) / sum(len(other) for _, other in nodes) for _, y in nodes]
        for i in range(count):
            if round_ == 0:
                models[i] = mean_of(trained, sizes)
                continue
            near = []
            for j in range(count):
                ones, others = trained[i]["head.weight"], trained[j]["head.weight"]
                alike = sum(float(a @ b / a.norm() / b.norm()) for a, b in zip(ones, others, strict=True)) / CLASSES
                near.append(-math.log(1 - min(max(alike, 0.0), 0.9999)))
            models[i] = {**trained[i], **mean_of(trained, [a / sum(near) for a in near], "backbone")}
    return trained, torch.zeros(0)


def scene_of(forward):
    return Scene.small(sizes=SIZES, embeds=forward is latent)


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors.values()])


def encoders_and_gate(data):
    gates = [] if data.mixer.gate is None else [data.mixer.gate]
    return torch.cat([flat(data.mixer.tensors), *gates])


def prototypes_and_heads(data):
    return torch.cat([data.prototypes[0].flatten(), data.x.part("head").flatten()])


def table_of(data):
    table = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    table[data.last_graph.edge_index[1], data.last_graph.edge_index[0]] = data.last_graph.values
    return table


GRAPH = ClassifierSimilarity(lr=20.0)
MAPL = {**STEP, "lr": 0.01, "augment": None, "warmup": 1, "graph": GRAPH}
META = {**STEP, "weight_decay": 0.0, "drop_round": 1, "drop_count": 1}
PAPER = {"score": "product", "normalize": False, "own": "softmax", "decoupled": False}
# method, its plain loops, rounds, the kind of model, and what is compared beside the models that nodes are judged by
CASES = {
    "fedproto": (fedproto(**STEP, lam=0.7), of_fedproto, 3, latent, prototypes_and_heads),
    "mapl": (mapl(**MAPL), of_mapl, 4, latent, lambda data: table_of(data).flatten()),
    "meta_l2c": (meta_l2c(**META), of_meta_l2c, 4, mlp, encoders_and_gate),
    "meta_l2c of the paper": (
        meta_l2c(**META, **PAPER),
        partial(of_meta_l2c, weigh=paper_weights, adam={"decay": 0.01}),
        4,
        mlp,
        encoders_and_gate,
    ),
    "pfedsim": (pfedsim(**STEP, warmup=1), of_pfedsim, 3, mlp, lambda data: torch.zeros(0)),
}


@functools.cache
def reference_of(name):
    """Return what a method's reference finds, and of what parts models are."""
    method, reference, _, forward, _ = CASES[name]
    scene = scene_of(forward)
    data, env = scene.begin(method)
    start = {name: value.detach() for name, value in scene.modules[0].named_parameters()}
    return *reference(Plain(scene).samples["train"], start, env, data), {part.partition(".")[0] for part in start}


def distance_from_reference(name, method):
    """Return how far the models that nodes are judged by, and what else is compared, are from the reference's."""
    *_, rounds, forward, also = CASES[name]
    expected, more, parts = reference_of(name)
    data, env = scene_of(forward).begin(method)
    for _ in range(rounds):
        data = method.play(data, env)
    judged, far = method.models(data, env), 0.0
    for part in parts:
        rows = [flat({n: v for n, v in model.items() if n.startswith(part)}) for model in expected]
        far = max(far, float((judged.part(part) - torch.stack(rows)).detach().abs().max()))
    return far, float((also(data) - more).abs().max()) if len(more) else 0.0


@pytest.mark.parametrize("name", CASES)
def test_some_rounds(name):
    assert max(distance_from_reference(name, CASES[name][0])) < 1e-8


def judged_after_mixing():
    phases = pfedsim(**STEP, warmup=1)
    return Phases(phases.method.replace(judge=Judge()), phases.until, phases.next.replace(judge=Judge()))


@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        (fedproto(**STEP, lam=0.7, weights="uniform"), "fedproto"),
        (fedproto(**STEP, lam=0.7, predict="head"), "fedproto"),
        (fedproto(**STEP, lam=0.0), "fedproto"),
        (mapl(**MAPL, temperature=0.1), "mapl"),
        (mapl(**MAPL, uniformity=0.5), "mapl"),
        (mapl(**{**MAPL, "graph": ClassifierSimilarity(lr=20.0, log_degree=False)}), "mapl"),
        (meta_l2c(**META, scale="mean"), "meta_l2c"),
        (meta_l2c(**META, variant="neighbors"), "meta_l2c"),
        (meta_l2c(**{**META, "drop_round": 2}), "meta_l2c"),
        (meta_l2c(**META, decoupled=False), "meta_l2c"),
        (meta_l2c(**META, normalize=False), "meta_l2c"),
        (meta_l2c(**META, mixer_weight_decay=0.0), "meta_l2c"),
        (meta_l2c(**META, **PAPER, scale="mean"), "meta_l2c of the paper"),
        (meta_l2c(**META, **PAPER, variant="neighbors"), "meta_l2c of the paper"),
        (meta_l2c(**{**META, "drop_round": 2}, **PAPER), "meta_l2c of the paper"),
        (meta_l2c(**META, **{**PAPER, "normalize": True}), "meta_l2c of the paper"),
        (meta_l2c(**META, **{**PAPER, "score": "scaled"}), "meta_l2c of the paper"),
        (meta_l2c(**META, **{**PAPER, "own": "largest"}), "meta_l2c of the paper"),
        (meta_l2c(**META, **{**PAPER, "decoupled": True}), "meta_l2c of the paper"),
        (judged_after_mixing(), "pfedsim"),
        (pfedsim(**STEP, warmup=1, cap=0.5), "pfedsim"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mutants_are_caught(mutant, name):
    assert max(distance_from_reference(name, mutant)) > 1e-4
