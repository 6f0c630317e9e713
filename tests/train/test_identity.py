"""Only the same run is resumed: what differs is named, and nothing is trained."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab import Method, Phases, run
from graphcollab.analysis.metrics import Metric
from graphcollab.components import Fit, Isolate
from graphcollab.data.samples import Pool
from graphcollab.engine import SGD, Loss
from graphcollab.engine.randomness import own_randomness
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import ifca, l2c, local, meta_l2c
from graphcollab.models import MLP
from graphcollab.nn import MixingEncoder
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.testing import Scene, differences
from graphcollab.train import Callback, Checkpoint, Compute, identity
from graphcollab.train.fingerprint import describe
from graphcollab.train.identity import _coarsely
from graphcollab.transforms import Ring
from tests.raising import raises

METHOD = meta_l2c(epochs=1, batch_size=4, lr=0.1)
SPEC = ParamSpec.from_module(MLP(4, (6,), 3))


def small_tasks():
    return Scene.small(torch.float32).tasks


def changed_pool(field, value):
    tasks = small_tasks()
    pool = tasks.pools["train"]
    tensor = getattr(pool, field).clone()
    tensor[3] = value
    return replace(tasks, pools={"train": Pool(**{"inputs": pool.inputs, "targets": pool.targets, field: tensor})})


def reordered():
    tasks = small_tasks()
    val = tasks.splits["val"]
    return replace(tasks, splits={**tasks.splits, "val": replace(val, index=val.index.flip(0))})


BASE = {"method": METHOD, "model": lambda: MLP(4, (6,), 3), "seed": 0}
OTHERS = {
    "method": ({"method": l2c(epochs=1, batch_size=4, lr=0.1)}, "method.name"),
    "setting": ({"method": meta_l2c(epochs=1, batch_size=4, lr=0.2)}, "method.local.fit.optimizer.lr"),
    "seed": ({"seed": 1}, "seed"),
    "shapes": (
        {"model": lambda: MLP(4, (7,), 3)},
        "shapes of the models[0]['backbone.1.weight']",
    ),
    "architectures": (
        {"model": [lambda: MLP(4, (6,), 3), lambda: MLP(4, (6,), 3)], "architecture": [0, 1] * 3},
        "shapes of the models",
    ),
    "double precision": ({"model": lambda: MLP(4, (6,), 3).double()}, None),
    "names of parameters": (
        {"model": lambda: nn.Sequential(MLP(4, (6,), 3))},
        "shapes of the models[0]['0.backbone.1.weight']",
    ),
    "initial models": (
        {"model": MLP(4, (6,), 3)},
        "initial models of architecture 0",
    ),
    "inputs": ({"tasks": lambda: changed_pool("inputs", 1.5)}, "inputs in split 'val'"),
    "targets": ({"tasks": lambda: changed_pool("targets", 2)}, "targets in split 'val'"),
    "order": ({"tasks": reordered}, "inputs in split 'val'"),
    "fewer nodes": ({"tasks": lambda: small_tasks().select(range(5))}, "number of nodes"),
    "names": ({"tasks": lambda: replace(small_tasks(), names=tuple("abcdef"))}, "node names"),
    "ids": ({"tasks": lambda: replace(small_tasks(), node_id=torch.arange(6) + 1)}, "node ids"),
    "loss": ({"tasks": lambda: replace(small_tasks(), loss=nn.functional.cross_entropy)}, "loss"),
    "metric": (
        {"tasks": lambda: replace(small_tasks(), metric=Metric.per_node("zero", True, lambda o, t: 0.0))},
        "metric",
    ),
    "edges": ({"graph": Ring()}, "edges"),
    "pretrained": (
        {"method": meta_l2c(epochs=1, batch_size=4, lr=0.1, pretrained=MixingEncoder.create(SPEC, seed=9))},
        "method.weigh.pretrained",
    ),
    "autocast": ({"compute": Compute(autocast=True)}, "autocast"),
    "backend": ({"compute": Compute(backend="loop")}, "backend"),
    "chunk": ({"compute": Compute(chunk=2)}, "chunk"),
}


def layers(*more):
    """A start that every model shares, so that only what the layers do differs."""

    def make():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(4, 6), *more, nn.Linear(6, 3))

    return make


class Times(nn.Module):
    """Holds a layer under the name that it is given."""

    def __init__(self, name, factor):
        super().__init__()
        with own_randomness(0):
            self.add_module(name, nn.Linear(4, 3))
        self.name, self.factor = name, factor

    def forward(self, x):
        return self.factor * getattr(self, self.name)(x)


SILENT = {  # runs of which only what is computed differs: (settings there, settings here, subject)
    "activation": ({"model": layers(nn.ReLU())}, {"model": layers(nn.Tanh())}, "models[0].1"),
    "dropout": ({"model": layers(nn.Dropout(0.3))}, {"model": layers(nn.Dropout(0.4))}, "models[0].1.p"),
    "momentum": (
        {"model": layers(nn.BatchNorm1d(6)), "method": local(batch_size=64)},
        {"model": layers(nn.BatchNorm1d(6, momentum=0.3)), "method": local(batch_size=64)},
        "models[0].1.momentum",
    ),
    "the module itself": (
        {"model": lambda: Times("body", 1.0)},
        {"model": lambda: Times("body", 9.0)},
        "models[0].factor",
    ),
    "layers that are missing": (
        {"model": layers(nn.Identity(), nn.Identity(), nn.ReLU())},
        {"model": layers(nn.Identity(), nn.Identity())},
        "shapes of the models[0]['3.weight']",
    ),
    "a layer inside": (
        {"model": layers(nn.Sequential(nn.ReLU(), nn.Tanh()))},
        {"model": layers(nn.Sequential(nn.ReLU()))},
        "models[0].1.1",
    ),
}


@pytest.mark.parametrize("what", SILENT)
def test_what_is_computed_is_part_of_it(tmp_path, what):
    there, here, subject = SILENT[what]
    start_run(tmp_path, **there)
    assert start_run(tmp_path, rounds=3, **there).data.round == 3
    count = Rounds()
    with raises("other-run", subject):
        start_run(tmp_path, rounds=4, callbacks=[count], **here)
    assert count.played == 0


@pytest.mark.parametrize("name", ["graphcollab", "Python", "torch", "torch_geometric"])
def test_another_version_is_refused_with_what_to_do(tmp_path, monkeypatch, name):
    start_run(tmp_path)
    versions = identity._versions([])
    monkeypatch.setattr(identity, "_versions", lambda modules: {**versions, f"version of {name}": "9.9"})
    with raises("other-run", f"version of {name}", name, "9.9"):
        start_run(tmp_path, rounds=3)
    assert start_run(tmp_path, rounds=3, resume=False).data.round == 3


class Rounds(Callback):
    def __init__(self):
        self.played = 0

    def on_round(self, data, history):
        self.played += 1


def start_run(folder, rounds=2, every=None, resume=True, **changes):
    settings = {**BASE, "tasks": small_tasks, **changes}
    return run(
        settings.pop("method"),
        settings.pop("tasks")(),
        settings.pop("model"),
        rounds=rounds,
        checkpoint=Checkpoint(folder, every, resume),
        **settings,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    start_run(place)
    return place


@pytest.mark.parametrize("other", OTHERS)
def test_another_run_is_refused(folder, other):
    changes, subject = OTHERS[other]
    count = Rounds()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code = {"backend": "conflict", "chunk": "conflict"}.get(other, "other-run")
    with raises(code, subject) if subject else raises("contract", "model"):
        start_run(folder, rounds=4, callbacks=[count], **changes)
    assert count.played == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_the_advice_helps(tmp_path):
    start_run(tmp_path)
    with raises("other-run", "seed", "resume=False"):
        start_run(tmp_path, seed=1)
    assert start_run(tmp_path / "other", seed=1).data.round == 2
    assert start_run(tmp_path, seed=1, resume=False).data.round == 2


def test_the_same_run_made_anew_is_resumed(tmp_path):
    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets)

    def method():  # holds a function, whose text has a place in memory
        fit = Fit(batch_size=4, optimizer=SGD(lr=0.1), objective=Loss(lambda o, t: 0.1 * o.square().mean()))
        return Method("own", local=fit)

    for rounds in (1, 2):
        tasks = replace(small_tasks(), loss=loss)
        assert run(method(), tasks, lambda: MLP(4, (6,), 3), rounds=rounds, checkpoint=tmp_path).data.round == rounds


def test_a_finished_run_is_not_trained_further(tmp_path):
    first, count = start_run(tmp_path), Rounds()
    again = start_run(tmp_path, callbacks=[count])
    assert count.played == 0
    assert torch.equal(first.stacks.tensors[0], again.stacks.tensors[0])
    assert again.history.seconds == first.history.seconds


def test_a_resumed_run_is_not_started_again(tmp_path, monkeypatch):
    start_run(tmp_path)
    monkeypatch.setattr(Method, "start", lambda *_: pytest.fail("started again"))
    assert start_run(tmp_path, rounds=3).data.round == 3


def test_another_assignment_of_architectures_is_refused(tmp_path):
    models = {"model": [MLP(4, (6,), 3), MLP(4, (6,), 3)], "method": local(epochs=1)}
    start_run(tmp_path, architecture=[0, 1] * 3, **models)
    with raises("other-run", "architecture"):
        start_run(tmp_path, rounds=3, architecture=[1, 0] * 3, **models)


def test_a_run_can_be_prolonged(tmp_path):
    start_run(tmp_path / "a")
    longer, straight = start_run(tmp_path / "a", rounds=4), start_run(tmp_path / "b", rounds=4)
    assert torch.equal(longer.stacks.tensors[0], straight.stacks.tensors[0])
    assert longer.history.rounds == [1, 2, 3, 4]


def test_the_history_of_a_prolonged_run_is_that_of_a_straight_one(tmp_path):
    short, long = ({"rounds": rounds, "evaluate_every": 3, "every": 1} for rounds in (2, 4))
    assert start_run(tmp_path / "a", **short).history.rounds == [2]
    longer, straight = start_run(tmp_path / "a", **long), start_run(tmp_path / "b", **long)
    assert longer.history.rounds == straight.history.rounds == [3, 4]
    assert len(longer.history.seconds) == 2
    assert longer.history.seconds == sorted(longer.history.seconds)
    assert torch.equal(longer.history.table("val_loss"), straight.history.table("val_loss"))
    for round_ in (3, 4):  # what was forgotten is not in the checkpoints either
        saved = load_checkpoint(tmp_path / "a" / f"round-{round_:06d}")[1]
        assert saved.rounds == [3, 4][: round_ - 2]
        assert differences(saved.values, {n: v[: round_ - 2] for n, v in straight.history.values.items()}) == []


def test_fewer_rounds_than_were_played_are_refused(tmp_path):
    start_run(tmp_path, rounds=3)
    with raises("conflict", "rounds", "3", "2"):
        start_run(tmp_path, rounds=2)


@pytest.mark.filterwarnings("ignore:.*never played")
def test_a_later_phase_starts_from_the_same_mixer(tmp_path):
    def begin(seed):
        mixer = MixingEncoder.create(SPEC, seed=seed)
        method = Phases(local(epochs=1), 3, meta_l2c(epochs=1, pretrained=mixer.save(tmp_path / "mixer.safetensors")))
        return start_run(tmp_path / "run", method=method)

    assert torch.equal(begin(0).stacks.tensors[0], begin(0).stacks.tensors[0])
    with raises("other-run", "pretrained mixers"):
        begin(1)


@pytest.mark.filterwarnings("ignore:.*never played")
def test_a_later_phase_starts_from_the_same_centers(tmp_path):
    def begin(centers, rounds=2):
        return start_run(tmp_path, rounds, method=Phases(local(epochs=1), 3, ifca(centers=centers)))

    one, two = torch.eye(2, SPEC.num_parameters), torch.eye(2, SPEC.num_parameters)
    two[1, 7] = 1e-3
    begin(one)
    for other in (two, None):
        with raises("other-run", "method.next.rewire.centers"):
            begin(other)
    assert begin(one.clone(), rounds=4).data.round == 4


@pytest.mark.filterwarnings("ignore:.*never played")
def test_tensors_that_came_later_are_noticed(tmp_path):
    start_run(tmp_path, method=Phases(local(epochs=1), 3, ifca()))
    with raises("other-run", "method.next.rewire.centers"):
        start_run(tmp_path, method=Phases(local(epochs=1), 3, ifca(centers=torch.eye(2, SPEC.num_parameters))))


@pytest.mark.filterwarnings("ignore:.*never played")
def test_phases_inside_phases(tmp_path):
    def begin(seed, rounds):
        inner = Phases(local(epochs=1), 1, meta_l2c(epochs=1, pretrained=MixingEncoder.create(SPEC, seed=seed)))
        return start_run(tmp_path, rounds, method=Phases(inner, 2, local(epochs=1)))

    begin(0, 1)
    with raises("other-run"):
        begin(1, 3)
    assert begin(0, 3).data.round == 3


def test_another_factor_of_isolation_is_refused(tmp_path):
    start_run(tmp_path)
    start_run(tmp_path, 3, on_nonfinite=Isolate(5.0))  # bounds are made when they are first asked for
    start_run(tmp_path, 4, on_nonfinite="stop")
    for other, shown in ((Isolate(1.5), "1.5"), ("isolate", "10.0")):
        with raises("other-run", "factor of Isolate", "5.0", shown):
            start_run(tmp_path, 5, on_nonfinite=other)
    assert start_run(tmp_path, 5, on_nonfinite=Isolate(5.0)).data.round == 5


def test_of_other_types_only_the_type_is_named():
    saved = {"loss": {"loss": "Own", "loss.scale": 1, "loss.inner": "A"}, "seed": 0}
    wanted = {"loss": {"loss": "Other", "loss.inner": "A"}, "seed": 0}
    assert identity.differences(saved, wanted) == {"loss": ("Own", "Other")}
    wanted["loss"] = {"loss": "Own", "loss.inner": "B"}
    assert identity.differences(saved, wanted) == {"loss.inner": ("A", "B"), "loss.scale": (1, None)}


class HoldsAPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 1)
        self.prepare = self.body.forward  # as PEFT's models do it


def test_architectures_that_hold_a_method_of_a_part_are_the_same():
    one, other = (describe(HoldsAPart(), "m", tensors=False) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("count", [8, 1000, 300_000])
def test_models_are_recognized_up_to_rounding_without_being_told(count):
    """Of models that differ by rounding one checksum at least is the same, of others none."""
    for seed in range(20):
        draw = torch.Generator().manual_seed(seed)
        model = torch.randn(count, generator=draw).double()
        rounded = model * (1 + 2e-7 * torch.randn(count, generator=draw))
        other = torch.randn(count, generator=draw).double()
        near = model + 0.3 * other
        marks = set(_coarsely(model))
        assert len(marks) == 2
        assert marks & set(_coarsely(rounded))
        assert not marks & set(_coarsely(other))
        assert not marks & set(_coarsely(near))
    assert _coarsely(torch.zeros(count).double()) == _coarsely(torch.zeros(count).double())
