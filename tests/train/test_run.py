from __future__ import annotations

import math
import os
import random
import signal
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab import Method, Phases, Tasks, run
from graphcollab.analysis.metrics import Metric
from graphcollab.components import Fit, Judge
from graphcollab.engine import SGD
from graphcollab.methods import fedavg, l2c, local, meta_l2c
from graphcollab.methods.method import NonFiniteLossError
from graphcollab.models import MLP
from graphcollab.persistence import History
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.testing import Scene, differences
from graphcollab.train import Callback, Checkpoint, Compute, Progress, evaluate
from graphcollab.train.evaluation import out_of_patience, remember_best
from tests.raising import raises, warns

QUICK = {"epochs": 1, "lr": 0.1, "batch_size": 4}


def small_tasks(**fields):
    return replace(Scene.small(torch.float32).tasks, **fields)


def make():
    return MLP(4, (6,), 3)


class Calls(Callback):
    """Writes down what is called, and with what."""

    def __init__(self, log=None, name=""):
        self.log, self.name = [] if log is None else log, name

    def on_start(self, data, history, rounds):
        self.log.append((f"{self.name}start", data.round, rounds))

    def on_round(self, data, history):
        self.log.append((f"{self.name}round", data.round))

    def on_evaluate(self, data, history):
        self.log.append((f"{self.name}evaluate", history.rounds[-1]))

    def on_end(self, data, history):
        self.log.append((f"{self.name}end", data.round))


def test_order_of_callbacks_and_evaluations(tmp_path):
    calls = Calls()
    result = run(
        local(**QUICK), small_tasks(), make, rounds=3, evaluate_every=2, callbacks=[calls], checkpoint=tmp_path
    )
    assert calls.log == [
        ("start", 0, 3),
        ("round", 1),
        ("round", 2),
        ("evaluate", 2),
        ("round", 3),
        ("evaluate", 3),
        ("end", 3),
    ]
    assert result.history.rounds == [2, 3]
    more = Calls()
    again = run(local(**QUICK), small_tasks(), make, rounds=4, evaluate_every=2, callbacks=[more], checkpoint=tmp_path)
    assert more.log == [("start", 3, 4), ("round", 4), ("evaluate", 4), ("end", 4)]
    assert again.history.rounds == [2, 4]  # as in one go


def test_callbacks_are_called_in_the_order_given():
    log = []
    run(local(**QUICK), small_tasks(), make, rounds=1, callbacks=[Calls(log, "a "), Calls(log, "b ")])
    names = [entry[0] for entry in log]
    assert names == [f"{who} {what}" for what in ("start", "round", "evaluate", "end") for who in "ab"]


def test_history_per_node_and_round():
    tasks = small_tasks()
    result = run(meta_l2c(**QUICK), tasks, make, rounds=3)
    history = result.history
    assert history.names == tasks.names
    assert sorted(history.values) == ["bytes_sent", "messages_sent", "train_loss", "val_loss", "val_metric"]
    for name in history.values:
        assert history.table(name).shape == (3, 6)
    assert history.seconds == sorted(history.seconds)
    # by hand: the last round's values from the plain modules
    for k, module in enumerate(result.models().values()):
        index = tasks.splits["val"].of(k)
        targets = tasks.pools["train"].targets[index]
        outputs = module(tasks.pools["train"].inputs[index]).detach()
        assert float(history.last("val_loss")[k]) == pytest.approx(float(nn.functional.cross_entropy(outputs, targets)))
        assert float(history.last("val_metric")[k]) == pytest.approx(
            float((outputs.argmax(1) == targets).float().mean())
        )
    model_bytes, codes = 4 * 51, history.last("bytes_sent") / 3
    assert bool((codes > 5 * model_bytes).all())


def test_rounds_do_not_depend_on_evaluations():
    often, rarely = (run(l2c(**QUICK), small_tasks(), make, rounds=4, evaluate_every=n) for n in (1, 4))
    assert differences(often.data, rarely.data) == []
    assert differences(often.history.last("val_loss"), rarely.history.last("val_loss")) == []


