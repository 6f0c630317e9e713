from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from graphcollab import Tasks, compare
from graphcollab._base.errors import OtherRunError
from graphcollab.analysis import Comparison
from graphcollab.analysis.compare import _choose
from graphcollab.analysis.trial import Trial
from graphcollab.methods import fedavg, fedavg_finetuned, fomo, local
from graphcollab.methods.method import NonFiniteLossError
from graphcollab.models import MLP
from graphcollab.persistence.lock import hold_folder
from graphcollab.testing import differences
from graphcollab.train import Callback
from graphcollab.transforms import Complete
from tests.raising import raises, warns

METHODS = {"local": partial(local, epochs=1, batch_size=5), "fedavg": partial(fedavg, epochs=1, batch_size=5)}
LRS = [0.001, 0.3]


def make_tasks(seed, flip_tests=False):
    draw = torch.Generator().manual_seed(seed)
    nodes = []
    for _ in range(4):
        x = torch.randn(40, 3, generator=draw)
        nodes.append((x, (x[:, 0] > 0).long()))
    test = [(x, 1 - y if flip_tests else y) for x, y in nodes]
    return Tasks.from_samples(nodes, test=test, seed=seed)


def make():
    return MLP(3, (4,), 2)


def compare_methods(tasks=make_tasks, methods=METHODS, seeds=(0, 1), grids=None, **settings):
    return compare(methods, tasks, make, seeds, grids, **{"rounds": 3, **settings})


@pytest.fixture(scope="module")
def comparison():
    return compare_methods(grids={"*": {"lr": LRS}})


def test_every_setting_is_tried_on_every_seed(comparison):
    tried = [(t.method, t.seed, t.setting["lr"]) for t in comparison.trials]
    assert sorted(tried) == sorted((m, s, lr) for m in METHODS for s in (0, 1) for lr in LRS)
    assert [t.seed for t in comparison.chosen["local"]] == [0, 1]


def test_the_choice_is_best_on_validation_data(comparison):
    for name, chosen in comparison.chosen.items():
        means = {
            lr: sum(t.validation for t in comparison.trials if t.method == name and t.setting["lr"] == lr) for lr in LRS
        }
        assert chosen[0].setting["lr"] == max(LRS, key=means.get) == 0.3
        assert comparison.results[name].history.mean("val_metric")[-1] == chosen[-1].validation


def test_test_data_do_not_influence_the_choice(comparison):
    """With all test labels wrong, the chosen setting looks worst on test data, and is chosen still."""
    wrong = compare_methods(lambda seed: make_tasks(seed, flip_tests=True), grids={"*": {"lr": LRS}})
    for name in METHODS:
        assert [t.setting for t in wrong.chosen[name]] == [t.setting for t in comparison.chosen[name]]
        best = max((t for t in wrong.trials if t.method == name), key=lambda t: t.summary["mean"])
        assert best.setting["lr"] == 0.001
    assert differences([t.validation for t in wrong.trials], [t.validation for t in comparison.trials]) == []


def trial(seed, setting, validation, mean=0.0):
    return Trial("m", seed, {"lr": setting}, validation, {"mean": mean})


def test_the_choice_is_pooled_over_seeds():
    #            seed 7   seed 3   pooled
    # lr 1         .9       .1       .5
    # lr 2         .7       .5       .6
    # lr 3         .1       .6       .35
    table = {1: (0.9, 0.1), 2: (0.7, 0.5), 3: (0.1, 0.6)}
    trials = [trial(seed, lr, table[lr][k], mean=-table[lr][k]) for k, seed in enumerate((7, 3)) for lr in table]
    points = [{"lr": lr} for lr in table]
    assert [(t.seed, t.setting["lr"]) for t in _choose(trials, points, True)] == [(7, 2), (3, 2)]
    assert [t.setting["lr"] for t in _choose(trials, points, False)] == [3, 3]


def test_a_setting_without_a_value_is_the_worst_and_ties_go_to_the_first():
    trials = [trial(0, 1, math.nan), trial(0, 2, 0.2), trial(0, 3, 0.2)]
    points = [{"lr": lr} for lr in (1, 2, 3)]
    assert _choose(trials, points, True)[0].setting["lr"] == 2
    assert _choose(trials, points, False)[0].setting["lr"] == 2


