"""What loss, metric, augmentation and layers are set to is part of a run, whatever their class is."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import GAT, GCN, GATv2Conv, GCNConv, GINConv, MessagePassing
from torch_geometric.transforms import AddSelfLoops

from graphcollab import Method, Tasks, run, site
from graphcollab.components import Fit
from graphcollab.engine import Loss, Views
from graphcollab.methods import fedavg
from graphcollab.sites import connected
from graphcollab.sites.hall import Hall
from tests.raising import raises

X, Y = torch.arange(24.0).view(12, 2).sin(), torch.arange(12) % 2


class Focal(nn.Module):
    def __init__(self, gamma):
        super().__init__()
        self._gamma = gamma

    def forward(self, outputs, targets):
        return F.cross_entropy(outputs, targets) ** self._gamma


class Around(nn.Module):
    """Holds its loss as a child."""

    def __init__(self, value):
        super().__init__()
        self.inner = smooth(value)

    def forward(self, outputs, targets):
        return self.inner(outputs, targets)


class Share(nn.Module):
    """A metric that counts, as those of torchmetrics do."""

    higher_is_better = True

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold
        self.reset()

    def reset(self):
        self._calls, self.seen = 0, torch.zeros(())

    def update(self, outputs):
        self._calls += 1
        self.seen = self.seen + len(outputs)

    def forward(self, outputs, targets):
        self.update(outputs)
        return (outputs[:, 0] > self.threshold).double().mean()


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


def smooth(value):
    return nn.CrossEntropyLoss(label_smoothing=value)


def with_attribute(value):
    def loss(outputs, targets):
        return loss.scale * F.cross_entropy(outputs, targets)

    loss.scale = value
    return loss


def hooked(value):
    loss = nn.CrossEntropyLoss()
    loss._scale = value
    loss.register_forward_hook(lambda module, given, made: made * module._scale)
    return loss


def trained(**settings):
    return {"method": Method("own", local=Fit(batch_size=4, **settings))}


OTHERS = {
    "setting": (lambda value: {"loss": smooth(value)}, "loss.label_smoothing"),
    "private": (lambda value: {"loss": Focal(value)}, "loss._gamma"),
    "inside": (lambda value: {"loss": Around(value)}, "loss.inner.label_smoothing"),
    "evaluation": (lambda value: {"loss": nn.CrossEntropyLoss().train(value > 0.5)}, "loss.training"),
    "partial": (lambda value: {"loss": partial(smooth(value))}, "loss.func.label_smoothing"),
    "of a function": (lambda value: {"loss": with_attribute(value)}, "loss.scale"),
    "of a library's class": (lambda value: {"loss": hooked(value)}, "loss._scale"),
    "class weights": (
        lambda value: {"loss": nn.CrossEntropyLoss(weight=torch.tensor([1.0, value]))},
        "loss.weight",
    ),
    "metric": (lambda value: {"metric": Share(value)}, "metric.threshold"),
    "augmentation": (lambda value: trained(views=Views(Times(value), 1)), "method.local.views.augment.factor"),
    "objective": (
        lambda value: trained(objective=Loss(smooth(value))),
        "method.local.objective.function.label_smoothing",
    ),
    "transform": (
        lambda value: {"method": Method("own", local=Fit(), prepare=AddSelfLoops(fill_value=value))},
        "method.prepare.fill_value",
    ),
}


def play(folder, rounds, loss="cross_entropy", metric="accuracy", method=None, model=lambda: nn.Linear(2, 2), x=X):
    tasks = Tasks.from_samples([(x, Y)] * 2, val_fraction=0, loss=loss, metric=metric)
    return run(method or fedavg(batch_size=4), tasks, model, rounds=rounds, checkpoint=folder)


@pytest.mark.parametrize("what", OTHERS)
def test_a_run_with_another_setting_is_refused(tmp_path, what):
    make, subject = OTHERS[what]
    play(tmp_path, 1, **make(0.25))
    with raises("other-run", subject):
        play(tmp_path, 2, **make(0.75))
    assert play(tmp_path, 2, **make(0.25)).data.round == 2


def test_what_a_metric_counts_is_no_setting(tmp_path):
    metric = Share(0.5)
    assert [play(tmp_path, rounds, metric=metric).data.round for rounds in (1, 2)] == [1, 2]
    assert metric._calls > 2


class Graph(nn.Module):
    """A layer on a graph of three nodes, of which samples are the numbers."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.register_buffer("edges", torch.tensor([[0, 1, 2], [1, 2, 0]]), persistent=False)
        self.register_buffer("x", torch.eye(3, 2), persistent=False)

    def forward(self, node):
        return self.layer(self.x, self.edges)[node]


class Own(MessagePassing):
    def __init__(self, scale=1.0):
        super().__init__()
        self.linear, self._scale = nn.Linear(2, 2), scale

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.linear(x))

    def message(self, x_j):
        return self._scale * x_j


LAYERS = {
    "GCNConv": lambda: GCNConv(2, 2),
    "GINConv": lambda: GINConv(nn.Linear(2, 2)),
    "GATv2Conv": lambda: GATv2Conv(2, 2),
    "GCN": lambda: GCN(2, 3, 2, 2),
    "GAT": lambda: GAT(2, 4, 2, 2),
    "own": Own,
}
of_nodes = partial(play, x=torch.arange(12) % 3)


@pytest.mark.parametrize(
    "name", [name if name in ("GCNConv", "own") else pytest.param(name, marks=pytest.mark.slow) for name in LAYERS]
)
def test_layers_of_pyg_are_resumed_in_one_process(tmp_path, name):
    model = lambda: Graph(LAYERS[name]())  # noqa: E731
    of_nodes(tmp_path / "a", 1, model=model)
    resumed, straight = of_nodes(tmp_path / "a", 2, model=model), of_nodes(tmp_path / "b", 2, model=model)
    assert torch.equal(resumed.stacks.tensors[0], straight.stacks.tensors[0])


@pytest.mark.parametrize(
    ("make", "setting"), [(Own, "_scale"), (lambda scale: GCNConv(2, 2, improved=scale > 1), "improved")]
)
def test_layers_of_pyg_with_other_settings_are_refused(tmp_path, make, setting):
    of_nodes(tmp_path, 1, model=lambda: Graph(make(1.0)))
    with raises("other-run", f"models[0].layer.{setting}"):
        of_nodes(tmp_path, 2, model=lambda: Graph(make(2.0)))


def test_sites_with_other_settings_are_refused():
    def act(connection):
        smoothed = Loss(smooth(0.25 if connection.name == "a" else 0.75))
        method = Method("own", local=Fit(batch_size=4, objective=smoothed))
        table = {"age": [*range(8)], "ill": [0, 1] * 4}
        with connected(connection):
            site(connection.name, table, target="ill").run(method, lambda: nn.Linear(1, 2), rounds=1)

    with raises("mismatch", "method.local.objective.function.label_smoothing", "0.25 at a and 0.75 at b, c"):
        Hall(tuple("abc"), poll=0.1).play(act)