def test_same_seed_same_result_other_seed_other_result():
    one, two, three = (run(meta_l2c(**QUICK), small_tasks(), make, rounds=2, seed=seed) for seed in (0, 0, 1))
    assert differences(one.data, two.data) == []
    assert "data.x.tensors.0" in differences(one.data, three.data)


def test_progress_shows_the_metric(capsys):
    run(local(**QUICK), small_tasks(), make, rounds=2, callbacks=[Progress("my bar")])
    shown = capsys.readouterr().err
    assert "my bar" in shown
    assert "accuracy=0." in shown
    run(local(**QUICK), small_tasks(), make, rounds=1)
    assert capsys.readouterr().err == ""


def test_caller_is_left_as_it_was():
    module = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3))
    module[1].eval()  # a caller may have frozen a part
    tasks = small_tasks()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    modes = [m.training for m in module.modules()]
    pools = {name: (pool.inputs.clone(), pool.targets.clone()) for name, pool in tasks.pools.items()}
    torch.manual_seed(5)
    generators = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    threads, grad, dtype = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()
    result = run(fedavg(**QUICK, fraction=0.5), tasks, module, rounds=2, seed=3)
    run(meta_l2c(**QUICK), tasks, make, rounds=1, seed=3)
    assert differences(before, dict(module.state_dict())) == []
    assert [m.training for m in module.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert differences(pools, {name: (pool.inputs, pool.targets) for name, pool in tasks.pools.items()}) == []
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == generators[1:]  # noqa: NPY002
    assert (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()) == (threads, grad, dtype)
    result.model(0)[0].weight.data.zero_()
    assert differences(before, dict(module.state_dict())) == []


def test_a_resumed_run_computes_with_as_many_threads_as_it_began_with(tmp_path):
    class Threads(Callback):
        seen = 0

        def on_round(self, data, history):
            self.seen = torch.get_num_threads()

    now = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run(local(**QUICK), small_tasks(), make, rounds=1, checkpoint=tmp_path)
        torch.set_num_threads(2)
        threads = Threads()
        run(local(**QUICK), small_tasks(), make, rounds=2, checkpoint=tmp_path, callbacks=[threads])
        assert threads.seen == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(now)


def test_off_the_main_thread():
    """Ctrl-C cannot be caught there; all else works."""
    results = []
    thread = threading.Thread(target=lambda: results.append(run(local(**QUICK), small_tasks(), make, rounds=2)))
    thread.start()
    thread.join()
    assert results[0].history.rounds == [1, 2]


class PressControlC(Callback):
    def __init__(self, times):
        self.times = times

    def on_round(self, data, history):
        for _ in range(self.times if data.round == 2 else 0):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def handler():
    """What Python does at Ctrl-C, also where the suite runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_control_c_finishes_the_round_and_saves(handler, tmp_path):
    settings = {"rounds": 5, "checkpoint": Checkpoint(tmp_path, every=4), "evaluate_every": 2}
    calls = Calls()
    result = run(meta_l2c(**QUICK), small_tasks(), make, callbacks=[PressControlC(1), calls], **settings)
    assert result.interrupted
    assert result.history.rounds == [2]
    assert calls.log[-1] == ("end", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000002"]
    assert signal.getsignal(signal.SIGINT) is handler
    resumed = run(meta_l2c(**QUICK), small_tasks(), make, **settings)
    assert not resumed.interrupted
    straight = run(meta_l2c(**QUICK), small_tasks(), make, rounds=5, evaluate_every=2)
    assert differences(straight.data, resumed.data) == []
    assert differences(straight.history.values, resumed.history.values) == []


def test_an_interrupted_run_has_a_summary(handler, tmp_path):
    settings = {"rounds": 5, "checkpoint": tmp_path, "evaluate_every": 3}
    result = run(local(**QUICK), small_tasks(), make, callbacks=[PressControlC(1)], **settings)
    assert result.interrupted
    assert result.history.rounds == [2]
    assert set(result.history.summary("val_metric")) >= {"mean", "worst10"}
    assert run(local(**QUICK), small_tasks(), make, **settings).history.rounds == [3, 5]


def test_control_c_pressed_again_stops_at_once(handler, tmp_path):
    calls = Calls()
    with pytest.raises(KeyboardInterrupt):
        run(local(**QUICK), small_tasks(), make, rounds=5, callbacks=[calls, PressControlC(2)], checkpoint=tmp_path)
    assert calls.log[-1] == ("end", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001"]
    assert signal.getsignal(signal.SIGINT) is handler


# early stopping


def test_early_stopping_returns_the_best_state():
    tasks = small_tasks()
    method = local(epochs=1, lr=0.3, batch_size=4)
    longest = run(method, tasks, make, rounds=25, seed=3)
    values = longest.history.mean("val_metric")
    stop = next(t for t in range(25) if t - max(range(t + 1), key=lambda s: (values[s], -s)) >= 3)
    best = max(range(stop + 1), key=lambda t: (values[t], -t))
    assert 0 < best < stop < 24, "the case must stop early, after getting better"
    result = run(method, tasks, make, rounds=25, seed=3, patience=3)
    assert result.history.rounds[-1] == stop + 1
    assert result.history.returned == best
    straight = run(method, tasks, make, rounds=best + 1, seed=3)
    assert differences(straight.data, result.data) == []
    assert result.history.final("val_metric").equal(straight.history.last("val_metric"))
    assert result.history.summary("val_metric") == straight.history.summary("val_metric")


def test_early_stopping_by_hand():
    data = Scene.small().begin(local())[0]
    history = History(("a", "b"), "mse", False)
    stops = []
    for value in (3.0, math.nan, 2.0, 2.0, 5.0):
        data.round = data.round + 1
        history.add(data.round, 0.0, {"val_metric": torch.tensor([value, value])})
        data = remember_best(data, history)
        stops.append(out_of_patience(data, history, 2))
    assert (data.best["evaluation"], data.best["value"], data.best["state"]["round"]) == (2, -2.0, 3)
    assert stops == [False, False, False, False, True]


def test_of_equal_metrics_the_smaller_loss_is_better():
    """An accuracy of 0.9 all along, as where a class is rare, and losses of 0.4, 0.3, 0.5, 0.3."""
    data, best, stops = Scene.small().begin(local())[0], [], []
    history = History(("a", "b"), "accuracy", True)
    for loss in (0.4, 0.3, 0.5, 0.3):
        data.round = data.round + 1
        history.add(data.round, 0.0, {"val_metric": torch.tensor([0.9, 0.9]), "val_loss": torch.tensor([loss, loss])})
        data = remember_best(data, history)
        best.append(data.best["evaluation"])
        stops.append(out_of_patience(data, history, 2))
    assert best == [0, 1, 1, 1]
    assert stops == [False, False, False, True]


def test_a_metric_without_values_never_is_best():
    data = Scene.small().begin(local())[0]
    history = History(("a",))
    for value in (math.nan, 0.1):
        history.add(1, 0.0, {"val_metric": torch.tensor([value])})
        data = remember_best(data, history)
    assert data.best["evaluation"] == 1


# losses that are not finite


class Poison(Callback):
    """Changes nothing; it makes a node's samples huge when its time comes, so that training blows up."""

    def __init__(self, tasks, node, round_):
        self.inputs, self.index, self.round = tasks.pools["train"].inputs, tasks.splits["train"].of(node), round_

    def on_round(self, data, history):
        if data.round == self.round:
            self.inputs[self.index] = 1e30


def named():
    return small_tasks(names=("ada", "bob", "cy", "dot", "eve", "fay"))


def test_non_finite_loss_names_node_round_and_step_and_keeps_the_checkpoint(tmp_path):
    tasks = named()
    calls = Calls()
    callbacks = [Poison(tasks, 3, 3), calls]
    with raises("diverged", "node 'dot'", "3", kind=NonFiniteLossError):
        run(meta_l2c(**QUICK), tasks, make, rounds=9, checkpoint=Checkpoint(tmp_path, every=1), callbacks=callbacks)
    assert calls.log[-1] == ("end", 3)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["round-000002", "round-000003"]
    data, history, _ = load_checkpoint(tmp_path / files[-1])
    assert history.rounds == [1, 2, 3]
    assert bool(torch.isfinite(data.x.tensors[0]).all())
    resumed = run(meta_l2c(**QUICK), named(), make, rounds=5, checkpoint=tmp_path)
    assert differences(resumed.data, run(meta_l2c(**QUICK), named(), make, rounds=5).data) == []


@pytest.mark.parametrize("method", [meta_l2c(**QUICK), l2c(**QUICK), fedavg(**QUICK), fedavg(**QUICK, fraction=0.7)])
def test_isolated_node_keeps_its_last_good_model(method):
    """That is the last one which was judged on its samples as they were: after a local update, before merging."""
    tasks = named()
    states, learned = {}, {}

    class Keep(Callback):
        def on_round(self, data, history):
            states[data.round] = data.x.tensors[0].clone()

        def before_mixing(self, data, env):
            if bool(data.trains[3]):
                learned["dot"] = data.x.tensors[0][3].clone()

    callbacks = [Keep(), Poison(tasks, 3, 2)]
    with warns("diverged", "node 'dot'"):
        result = run(method, tasks, make, rounds=6, on_nonfinite="isolate", callbacks=callbacks)
    (name, round_) = next(iter(result.history.isolated.items()))
    assert list(result.history.isolated) == ["dot"]
    assert name == "dot"
    assert round_ >= 3
    rows = result.data.x.tensors[0]
    assert torch.equal(rows[3], learned["dot"])
    assert "loss was not finite at local step" in result.history.isolated_because["dot"]
    assert bool(torch.isfinite(rows).all())
    assert bool((rows[[0, 1, 2, 4, 5]] != states[round_ - 1][[0, 1, 2, 4, 5]]).any())
    sender, receiver = result.data.edge_index
    assert not bool(((sender == 3) ^ (receiver == 3)).any())
    assert bool(torch.isfinite(result.data.edge_weight).all())
    assert math.isnan(result.history.last("train_loss")[3])
    assert math.isfinite(result.history.mean("train_loss")[-1])


def test_isolation_survives_a_resume(tmp_path):
    def play(folder, rounds):
        tasks = named()
        tasks.pools["train"].inputs[tasks.splits["train"].of(3)] = 1e30
        return run(meta_l2c(**QUICK), tasks, make, rounds=rounds, on_nonfinite="isolate", checkpoint=folder)

    with warns("diverged", "node 'dot'", "0"):
        play(tmp_path / "a", 2)
    resumed = play(tmp_path / "a", 4)  # warnings are errors here: it is said once
    with warns("diverged", "node 'dot'"):
        straight = play(tmp_path / "b", 4)
    assert resumed.history.isolated == {"dot": 1}
    assert differences(straight.data, resumed.data) == []


# warnings of the start


class Warns(Judge):
    """Has something to say when it is started."""

    def init(self, data, env):
        warnings.warn(f"round {data.round}: something is odd", RuntimeWarning, stacklevel=2)
        return data


def test_a_resumed_run_does_not_repeat_what_its_start_said(tmp_path):
    method = local(**QUICK).replace(judge=Warns())
    with pytest.warns(RuntimeWarning, match="round 0: something is odd") as said:
        run(method, small_tasks(), make, rounds=1, checkpoint=tmp_path)
    assert len(said) == 1
    run(method, small_tasks(), make, rounds=3, checkpoint=tmp_path)  # warnings are errors here
    with pytest.warns(RuntimeWarning, match="round 0: something is odd"):
        run(method, small_tasks(), make, rounds=1, checkpoint=Checkpoint(tmp_path, resume=False))


@pytest.mark.filterwarnings("ignore:.*never played")
def test_a_later_phase_warns_when_its_time_comes(tmp_path):
    method = Phases(local(**QUICK), 2, local(**QUICK).replace(judge=Warns()))
    run(method, small_tasks(), make, rounds=2, checkpoint=tmp_path)
    with pytest.warns(RuntimeWarning, match="round 2: something is odd") as said:
        run(method, small_tasks(), make, rounds=3, checkpoint=tmp_path)
    assert len(said) == 1
    run(method, small_tasks(), make, rounds=4, checkpoint=tmp_path)


# errors while judging


BROKEN = "GRAPHCOLLAB_TEST_BROKEN_ROUND"  # in the environment: values that code reads itself are part of what a run is


class Fragile(Judge):
    """Cannot be judged after some round as long as the world is broken."""

    def __call__(self, data, env):
        if str(data.round) == os.environ.get(BROKEN):
            raise RuntimeError("cannot be judged")
        return data.x


class FailsAt(Callback):
    def __init__(self, round_):
        self.round = round_

    def on_evaluate(self, data, history):
        if data.round == self.round:
            raise RuntimeError("cannot be judged")


@pytest.mark.parametrize(
    ("way", "patience", "rounds", "broken"),
    [
        ("model", None, 6, 4),
        ("model", 2, 5, 5),
        ("callback", 2, 6, 4),
        ("callback", 2, 4, 4),
        ("callback", None, 5, 5),
    ],
)
def test_an_error_while_judging_loses_no_round(tmp_path, monkeypatch, way, patience, rounds, broken):
    method = local(epochs=1, lr=0.3, batch_size=4).replace(judge=Fragile())
    settings = {"rounds": rounds, "evaluate_every": 2, "patience": patience}
    straight = run(method, small_tasks(), make, **settings)
    assert broken in straight.history.rounds
    callbacks = [] if way == "model" else [FailsAt(broken)]
    if way == "model":
        monkeypatch.setenv(BROKEN, str(broken))
    with pytest.raises(RuntimeError, match="cannot be judged"):
        run(method, small_tasks(), make, checkpoint=Checkpoint(tmp_path, every=10), callbacks=callbacks, **settings)
    assert [path.name for path in tmp_path.iterdir()] == [f"round-{broken:06d}"]
    monkeypatch.delenv(BROKEN, raising=False)
    calls = Calls()
    resumed = run(method, small_tasks(), make, checkpoint=tmp_path, callbacks=[calls], **settings)
    assert calls.log[:2] == [("start", broken, rounds), ("evaluate", broken)]
    assert differences(straight.data, resumed.data) == []
    assert differences(straight.history.values, resumed.history.values) == []
    assert (straight.history.rounds, straight.history.returned) == (resumed.history.rounds, resumed.history.returned)
    again = run(method, small_tasks(), make, checkpoint=tmp_path, **settings)  # what was made up for is saved
    assert differences(straight.history.values, again.history.values) == []


# evaluation


def test_nodes_without_test_data_have_no_value():
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    some, none = (x[:6], y[:6]), (x[:0], y[:0])
    for test in ([some, none, some], [none, some, none], [some, none, none]):
        tasks = Tasks.from_samples([(x, y)] * 3, test=test)
        history = run(local(**QUICK), tasks, make, rounds=1).history
        empty = [len(t[0]) == 0 for t in test]
        assert history.last("test_metric").isnan().tolist() == empty
        assert history.last("test_loss").isnan().tolist() == empty
        assert history.summary()["ignored"] == sum(empty)
        assert math.isfinite(history.mean("test_metric")[0])


def test_evaluate_does_not_train():
    scene = Scene.small()
    data, env = scene.play(local())
    before = data.x.tensors[0].clone()
    values = evaluate(local(), data, env, Metric.per_node("one", True, lambda outputs, targets: 1.0))
    assert torch.equal(before, data.x.tensors[0])
    assert values["val_metric"].tolist() == [1.0] * 6


def test_personal_models_are_the_ones_judged():
    class Zero(Judge):
        def __call__(self, data, env):
            return data.x.map(torch.zeros_like)

    result = run(Method("zero", Fit(optimizer=SGD(lr=0.1)), judge=Zero()), small_tasks(), make, rounds=2, patience=1)
    assert all(not bool(p.any()) for module in result.models().values() for p in module.parameters())
    assert result.history.last("val_loss").tolist() == pytest.approx([math.log(3)] * 6)
    assert bool(result.data.x.tensors[0].any())


def test_models_are_made_once_however_often_they_are_asked_for():
    class Count(Judge):
        made = 0

        def __call__(self, data, env):
            Count.made += 1
            return data.x

    result = run(local(**QUICK).replace(judge=Count()), small_tasks(), make, rounds=1)
    Count.made = 0
    models = result.models()
    assert result.graph().x is not None
    assert torch.equal(models["node 2"](torch.ones(1, 4)), result.model(2)(torch.ones(1, 4)))
    assert models["node 2"] is not result.model(2)
    assert result.stacks is result.stacks
    assert Count.made == 1


@pytest.mark.parametrize("method", [local(), fedavg()], ids=["local", "fedavg"])
def test_methods_that_send_nothing_along_edges_get_none(method):
    samples = [(torch.randn(6, 2), torch.randint(2, (6,)))] * 3
    result = run(method, Tasks.from_samples(samples), torch.nn.Linear(2, 2), rounds=1)
    assert result.data.edge_index.shape == (2, 0)


def test_cloning_and_moving_a_state_takes_its_models_along():
    samples = [(torch.randn(6, 2), torch.randint(2, (6,)))] * 3
    data = run(fedavg(), Tasks.from_samples(samples), torch.nn.Linear(2, 2), rounds=1).data
    other = data.clone()
    assert other.x is not data.x
    assert other.x.part("all").data_ptr() != data.x.part("all").data_ptr()
    assert other.server.values.data_ptr() != data.server.values.data_ptr()
    assert torch.equal(other.x.part("all"), data.x.part("all"))
    assert torch.equal(data.cpu().x.part("all"), other.x.part("all"))


# settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": "3"}, ("value", "rounds", "'3'")),
        ({"rounds": 0}, ("value", "rounds")),
        ({"evaluate_every": 2.5}, ("value", "evaluate_every", "2.5")),
        ({"patience": True}, ("value", "patience")),
        ({"compute": {"chunk": 1}}, ("value", "compute", "Compute(...)")),
        ({"callbacks": [print]}, ("value", "callbacks")),
        ({"on_nonfinite": "skip"}, ("value", "on_nonfinite", "'stop'")),
        ({"architecture": [0.7] * 6}, ("value", "architecture")),
        ({"checkpoint": 3}, ("value", "checkpoint")),
        ({"method": fedavg}, ("value", "method")),
        ({"tasks": [1]}, ("value", "tasks")),
        ({"graph": [[0], [1]]}, ("value", "graph")),
    ],
)
def test_settings_are_checked_before_anything_else(settings, message):
    with raises(*message):
        run(**{"method": local(**QUICK), "tasks": small_tasks(), "model": make, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chunk": -1}, ("value", "chunk")),
        ({"backend": "fast"}, ("value", "backend", "'auto'", "'vmap'", "'loop'")),
        ({"autocast": "no"}, ("value", "autocast", "'no'")),
    ],
)
def test_settings_of_computing_are_checked(settings, message):
    with raises(*message):
        Compute(**settings)


def test_settings_that_do_not_exist():
    with raises("type", "round", "'rounds'", kind=TypeError):
        run(local(**QUICK), small_tasks(), make, round=3)