def test_paired_statistics_by_hand():
    def chosen(values):
        return [Trial("m", s, {}, 0.0, {"mean": v, "worst10": v / 2}) for s, v in enumerate(values)]

    comparison = Comparison([], {"a": chosen([0.80, 0.90, 0.85]), "b": chosen([0.78, 0.85, 0.82])}, True)
    # differences .02 .05 .03: mean .03333, std .0152753, t(.975, 2) = 4.302653, half width .0379460
    paired = comparison.paired("a", "b")
    assert paired.n == 3
    assert paired.mean == pytest.approx(0.1 / 3)
    assert paired.std == pytest.approx(0.0152753, abs=1e-6)
    assert (paired.low, paired.high) == pytest.approx((-0.0046126, 0.0712793), abs=1e-6)
    assert comparison.paired("b", "a", column="worst10").mean == pytest.approx(-0.05 / 3)


def test_comparisons_of_different_methods_can_be_joined(comparison):
    parts = [compare_methods(methods={name: METHODS[name]}, grids={"*": {"lr": LRS}}) for name in METHODS]
    joined = Comparison.join(parts)
    assert list(joined.chosen) == list(joined.results) == list(METHODS)
    for name in METHODS:
        assert joined.values(name) == comparison.values(name)
    assert joined.paired("local", "fedavg") == comparison.paired("local", "fedavg")
    assert len(joined.trials) == len(comparison.trials)


def test_what_cannot_be_joined_is_refused(comparison):
    whole, quick = {"local": METHODS["local"]}, {"quick": METHODS["local"]}
    one, seeds = compare_methods(methods=quick), compare_methods(methods=quick, seeds=(1, 0))
    other = compare_methods(methods=quick, tasks=lambda seed: make_tasks(seed, flip_tests=seed == 1))
    with raises("duplicate", "comparisons", "'local'"):
        Comparison.join([comparison, compare_methods(methods=whole)])
    with raises("mismatch", "seeds", "'local'", "0", "1", "'quick'"):
        Comparison.join([comparison, seeds])
    with raises("mismatch", "tasks", "'local'", "'quick'", "1"):
        Comparison.join([comparison, other])
    with raises("mismatch", "comparisons", "'accuracy'", "'auc'"):
        Comparison.join([comparison, replace(one, metric="auc")])
    with raises("mismatch", "comparisons"):
        Comparison.join([])
    assert list(Comparison.join([comparison, one]).chosen) == ["local", "fedavg", "quick"]


def test_comparisons_on_different_seeds_can_be_joined(comparison):
    grids = {"*": {"lr": [0.3]}}
    parts = [compare_methods(seeds=(seed,), grids=grids) for seed in (0, 1)]
    joined = Comparison.join(parts)
    assert joined.values("local") == comparison.values("local")
    assert joined.results["local"] is parts[1].results["local"]
    with raises("duplicate", "comparisons", "'local'"):
        Comparison.join([parts[0], parts[0]])
    with raises("mismatch", "seeds"):
        Comparison.join([parts[0], compare_methods(seeds=(1,), methods={"local": METHODS["local"]})])


def test_rows(comparison):
    row = comparison.rows()["local"]
    values = [t.summary["mean"] for t in comparison.chosen["local"]]
    assert row["mean"] == pytest.approx(sum(values) / 2)
    assert row["mean_std_over_seeds"] == pytest.approx(abs(values[0] - values[1]) / math.sqrt(2))
    assert row["settings"] == [{"lr": 0.3}] * 2
    assert [entry["seed"] for entry in row["per_seed"]] == [0, 1]
    assert math.isnan(compare_methods(seeds=(0,)).rows()["local"]["mean_std_over_seeds"])


def test_methods_meet_the_same_tasks_and_initial_models():
    class Start(Callback):
        def __init__(self):
            self.seen = []

        def on_start(self, data, history, rounds):
            self.seen.append(data.x.tensors[0].clone())

    start = Start()
    compare_methods(callbacks=[start])
    a, b, c, d = start.seen  # seed 0: local, fedavg; seed 1: local, fedavg
    assert torch.equal(a, b)
    assert torch.equal(c, d)
    assert not torch.equal(a, c)


