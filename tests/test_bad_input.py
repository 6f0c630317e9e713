"""Bad input is a clear error before any training: what was expected, what came, how to put it right."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from graphcollab import (
    Tasks,
    benefit,
    build_model,
    compare,
    get_method,
    load_dataset,
    report,
    run,
)
from graphcollab._base.packed import pack
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics import Metric
from graphcollab.components import Exchange, Fit, Receive, ThroughCenters, ThroughServer
from graphcollab.data.datasets import from_arrays
from graphcollab.data.partition import grouped_tasks, shard_tasks
from graphcollab.engine import SGD, Adam, Loss
from graphcollab.engine.losses import as_objective
from graphcollab.engine.optimizer import as_row_optimizer
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import cga, directed, ditto, dpsgd, fc, fedavg, fomo, ifca, l2c, local, meta_l2c
from graphcollab.models import MLP
from graphcollab.nn import MixingEncoder
from graphcollab.train import Callback, Checkpoint, Compute
from tests.raising import raises

CROSS_ENTROPY = as_objective("cross_entropy")

DIGITS = load_dataset("digits")
X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3


class NoRound(Callback):
    """Fails the test if training begins."""

    def on_start(self, data, history, rounds):
        pytest.fail("training has begun")


def nodes(**fields):
    names = fields.pop("names", ("ada", "bob", "cy"))
    return Tasks.from_samples([(X, Y)] * 3, names=names, **fields)


def run_with(method=None, tasks=None, model=lambda: MLP(4, (6,), 3), graph=None, **settings):
    method = meta_l2c() if method is None else method
    return run(method, tasks or nodes(), model, graph, **{"rounds": 2, "callbacks": [NoRound()], **settings})


def with_value(value, where=7):
    x = X.clone()
    x[where, 2] = value
    return x


def one_validation_sample_too_few():
    return Tasks.from_samples([(X, Y), (X[:1], Y[:1]), (X, Y)], names=("ada", "bob", "cy"))


class Counting(nn.Linear):
    """Counts its batches in whole numbers."""

    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("count", torch.tensor(0))

    def forward(self, inputs):
        self.count += self.training
        return super().forward(inputs)


class Paired(nn.Linear):
    """Returns more than one tensor."""

    def forward(self, inputs):
        outputs = super().forward(inputs)
        return outputs, inputs


def with_labels(split, label, **fields):
    y = Y.clone()
    y[3] = label
    good, bad = [(X, Y)] * 3, [(X, Y), (X, y), (X, Y)]
    return Tasks.from_samples(bad if split == "train" else good, test=bad if split == "test" else good, **fields)


def edges(*pairs):
    return torch.tensor(pairs).T


def other_mixer(tmp_path):
    spec = ParamSpec.from_module(MLP(5, (6,), 3))
    return MixingEncoder.create(spec).save(tmp_path / "mixer.safetensors")


def corrupt_mixer(tmp_path):
    path = other_mixer(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    return path


def bare(inputs, targets):
    return from_arrays(inputs, targets, inputs, targets)


BAD = {
    "more shards than samples": (lambda: shard_tasks(DIGITS, 500), ("too-few", "class 0", "133", "500")),
    "shards too large": (lambda: shard_tasks(DIGITS, 20, shard_size=50), ("too-few", "class 0", "20", "50")),
    "class without samples": (lambda: shard_tasks(DIGITS, 2, classes=[0, 11]), ("too-few", "class 11", "0")),
    "class without tests": (
        lambda: shard_tasks(from_arrays(X, Y, X[:2], Y[:2]), 2, 3),
        ("too-few", "classes", "2"),
    ),
    "classes do not divide": (lambda: shard_tasks(DIGITS, 20, 3), ("conflict", "classes_per_node", "10", "3")),
    "no classes a node": (
        lambda: shard_tasks(DIGITS, 20, 0),
        ("value", "classes_per_node"),
    ),
    "groups do not divide": (lambda: grouped_tasks(DIGITS, 3), ("conflict", "groups", "10", "3")),
    "no groups": (lambda: grouped_tasks(DIGITS, 0), ("value", "groups")),
    "validation share": (lambda: nodes(val_fraction=1.0), ("value", "val_fraction")),
    # data
    "NaN": (
        lambda: Tasks.from_samples([(with_value(float("nan")), Y)]),
        ("not-finite", "inputs", "node 0 (train)", "7"),
    ),
    "infinity": (
        lambda: Tasks.from_samples([(X, Y), (with_value(float("-inf")), Y)]),
        ("not-finite", "inputs", "node 1 (train)", "sample 7"),
    ),
    "NaN target": (
        lambda: Tasks.from_samples([(X, with_value(float("nan"))[:, 2])], loss="mse", metric="mse"),
        ("not-finite", "targets", "node 0 (train)", "sample 7"),
    ),
    "lengths": (lambda: Tasks.from_samples([(X, Y[:5])], names=["ada"]), ("mismatch", "ada (train)", "12", "5")),
    "shapes": (lambda: Tasks.from_samples([(X, Y), (X[:, :2], Y)]), ("shape", "inputs", "2", "4")),
    "no training samples": (
        lambda: Tasks.from_samples([(X, Y), (X[:0], Y[:0])], names=["ada", "bob"]),
        ("empty", "node 'bob'"),
    ),
    "empty dataset": (lambda: Tasks.from_samples([TensorDataset(X[:0], Y[:0])]), ("empty", "node 0 (train)")),
    "triples": (lambda: Tasks.from_samples([TensorDataset(X, Y, Y)]), ("shape", "node 0 (train)", "3")),
    "no nodes": (lambda: Tasks.from_samples([]), ("empty", "train")),
    "names": (lambda: nodes(names=("ada",)), ("mismatch", "names", "3")),
    "splits": (
        lambda: Tasks.from_samples([(X, Y)] * 3, test=[(X, Y)]),
        ("mismatch", "test", "'train'", "3"),
    ),
    "double ids": (lambda: nodes(node_id=torch.tensor([1, 2, 1])), ("duplicate", "node_id")),
    # data against method and model
    "no validation data": (lambda: run_with(l2c(), one_validation_sample_too_few()), ("empty", "split 'val'", "'bob'")),
    "no validation data for early stopping": (
        lambda: run_with(local(), one_validation_sample_too_few(), patience=2),
        ("empty", "split 'val'", "'bob'"),
    ),
    "label too large": (
        lambda: run_with(tasks=with_labels("train", 3)),
        ("range", "targets", "'train'", "3", "2"),
    ),
    "label too large in tests": (lambda: run_with(tasks=with_labels("test", 7)), ("range", "targets", "'test'", "7")),
    "negative label": (
        lambda: run_with(tasks=with_labels("train", -1)),
        ("range", "targets", "'train'", "2"),
    ),
    "labels from 1": (
        lambda: run_with(tasks=Tasks.from_samples([(X, Y + 1)] * 3)),
        ("range", "targets", "3", "2"),
    ),
    "real labels": (
        lambda: Tasks.from_samples([(X, X[:, 0])]),
        ("conflict", "loss", "'cross_entropy'", "'accuracy'", "'mse'"),
    ),
    "labels of real type": (
        lambda: run_with(tasks=Tasks.from_samples([(X, (X[:, 0] > 0).float())])),
        ("shape", "targets", "'mse'"),
    ),
    "a column of labels": (
        lambda: run_with(tasks=Tasks.from_samples([(X, Y[:, None])])),
        ("shape", "targets", "10"),
    ),
    "a metric of classes with a loss of amounts": (
        lambda: Tasks.from_samples([(X, X[:, 0])], loss="mse"),
        ("conflict", "metric", "'accuracy'", "'mae'", "'mse'"),
    ),
    "a metric of classes with a loss of amounts, and targets of 0 and 1": (
        lambda: Tasks.from_samples([(X, (X[:, 0] > 0).float())], loss="mse", metric="brier"),
        ("conflict", "metric", "'brier'", "'mse'", "'cross_entropy'"),
    ),
    "a metric of classes asked for afterwards": (
        lambda: run(
            local(), Tasks.from_samples([(X, Y.clamp(max=1))], loss="mse", metric="auc"), nn.Linear(4, 1), rounds=1
        ).scores(["auc", "accuracy"], "val"),
        ("conflict", "metric", "'accuracy'"),
    ),
    "a metric of classes with a loss of one's own": (
        lambda: Tasks.from_samples([(X, X[:, 0])], loss=F.mse_loss, metric="auc"),
        ("conflict", "metric", "'auc'"),
    ),
    "a metric of amounts with classes": (
        lambda: nodes(metric="mae"),
        ("conflict", "metric", "'mae'", "'cross_entropy'", "'accuracy'"),
    ),
    "metrics of amounts asked for afterwards": (
        lambda: run(local(lr=0), nodes(), MLP(4, (6,), 3), rounds=1).scores("r2", "val"),
        ("conflict", "metric", "'r2'", "'cross_entropy'"),
    ),
    "one output for classes": (
        lambda: run_with(model=lambda: nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))),
        ("shape", "outputs", "2", "'bce'"),
    ),
    "outputs of regression": (
        lambda: run_with(tasks=Tasks.from_samples([(X, X[:, 0])], loss="mse", metric="mse")),
        ("shape", "outputs", "3", "'train'"),
    ),
    "metric of binary tasks": (
        lambda: nodes(metric="auc"),
        ("conflict", "metric", "'auc'", "2"),
    ),
    "label outside a user's loss": (
        lambda: run_with(tasks=with_labels("test", 7, loss=F.cross_entropy)),
        ("contract", "loss", "'test'", "7", "2"),
    ),
    "label outside a sum": (
        lambda: run_with(tasks=with_labels("train", 3, loss=CROSS_ENTROPY + Loss(lambda o, t: o.square().mean()))),
        ("range", "targets", "'train'", "3", "2"),
    ),
    "label of binary tasks": (
        lambda: run_with(tasks=nodes(loss="bce"), model=lambda: nn.Linear(4, 1)),
        ("value", "targets", "'train'", "2"),
    ),
    "no parameters": (lambda: run_with(model=nn.Identity()), ("empty", "model")),
    # names, with the nearest known one
    "method": (lambda: get_method("l3c"), ("unknown", "method", "'l3c'", "'l2c'")),
    "dataset": (lambda: load_dataset("digit"), ("unknown", "dataset", "'digit'", "'digits'")),
    "model": (lambda: build_model("mpl", (4,), 3), ("unknown", "model", "'mpl'", "'mlp'")),
    "metric of unknown direction": (
        lambda: nodes(metric=lambda outputs, targets: 0.0),
        ("contract", "metric"),
    ),
    "metric": (lambda: run_with(tasks=nodes(metric="acuracy")), ("value", "metric", "'accuracy'", "'acuracy'")),
    "loss": (
        lambda: run_with(tasks=nodes(loss="crossentropy")),
        ("value", "loss", "'cross_entropy'", "'crossentropy'"),
    ),
    "backend": (lambda: run_with(compute=Compute(backend="vamp")), ("value", "backend", "'shared'", "'vamp'")),
    "variant": (lambda: l2c(variant="paper"), ("value", "variant", "'consistent'", "'neighbors'", "'algorithm'")),
    "scale": (lambda: meta_l2c(scale="average"), ("value", "scale", "'sum'", "'mean'", "'average'")),
    "weights": (lambda: dpsgd(weights="metro"), ("value", "weights", "'metropolis'", "'uniform'", "'metro'")),
    # edges
    "sender": (lambda: run_with(graph=edges((0, 1), (3, 0))), ("range", "edge_index", "3")),
    "receiver": (lambda: run_with(graph=edges((0, -1))), ("range", "edge_index")),
    "double edge": (lambda: run_with(graph=edges((0, 1), (0, 1))), ("duplicate", "edge_index", "2")),
    "one way": (lambda: run_with(dpsgd(), graph=edges((0, 1))), ("disconnected", "graph")),
    # numbers
    "negative lr": (lambda: meta_l2c(lr=-0.1), ("value", "lr", "0.1")),
    "negative mixer lr": (lambda: l2c(mixer_lr=-1.0), ("value", "mixer_lr", "1.0")),
    "lr is NaN": (lambda: SGD(lr=float("nan")), ("value", "lr")),
    "negative decay": (lambda: Adam(weight_decay=-1), ("value", "weight_decay")),
    "batch size": (lambda: local(batch_size=0), ("value", "batch_size")),
    "steps": (lambda: Fit(steps=0), ("value", "steps")),
    "half steps": (lambda: ditto(steps=1.5), ("value", "steps", "1.5")),
    "half epochs": (lambda: Fit(epochs=0.5), ("value", "epochs", "0.5")),
    "half samples": (lambda: fomo(batch_size=2.5), ("value", "batch_size", "2.5")),
    "half iterations": (lambda: fc(iterations=2.5), ("value", "iterations", "2.5")),
    "iterations by yes": (lambda: fc(iterations=True), ("value", "iterations")),
    "half learning": (lambda: directed(learn_rounds=2.5), ("value", "learn_rounds", "2.5")),
    "momentum is NaN": (
        lambda: fedavg(momentum=float("nan")),
        ("value", "momentum"),
    ),
    "negative momentum": (lambda: cga(momentum=-0.5), ("value", "momentum", "0.5")),
    "endless momentum": (
        lambda: SGD(momentum=float("inf")),
        ("value", "momentum"),
    ),
    "fraction": (lambda: fedavg(fraction=0.0), ("value", "fraction", "0.0")),
    "fraction above 1": (lambda: fedavg(fraction=1.5), ("value", "fraction", "1.5")),
    "fraction is NaN": (lambda: ditto(fraction=float("nan")), ("value", "fraction")),
    "all centers' fraction": (lambda: ifca(fraction=1.5), ("value", "fraction", "1.5")),
    # centers
    "center is NaN": (lambda: ifca(centers=torch.tensor([[0.0], [float("nan")]])), ("not-finite", "centers")),
    "the same centers": (
        lambda: ifca(clusters=3, centers=torch.tensor([[1.0, 2.0], [0.0, 2.0], [1.0, 2.0]])),
        ("duplicate", "centers", "2"),
    ),
    "centers given and drawn": (lambda: ifca(centers=torch.eye(2), redraws=5), ("conflict", "redraws")),
    # parts of the model
    "part that Ditto pulls": (
        lambda: ditto().replace(exchange=Exchange(part="head", route=ThroughServer())),
        ("mismatch", "part", "'head'", "'all'"),
    ),
    "part of centers": (
        lambda: ifca(part="head").replace(exchange=Exchange(buffers="average", route=ThroughCenters())),
        ("mismatch", "part", "'all'", "'head'"),
    ),
    "buffers of centers": (
        lambda: ifca().replace(exchange=Exchange(buffers="keep", route=ThroughCenters())),
        ("mismatch", "buffers", "'keep'", "'average'"),
    ),
    "part of gradients": (
        lambda: cga().replace(exchange=Exchange("update", "x_start", "head")),
        ("mismatch", "part", "'head'", "'all'"),
    ),
    "part of a mixture": (
        lambda: directed().next.replace(exchange=Receive("head")),
        ("mismatch", "part", "'head'", "'all'"),
    ),
    "drop fraction": (lambda: l2c(drop_fraction=1.5), ("value", "drop_fraction", "1.5")),
    "rounds": (lambda: run_with(rounds=0), ("value", "rounds")),
    "half rounds": (lambda: run_with(rounds=1.5), ("value", "rounds", "1.5")),
    "evaluate_every": (lambda: run_with(evaluate_every=0), ("value", "evaluate_every")),
    "every": (lambda: run_with(checkpoint=Checkpoint("here", every=-1)), ("value", "every")),
    "patience": (lambda: run_with(patience=0), ("value", "patience")),
    "chunk": (lambda: run_with(compute=Compute(chunk=0)), ("value", "chunk")),
    "on_nonfinite": (lambda: run_with(on_nonfinite="skip"), ("value", "on_nonfinite", "'stop'", "'isolate'")),
    "optimizer": (lambda: as_row_optimizer(torch.optim.LBFGS), ("value", "optimizer", "LBFGS")),
    "frozen": (lambda: meta_l2c(frozen=True), ("missing", "pretrained")),
    "inputs of another shape": (
        lambda: run_with(model=lambda: nn.Linear(9, 3)),
        ("contract", "model", "4", "9"),
    ),
    "test inputs of another shape": (
        lambda: run_with(tasks=Tasks.from_samples([(X, Y)] * 3, test=[(X[:, :2], Y)] * 3)),
        ("contract", "model", "4"),
    ),
    "a counter in whole numbers": (
        lambda: run_with(model=Counting),
        ("contract", "model", "'count'"),
    ),
    "device": (lambda: run_with(compute="gpu"), ("unsupported", "device", "'gpu'", "'cpu'")),
    "device number": (lambda: run_with(compute="cuda:77"), ("unsupported", "device", "'cuda:77'")),
    "device without values": (lambda: run_with(compute="meta"), ("unsupported", "device", "'meta'")),
}


@pytest.mark.parametrize("case", BAD)
def test_value_errors(case):
    bad, error = BAD[case]
    with raises(*error):
        bad()


WRONG_TYPES = {
    "method not called": (
        lambda: run_with(meta_l2c),
        ("value", "method", "meta_l2c()"),
    ),
    "method by name": (lambda: run_with("l2c"), ("value", "method", "'l2c'")),
    "a class as loss": (
        lambda: nodes(loss=nn.CrossEntropyLoss),
        ("value", "loss"),
    ),
    "a class as model": (
        lambda: run_with(model=nn.Linear),
        ("value", "model"),
    ),
    "a function of two as model": (
        lambda: run_with(model=lambda a, b: MLP(4, (6,), 3)),
        ("value", "model"),
    ),
    "methods that are made": (
        lambda: compare({"local": local()}, lambda seed: nodes(), MLP(4, (6,), 3)),
        ("value", "methods"),
    ),
    "methods that are made for benefit": (
        lambda: benefit(nodes(), MLP(4, (6,), 3), methods={"local": local()}),
        ("value", "methods"),
    ),
    "grids without methods": (
        lambda: compare({"local": local}, lambda seed: nodes(), MLP(4, (6,), 3), grids={"lr": [0.1]}),
        ("value", "grids", "'*'"),
    ),
    "seeds that are a number": (
        lambda: compare({"local": local}, lambda seed: nodes(), MLP(4, (6,), 3), seeds=3),
        ("value", "seeds"),
    ),
    "curves of an empty comparison": (
        lambda: report.accuracy_curves(Comparison([], {}, True)),
        ("too-few", "curves"),
    ),
    "tasks for compare": (
        lambda: compare({"local": local}, nodes(), MLP(4, (6,), 3)),
        ("value", "tasks"),
    ),
    "tasks": (
        lambda: run_with(tasks=[(X, Y)]),
        ("value", "tasks"),
    ),
    "model by name": (
        lambda: run_with(model="mlp"),
        ("value", "model", "'mlp'"),
    ),
    "loss of several numbers": (
        lambda: run_with(tasks=nodes(loss=lambda o, t: F.cross_entropy(o, t, reduction="none"))),
        ("type", "loss", "2"),
    ),
    "metric of several numbers": (
        lambda: run_with(tasks=nodes(metric=Metric.per_node("hits", True, lambda o, t: (o.argmax(1) == t).tolist()))),
        ("type", "metric 'hits'"),
    ),
    "metric that is none": (lambda: run_with(tasks=nodes(metric=3)), ("value", "metric", "'accuracy'", "3")),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_type_errors(case):
    bad, error = WRONG_TYPES[case]
    with raises(*error):
        bad()


def test_unknown_part():
    with raises("unknown", "part 'heads'", "'backbone'", "'head'", kind=KeyError):
        run_with(meta_l2c(part="heads"))


def test_two_architectures_share_only_what_has_one_shape():
    models = [lambda: MLP(4, (6,), 3), lambda: MLP(4, (7, 6), 3)]
    with raises("mismatch", "part 'all'", "'head'"):
        run_with(model=models, architecture=[0, 1, 0])
    with raises("value", "architecture", "0", "1", "3"):
        run_with(l2c(part="head"), model=models, architecture=[0, 1])


def test_mixer_of_other_filters_names_the_layer(tmp_path):
    with raises("shape", "layer 'backbone.1'", "5", "6"):
        run_with(meta_l2c(pretrained=other_mixer(tmp_path)))
    mixer = MixingEncoder.create(ParamSpec.from_module(nn.Sequential(nn.Linear(4, 3))))
    with raises("unknown", "layer 'backbone.1'", "'0'"):
        run_with(meta_l2c(pretrained=mixer))


def test_mixer_files(tmp_path):
    with raises("damaged", f"file {tmp_path / 'mixer.safetensors'}"):
        run_with(meta_l2c(pretrained=corrupt_mixer(tmp_path)))
    with raises("missing-file", f"file {tmp_path / 'missing'}", kind=FileNotFoundError):
        run_with(meta_l2c(pretrained=tmp_path / "missing"))
    tasks, model = nodes(), MLP(4, (6,), 3)
    run(local(epochs=1), tasks, model, rounds=1, checkpoint=tmp_path / "run")
    other = tmp_path / "run" / "round-000001" / "state.safetensors"
    with raises("format", f"file {other}"):
        run_with(meta_l2c(pretrained=other))


def test_damaged_description_of_a_mixer(tmp_path):
    good = other_mixer(tmp_path)
    tensors = load_file(good)
    form = {"score": "cosine", "normalize": True, "own": "gate"}
    for widths in (None, "no mapping", ["backbone.1"], {"backbone.1": 9, "head": 7}, {"other": 3}):
        good.write_bytes(pack("graphcollab-mixer", 4, {"form": form, "widths": widths}, tensors))
        with raises("damaged", f"file {good}"):
            run_with(meta_l2c(pretrained=good))


def test_checkpoint_of_other_shapes(tmp_path):
    run(local(epochs=1), nodes(), MLP(4, (9,), 3), rounds=1, checkpoint=tmp_path)
    with raises("other-run", "shapes of the models[0]['backbone.1.weight']", "9", "4", "6"):
        run_with(local(epochs=1), checkpoint=tmp_path)


def test_a_model_that_returns_two_tensors():
    with raises("type", "model", kind=TypeError):
        run_with(model=lambda: Paired(4, 3))


def test_what_a_users_loss_and_metric_can_take_is_not_refused():
    """A loss that ignores a label, and a metric that needs two samples of different classes."""

    def spread(outputs, targets):
        if len(targets.unique()) < 2:
            raise ValueError("one class is not enough")
        return outputs.std(0).mean()

    ignoring = partial(F.cross_entropy, ignore_index=-1)
    with pytest.raises(pytest.fail.Exception, match="training has begun"):
        run_with(local(), with_labels("train", -1, loss=ignoring, metric=Metric.per_node("spread", True, spread)))


def test_compare_checks_before_it_runs():
    with raises("unknown", "grids", "'meta_l2d'"):
        compare({"meta_l2c": meta_l2c}, lambda seed: nodes(), MLP(4, (6,), 3), grids={"meta_l2d": {}})


def test_a_good_run_begins():
    """The cases above fail for the reason they name, not because nothing works."""
    with pytest.raises(pytest.fail.Exception, match="training has begun"):
        run_with()
    assert run_with(callbacks=[]).data.round == 2
    assert replace(nodes(), loss="cross_entropy").num_nodes == 3
