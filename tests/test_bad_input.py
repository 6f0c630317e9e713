"""Bad input is a clear error before any training: what was expected, what came, how to put it right."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from graphcollab import (
    Mixer,
    Tasks,
    benefit,
    build_model,
    compare,
    dpsgd,
    fedavg,
    get_method,
    grouped_tasks,
    l2c,
    load_dataset,
    local,
    meta_l2c,
    report,
    run,
    shard_tasks,
)
from graphcollab.engine import SGD, Adam, Loss, as_objective, as_row_optimizer
from graphcollab.exchange import Exchange, Receive, ThroughCenters, ThroughServer
from graphcollab.local import Fit
from graphcollab.methods import cga, directed, ditto, fc, fomo, ifca
from graphcollab.metrics import Metric
from graphcollab.models import MLP
from graphcollab.settings import SettingError
from graphcollab.stack import ParamSpec
from graphcollab.train import Callback, Comparison, History, save_checkpoint
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


def go(method=None, tasks=None, model=lambda: MLP(4, (6,), 3), graph=None, **settings):
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
    return Mixer.create(spec).save(tmp_path / "mixer.safetensors")


def corrupt_mixer(tmp_path):
    path = other_mixer(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    return path


def bare(inputs, targets):
    return SimpleNamespace(train_inputs=inputs, train_targets=targets, test_inputs=inputs, test_targets=targets)


BAD = {
    "more shards than samples": (lambda: shard_tasks(DIGITS, 500), r"class 0 has 133 samples, which cannot fill 500"),
    "shards too large": (lambda: shard_tasks(DIGITS, 20, shard_size=50), r"class 0 .* 20 shards of 50: .*smaller ones"),
    "class without samples": (lambda: shard_tasks(DIGITS, 2, classes=[0, 11]), "class 11 has no samples: leave it out"),
    "class without tests": (
        lambda: shard_tasks(SimpleNamespace(**{**vars(bare(X, Y)), "test_inputs": X[:2], "test_targets": Y[:2]}), 2, 3),
        r"classes \[2\] have no test samples",
    ),
    "classes do not divide": (lambda: shard_tasks(DIGITS, 20, 3), "10 classes cannot be dealt 3 to a node.*divisor"),
    "no classes a node": (
        lambda: shard_tasks(DIGITS, 20, 0),
        "classes_per_node must be a whole number of at least 1",
    ),
    "groups do not divide": (lambda: grouped_tasks(DIGITS, 3), "10 classes cannot be split evenly into 3 groups"),
    "no groups": (lambda: grouped_tasks(DIGITS, 0), "groups must be a whole number of at least 1, got 0"),
    "validation share": (lambda: nodes(val_fraction=1.0), "val_fraction must be a number of at least 0 and below 1,"),
    # data
    "NaN": (lambda: Tasks.from_samples([(with_value(float("nan")), Y)]), r"input that is NaN .* first at index 7"),
    "infinity": (
        lambda: Tasks.from_samples([(X, Y), (with_value(float("-inf")), Y)]),
        r"node 1 \(train\): 1 of 12 .* index 7: ",
    ),
    "NaN target": (
        lambda: Tasks.from_samples([(X, with_value(float("nan"))[:, 2])], loss="mse", metric="mse"),
        "1 of 12 samples have a target that is NaN or infinite, first at index 7",
    ),
    "lengths": (lambda: Tasks.from_samples([(X, Y[:5])], names=["ada"]), r"ada \(train\) has 12 inputs and 5 targets"),
    "shapes": (lambda: Tasks.from_samples([(X, Y), (X[:, :2], Y)]), r"different shapes \[\(2,\), \(4,\)\]"),
    "no training samples": (
        lambda: Tasks.from_samples([(X, Y), (X[:0], Y[:0])], names=["ada", "bob"]),
        r"1 node \('bob'\) is without training samples",
    ),
    "empty dataset": (lambda: Tasks.from_samples([TensorDataset(X[:0], Y[:0])]), "node 0 .* has an empty dataset"),
    "triples": (lambda: Tasks.from_samples([TensorDataset(X, Y, Y)]), r"must yield pairs .*, got 3 values"),
    "no nodes": (lambda: Tasks.from_samples([]), "tasks need at least one node, got none"),
    "names": (lambda: nodes(names=("ada",)), "3 nodes have 1 names: one each is needed"),
    "splits": (
        lambda: Tasks.from_samples([(X, Y)] * 3, test=[(X, Y)]),
        "'test' has samples for 1 nodes, 'train' for 3",
    ),
    "double ids": (lambda: nodes(node_id=torch.tensor([1, 2, 1])), "two nodes have the same node_id"),
    # data against method and model
    "no validation data": (lambda: go(l2c(), one_validation_sample_too_few()), r"'bob'\) is without 'val' .*l2c needs"),
    "no validation data for early stopping": (
        lambda: go(local(), one_validation_sample_too_few(), patience=2),
        r"\('bob'\) is without 'val' samples, which early stopping needs",
    ),
    "label too large": (
        lambda: go(tasks=with_labels("train", 3)),
        "split 'train' has labels from 0 to 3, MLP has .* 2",
    ),
    "label too large in tests": (lambda: go(tasks=with_labels("test", 7)), "split 'test' has labels from 0 to 7"),
    "negative label": (
        lambda: go(tasks=with_labels("train", -1)),
        "split 'train' has labels from -1 to 2, .*: number the classes from 0",
    ),
    "labels from 1": (
        lambda: go(tasks=Tasks.from_samples([(X, Y + 1)] * 3)),
        "split '.*' has labels from 1 to 3, MLP has outputs for 0 to 2: labels count from 0, so subtract 1 from them",
    ),
    "real labels": (
        lambda: Tasks.from_samples([(X, X[:, 0])]),
        "targets are amounts, such as .*, and loss='cross_entropy' and metric='accuracy' are of classes: give "
        "loss='mse', and as metric 'mae', 'mse', 'r2' or 'rmse'",
    ),
    "labels of real type": (
        lambda: go(tasks=Tasks.from_samples([(X, (X[:, 0] > 0).float())])),
        "cross-entropy needs one whole-number label .*float32.*loss='mse'",
    ),
    "a column of labels": (
        lambda: go(tasks=Tasks.from_samples([(X, Y[:, None])])),
        r"cross-entropy needs one whole-number label .* \(10, 1\): give them as \[N\], such as targets\[:, 0\]",
    ),
    "a metric of classes with a loss of amounts": (
        lambda: Tasks.from_samples([(X, X[:, 0])], loss="mse"),
        "metric='accuracy' is of classes, and targets are amounts, such as .*: use 'mae', 'mse', 'r2' or 'rmse'$",
    ),
    "a metric of classes with a loss of amounts, and targets of 0 and 1": (
        lambda: Tasks.from_samples([(X, (X[:, 0] > 0).float())], loss="mse", metric="brier"),
        "metric='brier' reads outputs as scores of classes, and loss='mse' makes them amounts: use "
        "loss='cross_entropy' with an output per class, loss='bce' with one output",
    ),
    "a metric of classes asked for afterwards": (
        lambda: run(
            local(), Tasks.from_samples([(X, Y.clamp(max=1))], loss="mse", metric="auc"), nn.Linear(4, 1), rounds=1
        ).scores(["auc", "accuracy"], "val"),
        "metric='accuracy' reads outputs as scores of classes",
    ),
    "a metric of classes with a loss of one's own": (
        lambda: Tasks.from_samples([(X, X[:, 0])], loss=F.mse_loss, metric="auc"),
        "metric='auc' is of classes, and targets are amounts",
    ),
    "a metric of amounts with classes": (
        lambda: nodes(metric="mae"),
        "metric='mae' is of predicted amounts, and with loss='cross_entropy' classes are predicted: use 'accuracy', "
        "'auc', 'brier', 'ece' or 'log_loss', or loss='mse' if targets are amounts",
    ),
    "metrics of amounts asked for afterwards": (
        lambda: run(local(lr=0), nodes(), MLP(4, (6,), 3), rounds=1).scores("r2", "val"),
        "metric='r2' is of predicted amounts, and with loss='cross_entropy' classes are predicted",
    ),
    "inputs of another shape": (
        lambda: go(model=lambda: nn.Linear(9, 3)),
        r"Linear cannot take inputs of shape \(4,\) \(train\), since it takes 9 numbers a sample, and the tasks have "
        r"4: make it for tasks.input_shape \(tasks.preparation.features says .*2x4 and 9x3",
    ),
    "one output for classes": (
        lambda: go(model=lambda: nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))),
        r"cross-entropy needs one output per class, .* shape \(2,\): .*loss='bce'",
    ),
    "outputs of regression": (
        lambda: go(tasks=Tasks.from_samples([(X, X[:, 0])], loss="mse", metric="mse")),
        r"MLP returns outputs of shape \(3,\) for a sample, and targets of split 'train' have the shape \(\): give the "
        "model an output for every target of a sample, which is 1",
    ),
    "metric of binary tasks": (
        lambda: nodes(metric="auc"),
        "metric='auc' is of two classes, and targets go to 2: use 'acc",
    ),
    "label outside a user's loss": (
        lambda: go(tasks=with_labels("test", 7, loss=F.cross_entropy)),
        "split 'test' has labels from 0 to 7, MLP has outputs for 0 to 2, and the loss refuses: .*7 is out of bounds",
    ),
    "label outside a sum": (
        lambda: go(tasks=with_labels("train", 3, loss=CROSS_ENTROPY + Loss(lambda o, t: o.square().mean()))),
        "split 'train' has labels from 0 to 3, MLP has outputs for 0 to 2: give it an output for every class, "
        "at least 4",
    ),
    "label of binary tasks": (
        lambda: go(tasks=nodes(loss="bce"), model=lambda: nn.Linear(4, 1)),
        "binary cross-entropy needs labels 0 or 1, split 'train' has 2: relabel",
    ),
    "test inputs of another shape": (
        lambda: go(tasks=Tasks.from_samples([(X, Y)] * 3, test=[(X[:, :2], Y)] * 3)),
        r"MLP cannot take inputs of shape \(2,\) \(test\), since it takes 4 numbers a sample, .* have 2: .*2x2 and 4x6",
    ),
    "a counter in whole numbers": (
        lambda: go(model=Counting),
        r"buffer 'count' of Counting \(torch.int64\) changes in training",
    ),
    "no parameters": (lambda: go(model=nn.Identity()), "Identity has no parameters: there is nothing to learn"),
    # names, with the nearest known one
    "method": (lambda: get_method("l3c"), "unknown method 'l3c'; did you mean 'l2c'"),
    "dataset": (lambda: load_dataset("digit"), "unknown dataset 'digit'; did you mean 'digits'"),
    "model": (lambda: build_model("mpl", (4,), 3), "unknown model 'mpl'; did you mean 'mlp'"),
    "metric of unknown direction": (
        lambda: nodes(metric=lambda outputs, targets: 0.0),
        "<lambda> is a function that does not say whether .*Metric.per_node.* or set .* attribute higher_is_better",
    ),
    "metric": (lambda: go(tasks=nodes(metric="acuracy")), "metric must be .*'accuracy', .* got 'acuracy'"),
    "loss": (lambda: go(tasks=nodes(loss="crossentropy")), "loss must be 'cross_entropy', .* got 'crossentropy'"),
    "backend": (lambda: go(backend="vamp"), "backend must be .*'shared' or 'unrolled', got 'vamp'"),
    "variant": (lambda: l2c(variant="paper"), "variant must be 'consistent', 'neighbors' or 'algorithm'"),
    "scale": (lambda: meta_l2c(scale="average"), "scale must be 'sum' or 'mean', got 'average'"),
    "weights": (lambda: dpsgd(weights="metro"), "weights must be 'metropolis' or 'uniform', got 'metro'"),
    "device": (lambda: go(device="gpu"), "device 'gpu' cannot be used .*; this machine has 'cpu'"),
    "device number": (lambda: go(device="cuda:77"), "device 'cuda:77' cannot be used"),
    "device without values": (lambda: go(device="meta"), "device 'meta' cannot be used"),
    # edges
    "sender": (lambda: go(graph=edges((0, 1), (3, 0))), r"edge 1 \(3 -> 0\) is out of range: its sender is 3"),
    "receiver": (lambda: go(graph=edges((0, -1))), r"edge 0 \(0 -> -1\) is out of range: its receiver is -1"),
    "double edge": (lambda: go(graph=edges((0, 1), (0, 1))), "edge 0 -> 1 occurs 2 times"),
    "one way": (lambda: go(dpsgd(), graph=edges((0, 1))), "Metropolis weights need an undirected graph"),
    # numbers
    "negative lr": (lambda: meta_l2c(lr=-0.1), "lr must be a finite number of at least 0, got -0.1"),
    "negative mixer lr": (lambda: l2c(mixer_lr=-1.0), "mixer_lr must be a finite number of at least 0, got -1.0"),
    "lr is NaN": (lambda: SGD(lr=float("nan")), "lr must be a finite number of at least 0, got nan"),
    "negative decay": (lambda: Adam(weight_decay=-1), "weight_decay must be a finite number of at least 0, got -1"),
    "batch size": (lambda: local(batch_size=0), "batch_size must be a whole number of at least 1, got 0"),
    "steps": (lambda: Fit(steps=0), "steps must be a whole number of at least 1 or None, got 0"),
    "half steps": (lambda: ditto(steps=1.5), "steps must be a whole number of at least 1 or None, got 1.5"),
    "half epochs": (lambda: Fit(epochs=0.5), "epochs must be a whole number of at least 1, got 0.5"),
    "half samples": (lambda: fomo(batch_size=2.5), "batch_size must be a whole number of at least 1, got 2.5"),
    "half iterations": (lambda: fc(iterations=2.5), "iterations must be a whole number of at least 1, got 2.5"),
    "iterations by yes": (lambda: fc(iterations=True), "iterations must be a whole number of at least 1, got True"),
    "half learning": (lambda: directed(learn_rounds=2.5), "learn_rounds must be a whole number of at least 1, got 2.5"),
    "momentum is NaN": (
        lambda: fedavg(momentum=float("nan")),
        "momentum must be a number of at least 0 and below 1, got nan",
    ),
    "negative momentum": (lambda: cga(momentum=-0.5), "momentum must be a number of at least 0 and below 1, got -0.5"),
    "endless momentum": (
        lambda: SGD(momentum=float("inf")),
        "momentum must be a number of at least 0 and below 1, got inf",
    ),
    "fraction": (lambda: fedavg(fraction=0.0), r"fraction must be a number above 0 and at most 1, got 0.0"),
    "fraction above 1": (lambda: fedavg(fraction=1.5), r"must be a number above 0 and at most 1, got 1.5"),
    "fraction is NaN": (lambda: ditto(fraction=float("nan")), r"must be a number above 0 and at most 1, got nan"),
    "all centres' fraction": (lambda: ifca(fraction=1.5), r"must be a number above 0 and at most 1, got 1.5"),
    # centres
    "centre is NaN": (lambda: ifca(centers=torch.tensor([[0.0], [float("nan")]])), "must be finite: centre 1 has"),
    "the same centres": (
        lambda: ifca(clusters=3, centers=torch.tensor([[1.0, 2.0], [0.0, 2.0], [1.0, 2.0]])),
        "must all be different: 0 and 2 are the same",
    ),
    "centres given and drawn": (lambda: ifca(centers=torch.eye(2), redraws=5), "leave one of the two out"),
    # parts of the model
    "part that Ditto pulls": (
        lambda: ditto().replace(exchange=Exchange(part="head", route=ThroughServer())),
        "exchanges the part 'head', and its FitPersonal says 'all': give both the same part",
    ),
    "part of centres": (
        lambda: ifca(part="head").replace(exchange=Exchange(buffers="average", route=ThroughCenters())),
        "exchanges the part 'all', and its ChooseCenter says 'head': give both the same part",
    ),
    "buffers of centres": (
        lambda: ifca().replace(exchange=Exchange(buffers="keep", route=ThroughCenters())),
        "exchanges with buffers 'keep', and its ChooseCenter says 'average': give both the same buffers",
    ),
    "part of gradients": (
        lambda: cga().replace(exchange=Exchange("update", "x_start", "head")),
        "exchanges the part 'head', and its CrossGradients says 'all'",
    ),
    "part of a mixture": (
        lambda: directed().next.replace(exchange=Receive("head")),
        "exchanges the part 'head', and its Fit says 'all'",
    ),
    "drop fraction": (lambda: l2c(drop_fraction=1.5), "fraction .*1.5"),
    "rounds": (lambda: go(rounds=0), "rounds must be a whole number of at least 1, got 0"),
    "half rounds": (lambda: go(rounds=1.5), "rounds must be a whole number of at least 1, got 1.5"),
    "evaluate_every": (lambda: go(evaluate_every=0), "evaluate_every must be a whole number"),
    "checkpoint_every": (lambda: go(checkpoint_every=-1), "checkpoint_every must be a whole number"),
    "patience": (lambda: go(patience=0), "patience must be a whole number of at least 1 or None, got 0"),
    "chunk": (lambda: go(chunk=0), "chunk must be a whole number of at least 1 or None, got 0"),
    "on_nonfinite": (lambda: go(on_nonfinite="skip"), "on_nonfinite must be 'stop', 'isolate' or an Isolate, got"),
    "optimiser": (lambda: as_row_optimizer(torch.optim.LBFGS), "LBFGS is not available for stacked models"),
    "frozen": (lambda: meta_l2c(frozen=True), "frozen encoders must have been trained: give `pretrained`"),
}


@pytest.mark.parametrize("case", BAD)
def test_value_errors(case):
    bad, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        bad()


WRONG_TYPES = {
    "method not called": (
        lambda: go(meta_l2c),
        r"method must be a method, such as fedavg\(\), got <function meta_l2c.*; .*, call it: meta_l2c\(\)$",
    ),
    "method by name": (lambda: go("l2c"), r"method must be a method, such as fedavg\(\), got 'l2c'"),
    "a class as loss": (
        lambda: nodes(loss=nn.CrossEntropyLoss),
        r"loss must be a name, or a function of outputs and targets such as CrossEntropyLoss\(\), got <class",
    ),
    "a class as model": (
        lambda: go(model=nn.Linear),
        r"model must be a module, .*as in lambda: Linear\(in_features, out_features\), got <class",
    ),
    "a function of two as model": (
        lambda: go(model=lambda a, b: MLP(4, (6,), 3)),
        "a function takes no argument or the tasks alone, got",
    ),
    "methods that are made": (
        lambda: compare({"local": local()}, lambda seed: nodes(), MLP(4, (6,), 3)),
        "methods must be functions that make methods, by name, such as .*, not what they return .*, and no list, got",
    ),
    "methods that are made for benefit": (
        lambda: benefit(nodes(), MLP(4, (6,), 3), methods={"local": local()}),
        r"by name, such as .*, not what they return \(methods.fedavg\(\)\), and no list, or None, got",
    ),
    "grids without methods": (
        lambda: compare({"local": local}, lambda seed: nodes(), MLP(4, (6,), 3), grids={"lr": [0.1]}),
        r"grids must be the values to try of every setting, by method, such as .*\{'\*': .* for all methods, or None",
    ),
    "seeds that are a number": (
        lambda: compare({"local": local}, lambda seed: nodes(), MLP(4, (6,), 3), seeds=3),
        r"seeds must be several whole numbers, such as range\(5\), got 3",
    ),
    "a comparison as curves": (
        lambda: report.accuracy_curves(Comparison([], {}, True)),
        r"curves must be pairs \(rounds, values\) .*, comparison_figures draws them\), got Comparison",
    ),
    "tasks for compare": (
        lambda: compare({"local": local}, nodes(), MLP(4, (6,), 3)),
        r"tasks must be a function from a seed to Tasks, lambda seed: \.\.\., got",
    ),
    "tasks": (
        lambda: go(tasks=[(X, Y)]),
        "tasks must be Tasks, made by Tasks.from_frame, Tasks.from_samples or a partition, got",
    ),
    "model by name": (
        lambda: go(model="mlp"),
        "model must be a module, .*build_model makes one.*, got 'mlp'",
    ),
    "loss of several numbers": (
        lambda: go(tasks=nodes(loss=lambda o, t: F.cross_entropy(o, t, reduction="none"))),
        r"a loss must return one number per batch .* got \(2,\): average it",
    ),
    "metric of several numbers": (
        lambda: go(tasks=nodes(metric=Metric.per_node("hits", True, lambda o, t: (o.argmax(1) == t).tolist()))),
        "metric hits: expected one number",
    ),
    "metric that is none": (lambda: go(tasks=nodes(metric=3)), "metric must be 'accuracy', .* or a function, got 3"),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_type_errors(case):
    bad, message = WRONG_TYPES[case]
    with pytest.raises((TypeError, SettingError), match=message):
        bad()


def test_unknown_part():
    with pytest.raises(KeyError, match=r"no part 'heads'.*'backbone', .*'head'"):
        go(meta_l2c(part="heads"))


def test_two_architectures_share_only_what_has_one_shape():
    models = [lambda: MLP(4, (6,), 3), lambda: MLP(4, (7, 6), 3)]
    with raises("mismatch", "part 'all'", "'head'"):
        go(model=models, architecture=[0, 1, 0])
    with pytest.raises(ValueError, match="a number from 0 to 1 for each of 3 nodes"):
        go(l2c(part="head"), model=models, architecture=[0, 1])


def test_mixer_of_other_filters_names_the_layer(tmp_path):
    with pytest.raises(ValueError, match=r"layer 'backbone\.1' has filters of 5 numbers, .* trained on filters of 6"):
        go(meta_l2c(pretrained=other_mixer(tmp_path)))
    mixer = Mixer.create(ParamSpec.from_module(nn.Sequential(nn.Linear(4, 3))))
    with pytest.raises(ValueError, match=r"no encoder for layer 'backbone\.1'; it knows \['0'\]"):
        go(meta_l2c(pretrained=mixer))


def test_mixer_files(tmp_path):
    with pytest.raises(ValueError, match=r"mixer\.safetensors is not a safetensors file"):
        go(meta_l2c(pretrained=corrupt_mixer(tmp_path)))
    with pytest.raises(FileNotFoundError, match=r"there is no mixer at .*missing"):
        go(meta_l2c(pretrained=tmp_path / "missing"))
    tasks, model = nodes(), MLP(4, (6,), 3)
    data = run(local(epochs=1), tasks, model, rounds=1).data
    other = save_checkpoint(tmp_path, data, History(tasks.names), {}) / "part-00000.safetensors"
    with pytest.raises(ValueError, match=r"is not a mixer .*; its format is None"):
        go(meta_l2c(pretrained=other))


def test_damaged_description_of_a_mixer(tmp_path):
    good = other_mixer(tmp_path)
    tensors = load_file(good)
    for widths in (None, "no json", '["backbone.1"]', '{"backbone.1": 9, "head": 7}', '{"other": 3}'):
        metadata = {"format": "graphcollab-mixer-1"} | ({} if widths is None else {"widths": widths})
        save_file(tensors, good, metadata)
        with pytest.raises(ValueError, match=r"mixer\.safetensors is damaged"):
            go(meta_l2c(pretrained=good))


def test_checkpoint_of_other_shapes(tmp_path):
    run(local(epochs=1), nodes(), MLP(4, (9,), 3), rounds=1, checkpoint=tmp_path)
    with pytest.raises(ValueError, match=r"differs in shapes of the models\[0\].*\[9, 4\].*\[6, 4\]"):
        go(local(epochs=1), checkpoint=tmp_path)


def test_a_model_that_returns_two_tensors():
    with pytest.raises(TypeError, match=r"a model must return one tensor .*, Paired returns a tuple: wrap it"):
        go(model=lambda: Paired(4, 3))


def test_what_a_users_loss_and_metric_can_take_is_not_refused():
    """A loss that ignores a label, and a metric that needs two samples of different classes."""

    def spread(outputs, targets):
        if len(targets.unique()) < 2:
            raise ValueError("one class is not enough")
        return outputs.std(0).mean()

    ignoring = partial(F.cross_entropy, ignore_index=-1)
    with pytest.raises(pytest.fail.Exception, match="training has begun"):
        go(local(), with_labels("train", -1, loss=ignoring, metric=Metric.per_node("spread", True, spread)))


def test_compare_checks_before_it_runs():
    with pytest.raises(ValueError, match=r"grids for \['meta_l2d'\]"):
        compare({"meta_l2c": meta_l2c}, lambda seed: nodes(), MLP(4, (6,), 3), grids={"meta_l2d": {}})


def test_a_good_run_begins():
    """The cases above fail for the reason they name, not because nothing works."""
    with pytest.raises(pytest.fail.Exception, match="training has begun"):
        go()
    assert go(callbacks=[]).data.round == 2
    assert replace(nodes(), loss="cross_entropy").num_nodes == 3