def test_is_deterministic(comparison):
    again = compare_methods(grids={"*": {"lr": LRS}})

    def plain(trials):
        return [(t.method, t.seed, dict(t.setting), t.validation, {**t.summary, "seconds": 0}) for t in trials]

    assert differences(plain(comparison.trials), plain(again.trials)) == []


def test_seeds_in_any_order_are_paired():
    mixed = compare_methods(seeds=(5, 2), grids={"local": {"lr": LRS}})
    assert [t.seed for t in mixed.chosen["local"]] == [t.seed for t in mixed.chosen["fedavg"]] == [5, 2]


def test_every_method_can_have_its_edges():
    comparison = compare_methods(seeds=(0,), graphs={"fedavg": Complete()})
    assert comparison.results["local"].data.edge_index.shape[1] == 0
    assert comparison.results["fedavg"].data.edge_index.shape[1] == 12


def test_early_stopping_is_judged_by_the_returned_models():
    comparison = compare_methods(seeds=(0,), rounds=12, patience=2, grids={"local": {"lr": [0.3]}})
    history = comparison.results["local"].history
    trial = comparison.chosen["local"][0]
    assert trial.validation == max(history.mean("val_metric"))
    assert trial.summary["mean"] == history.mean("test_metric")[history.returned]


def test_on_trial_counts():
    seen = []
    compare_methods(
        on_trial=lambda trial, result, number, total: seen.append((trial.method, result.data.round, number, total))
    )
    assert seen == [("local", 3, 1, 4), ("fedavg", 3, 2, 4), ("local", 3, 3, 4), ("fedavg", 3, 4, 4)]


def test_a_setting_that_diverges_counts_as_the_worst():
    with warns("diverged", "method 'local'", "0"):
        comparison = compare_methods(
            seeds=(0,), methods={"local": METHODS["local"]}, grids={"local": {"lr": [1e30, 0.3]}}
        )
    assert [math.isnan(t.validation) for t in comparison.trials] == [True, False]
    assert comparison.chosen["local"][0].setting["lr"] == 0.3
    for lrs in ([1e30], [1e30, 1e31]):
        with (
            raises("diverged", "node 'node 0'", kind=NonFiniteLossError),
            warns("diverged", "method 'local'"),
        ):
            compare_methods(seeds=(0,), methods={"local": METHODS["local"]}, grids={"local": {"lr": lrs}})


def test_a_setting_whose_fine_tuning_diverges_counts_as_the_worst():
    grid = {"finetune_lr": [1e30, 0.3], "finetune_epochs": [3]}
    with warns("diverged", "method 'tuned'", "3", "0"):
        comparison = compare_methods(seeds=(0,), methods={"tuned": fedavg_finetuned}, grids={"tuned": grid})
    assert [math.isnan(t.validation) for t in comparison.trials] == [True, False]
    assert comparison.chosen["tuned"][0].setting["finetune_lr"] == 0.3


def test_a_trial_that_fails_takes_no_other_with_it():
    class Fail(Callback):
        runs = 0

        def on_start(self, data, history, rounds):
            self.runs += 1
            if self.runs in (3, 6):
                raise RuntimeError("no such layer")

    seen = []
    with warns("error", "method 'fedavg'"):
        found = compare_methods(
            grids={"fedavg": {"lr": [0.3, 0.001]}},
            callbacks=[Fail()],
            on_trial=lambda trial, result, number, total: seen.append((trial.failure, result is None, number, total)),
        )
    failure = "RuntimeError: no such layer"
    assert [s[:2] for s in seen] == [("", False)] * 2 + [(failure, True)] + [("", False)] * 2 + [(failure, True)]
    assert [s[2:] for s in seen] == [(n, 6) for n in range(1, 7)]
    assert [t.setting["lr"] for t in found.chosen["fedavg"]] == [0.3, 0.3], "it never failed; the other did, twice"
    assert set(found.results) == {"local", "fedavg"}


def test_few_failures_come_before_good_values():
    nan = math.nan
    trials = [
        trial(s, lr, v)
        for lr, many in {1: (nan, nan), 2: (0.9, nan), 3: (0.1, 0.2)}.items()
        for s, v in enumerate(many)
    ]
    points = [{"lr": lr} for lr in (1, 2, 3)]
    assert _choose(trials, points, True)[0].setting["lr"] == 3
    assert _choose([t for t in trials if t.setting["lr"] < 3], points[:2], True)[0].setting["lr"] == 2


