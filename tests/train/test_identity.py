"""Only the same run is resumed: what differs is named, and nothing is trained."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab import ifca, l2c, local, meta_l2c, run
from graphcollab.local import SGD, Fit, UserLoss
from graphcollab.method import Method
from graphcollab.metrics import UserMetric
from graphcollab.models import MLP
from graphcollab.nn import Mixer
from graphcollab.phases import Phases
from graphcollab.stack import ParamSpec
from graphcollab.tasks import Pool
from graphcollab.testing import Scene
from graphcollab.train import Callback
from graphcollab.transforms import Ring

METHOD = meta_l2c(epochs=1, batch_size=4, lr=0.1)
SPEC = ParamSpec.from_module(MLP(4, (6,), 3))


def small():
    return Scene.small(torch.float32).tasks


def changed_pool(field, value):
    tasks = small()
    pool = tasks.pools["train"]
    tensor = getattr(pool, field).clone()
    tensor[3] = value
    return replace(tasks, pools={"train": Pool(**{"inputs": pool.inputs, "targets": pool.targets, field: tensor})})


def reordered():
    tasks = small()
    val = tasks.splits["val"]
    return replace(tasks, splits={**tasks.splits, "val": replace(val, index=val.index.flip(0))})


BASE = {"method": METHOD, "model": lambda: MLP(4, (6,), 3), "seed": 0}
OTHERS = {
    "method": ({"method": l2c(epochs=1, batch_size=4, lr=0.1)}, "method"),
    "setting": ({"method": meta_l2c(epochs=1, batch_size=4, lr=0.2)}, r"method .*lr=0\.1.*lr=0\.2"),
    "seed": ({"seed": 1}, r"seed \(0 there, 1 here\)"),
    "shapes": (
        {"model": lambda: MLP(4, (7,), 3)},
        r"shapes of the models \(.*weight': \[6, 4\], .* there, .*weight': \[7, 4\], .* here\)",
    ),
    "architectures": (
        {"model": [lambda: MLP(4, (6,), 3), lambda: MLP(4, (6,), 3)], "architecture": [0, 1] * 3},
        "shapes of the models",
    ),
    "double precision": ({"model": lambda: MLP(4, (6,), 3).double()}, "cannot take inputs"),
    "names of parameters": ({"model": lambda: nn.Sequential(MLP(4, (6,), 3))}, r"shapes of the models"),
    "initial models": ({"model": MLP(4, (6,), 3)}, r"differs in x at the start .*, and also in x_init at the start"),
    "inputs": ({"tasks": lambda: changed_pool("inputs", 1.5)}, "inputs in pool 'train'"),
    "targets": ({"tasks": lambda: changed_pool("targets", 2)}, "targets in pool 'train'"),
    "order": ({"tasks": reordered}, "samples in split 'val'"),
    "fewer nodes": ({"tasks": lambda: small().select(range(5))}, r"number of nodes \(6 there, 5 here\)"),
    "names": ({"tasks": lambda: replace(small(), names=tuple("abcdef"))}, "node names"),
    "ids": ({"tasks": lambda: replace(small(), node_id=torch.arange(6) + 1)}, "node ids"),
    "loss": ({"tasks": lambda: replace(small(), loss=nn.functional.cross_entropy)}, "loss .*cross_entropy"),
    "metric": ({"tasks": lambda: replace(small(), metric=UserMetric("zero", True, lambda o, t: 0.0))}, "metric"),
    "edges": ({"graph": Ring()}, "edge_index at the start"),
    "pretrained": (
        {"method": meta_l2c(epochs=1, batch_size=4, lr=0.1, pretrained=Mixer.create(SPEC, seed=9))},
        "pretrained mixers",
    ),
    "autocast": ({"autocast": True}, r"autocast \(False there, True here\)"),
    "compile": ({"compile": True}, r"compile \(False there, True here\)"),
    "backend": ({"backend": "loop"}, r"began with backend 'vmap' .* cannot be resumed with 'loop'"),
    "chunk": ({"chunk": 2}, "cannot be resumed with"),
}


class Rounds(Callback):
    def __init__(self):
        self.played = 0

    def on_round(self, data, history):
        self.played += 1


def start(folder, rounds=2, **changes):
    settings = {**BASE, "tasks": small, **changes}
    return run(
        settings.pop("method"),
        settings.pop("tasks")(),
        settings.pop("model"),
        rounds=rounds,
        checkpoint=folder,
        **settings,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    start(place)
    return place


@pytest.mark.parametrize("other", OTHERS)
def test_another_run_is_refused(folder, other):
    changes, message = OTHERS[other]
    count = Rounds()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=message):
        start(folder, rounds=4, callbacks=[count], **changes)
    assert count.played == 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_advice_helps(tmp_path):
    start(tmp_path)
    with pytest.raises(ValueError, match=r"use another folder, or resume=False to start afresh"):
        start(tmp_path, seed=1)
    assert start(tmp_path / "other", seed=1).data.round == 2
    assert start(tmp_path, seed=1, resume=False).data.round == 2


def test_the_same_run_made_anew_is_resumed(tmp_path):
    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets)

    def method():  # holds a function, whose text has a place in memory
        fit = Fit(batch_size=4, optimizer=SGD(lr=0.1), objective=UserLoss(lambda o, t: 0.1 * o.square().mean()))
        return Method("own", local=fit)

    for rounds in (1, 2):
        tasks = replace(small(), loss=loss)
        assert run(method(), tasks, lambda: MLP(4, (6,), 3), rounds=rounds, checkpoint=tmp_path).data.round == rounds


def test_a_finished_run_is_not_trained_further(tmp_path):
    first, count = start(tmp_path), Rounds()
    again = start(tmp_path, callbacks=[count])
    assert count.played == 0
    assert torch.equal(first.stacks.tensors[0], again.stacks.tensors[0])
    assert again.history.seconds == first.history.seconds


def test_a_run_can_be_prolonged(tmp_path):
    start(tmp_path / "a")
    longer, straight = start(tmp_path / "a", rounds=4), start(tmp_path / "b", rounds=4)
    assert torch.equal(longer.stacks.tensors[0], straight.stacks.tensors[0])
    assert longer.history.rounds == [1, 2, 3, 4]


def test_the_history_of_a_prolonged_run_is_that_of_a_straight_one(tmp_path):
    short, long = {"rounds": 2, "evaluate_every": 3}, {"rounds": 4, "evaluate_every": 3}
    assert start(tmp_path / "a", **short).history.rounds == [2]
    longer, straight = start(tmp_path / "a", **long), start(tmp_path / "b", **long)
    assert longer.history.rounds == straight.history.rounds == [3, 4]
    assert len(longer.history.seconds) == 2
    assert longer.history.seconds == sorted(longer.history.seconds)
    assert torch.equal(longer.history.table("val_loss"), straight.history.table("val_loss"))


def test_fewer_rounds_than_were_played_are_refused(tmp_path):
    start(tmp_path, rounds=3)
    with pytest.raises(ValueError, match=r"has played 3 rounds, more than rounds=2: ask for as many or more"):
        start(tmp_path, rounds=2)


@pytest.mark.filterwarnings("ignore:.*never played")
def test_a_later_phase_starts_from_the_same_mixer(tmp_path):
    def begin(seed):
        mixer = Mixer.create(SPEC, seed=seed)
        method = Phases(local(epochs=1), 3, meta_l2c(epochs=1, pretrained=mixer.save(tmp_path / "mixer.safetensors")))
        return start(tmp_path / "run", method=method)

    assert torch.equal(begin(0).stacks.tensors[0], begin(0).stacks.tensors[0])
    with pytest.raises(ValueError, match="differs in pretrained mixers"):
        begin(1)


@pytest.mark.filterwarnings("ignore:.*never played")
def test_a_later_phase_starts_from_the_same_centers(tmp_path):
    def begin(centers, rounds=2):
        return start(tmp_path, rounds, method=Phases(local(epochs=1), 3, ifca(centers=centers)))

    one, two = torch.eye(2, SPEC.num_parameters), torch.eye(2, SPEC.num_parameters)
    two[1, 7] = 1e-3
    begin(one)
    for other in (two, None):
        with pytest.raises(ValueError, match=r"differs in tensors of the method \(.*next\.rewire\.centers"):
            begin(other)
    assert begin(one.clone(), rounds=4).data.round == 4


@pytest.mark.filterwarnings("ignore:.*never played")
def test_tensors_that_came_later_are_noticed(tmp_path):
    start(tmp_path, method=Phases(local(epochs=1), 3, ifca()))
    with pytest.raises(ValueError, match="differs in tensors of the method"):
        start(tmp_path, method=Phases(local(epochs=1), 3, ifca(centers=torch.eye(2, SPEC.num_parameters))))