def test_a_method_all_of_whose_settings_fail_is_kept_as_failed():
    methods = {"local": METHODS["local"], "wild": partial(local, lr=1e30, epochs=2)}
    with warns("diverged", "method 'wild'"):
        found = compare_methods(methods=methods)
    assert [bool(t.failure) for t in found.chosen["wild"]] == [True, True]
    assert set(found.results) == {"local"}
    rows = found.rows()
    assert rows["wild"]["failed"] == 2
    assert rows["local"]["failed"] == 0
    assert math.isnan(rows["wild"]["mean"])
    assert "NonFiniteLossError" in rows["wild"]["per_seed"][0]["failure"]
    assert len(found.failed("wild")) == 2
    assert found.improved("wild") == pytest.approx([math.nan] * 2, nan_ok=True)
    with raises("missing", "method 'wild'", "0"):
        found.paired("local", "wild")


def test_an_error_names_method_setting_and_seed():
    with pytest.raises(ValueError, match="lambda") as caught:
        compare_methods(methods={"local": METHODS["local"]}, seeds=(3,), callbacks=[Broken()])
    assert caught.value.__notes__ == ["in trial 1 of 1: method 'local' with {} on seed 3"]


class Broken(Callback):
    def on_start(self, data, history, rounds):
        raise ValueError("lambda")


def test_seeds_without_tasks_fail_alone():
    def missing(seed):
        if seed == 1:
            raise LookupError("no such seed")
        return make_tasks(seed)

    with warns("error", "method 'local'", "1"):
        found = compare_methods(missing, seeds=(0, 1, 2))
    assert [bool(t.failure) for t in found.chosen["fedavg"]] == [False, True, False]


def test_a_stopped_comparison_goes_on_where_it_was(tmp_path):
    class Stop(Callback):
        left = 5

        def on_round(self, data, history):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt("power cut")

    with pytest.raises(KeyboardInterrupt, match="power cut"):
        compare_methods(checkpoint=tmp_path, callbacks=[Stop()])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fedavg-0-seed-0", "local-0-seed-0"]
    count = Stop()
    count.left = 0
    resumed = compare_methods(checkpoint=tmp_path, callbacks=[count])
    assert -count.left == 12 - 4  # of four runs with three rounds, four rounds were saved
    straight = compare_methods()
    values = [[t.summary["mean"] for t in c.trials] for c in (resumed, straight)]
    assert values[0] == values[1]


def test_an_interrupted_comparison_returns_nothing(monkeypatch):
    module = sys.modules["graphcollab.analysis.trials"]
    whole = module.run
    monkeypatch.setattr(module, "run", lambda *a, **k: replace(whole(*a, **k), interrupted=True))
    with pytest.raises(KeyboardInterrupt, match=r"method 'local' with \{\} on seed 0"):
        compare_methods()


def nothing(seed):
    raise AssertionError("arguments are checked first")


BAD = {
    "grid of an unknown method": (
        {"grids": {"lokal": {"lr": [1.0]}}},
        ValueError,
        ("unknown", "grids", "'lokal'", "'local'"),
    ),
    "misspelt": ({"bugdet": 30}, TypeError, ("type", "bugdet", "'budget'")),
    "an argument that is not passed on": ({"seed": 3}, TypeError, ("type", "seed", "'seeds'")),
    "budget": ({"budget": "step"}, ValueError, ("value", "budget", "'steps'", "'step'")),
    "graph of an unknown method": ({"graphs": {"lokal": None}}, ValueError, ("unknown", "graphs", "'lokal'")),
    "no seeds": ({"seeds": ()}, ValueError, ("value", "seeds")),
    "double seeds": ({"seeds": (1, 1)}, ValueError, ("value", "seeds")),
    "no methods": ({"methods": {}}, ValueError, ("empty", "methods")),
    "empty grid": ({"grids": {"local": {"lr": []}}}, ValueError, ("value", "grids", "'local'", "'lr'")),
    "no list": ({"grids": {"*": {"lr": 0.1}}}, ValueError, ("value", "grids", "'lr'", "0.1")),
    "unknown setting": ({"grids": {"local": {"rate": [1.0]}}}, TypeError, ("type", "rate")),
    "bad value": ({"grids": {"local": {"lr": [-1.0]}}}, ValueError, ("value", "lr")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(case):
    arguments, kind, message = BAD[case]
    with raises(*message, kind=kind):
        compare_methods(nothing, **arguments)


def test_a_function_that_makes_no_tasks_is_refused():
    with raises("type", "tasks", "0", "3", kind=TypeError):
        compare_methods(lambda seed: 3, seeds=(0,))


def test_missing_samples():
    with raises("empty", "tasks"):
        compare_methods(lambda seed: Tasks.from_samples([(torch.zeros(4, 3), torch.zeros(4).long())] * 2))
    bare = Tasks.from_samples([(torch.zeros(4, 3), torch.zeros(4).long())] * 2, val_fraction=0)
    bare = replace(bare, splits={**bare.splits, "test": bare.splits["train"]})
    with raises("empty", "tasks"):
        compare_methods(lambda seed: bare, grids={"local": {"lr": LRS}})
    assert math.isnan(compare_methods(lambda seed: bare, seeds=(0,)).chosen["local"][0].validation)


def test_a_method_that_lacks_data_is_refused_before_another_is_run():
    x, y = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    tasks = Tasks.from_samples([(x, y)] * 3, test=[(x, y)] * 3, val_fraction=0.0)
    ran = []
    with raises("empty", "split 'val'"):
        compare(
            {"local": local, "fomo": partial(fomo, samples=2)},
            lambda seed: tasks,
            nn.Linear(3, 2),
            seeds=[0],
            rounds=1,
            on_trial=lambda *_: ran.append(1),
        )
    assert not ran


def test_a_folder_that_is_not_the_comparisons_own_is_no_failed_trial(tmp_path):
    compare_methods(seeds=[0], checkpoint=tmp_path)
    with (
        hold_folder(tmp_path / "fedavg-0-seed-0"),
        raises("in-use", f"folder {tmp_path / 'fedavg-0-seed-0'}"),
    ):
        compare_methods(seeds=[0], checkpoint=tmp_path)
    other = {**METHODS, "fedavg": partial(fedavg, epochs=2, batch_size=5)}
    with raises("other-run", "method.local.epochs", kind=OtherRunError):
        compare_methods(methods=other, seeds=[0], checkpoint=tmp_path)


def test_settings_with_which_nodes_are_left_behind_come_last():
    def trial(lr, validation, isolated):
        return Trial("local", 0, {"lr": lr}, validation, {"mean": 0.5, **({"isolated": isolated} if isolated else {})})

    trials = [trial(0.1, 0.6, 0), trial(0.5, 0.9, 1), trial(0.2, 0.7, 0)]
    points = [dict(t.setting) for t in trials]
    assert _choose(trials, points, True)[0].setting == {"lr": 0.2}
    assert _choose(trials[1:2], points[1:2], True)[0].setting == {"lr": 0.5}


def patients(seed):
    """A table with a category so rare that few splits train on it."""
    rows = {"site": ["a", "b"] * 15, "x": range(30), "sex": ["f", "m"] * 14 + ["f", "x"], "y": [0, 1, 1] * 10}
    return Tasks.from_frame(rows, seed=seed)


def test_inputs_that_differ_between_seeds():
    widths = [len(patients(seed).preparation.features) for seed in (0, 1, 2)]
    assert set(widths) == {3, 4}
    odd = widths.index(next(width for width in widths if width != widths[0]))
    with raises("mismatch", "model"):
        compare(METHODS, patients, seeds=(0, odd), rounds=2, model=nn.Linear(widths[0], 2))
    found = compare(METHODS, patients, seeds=(0, odd), rounds=2, model=lambda tasks: nn.Linear(tasks.input_shape[0], 2))
    assert len(found.chosen["local"]) == 2
    assert not found.failed("local")
    kept = patients(0).preparation
    again = lambda seed: Tasks.from_frame(  # noqa: E731
        {"site": ["a", "b"] * 6, "x": range(12), "sex": ["f", "m"] * 6, "y": [0, 1, 1] * 4},
        seed=seed,
        preparation=kept,
        refit=True,
    )
    assert len(compare(METHODS, again, nn.Linear(len(kept.features), 2), (0, 1), rounds=2).trials) == 2 * len(METHODS)
