"""Methods that are compared do the same work."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from graphcollab import Phases, Tasks, compare, report, run
from graphcollab.analysis.budget import ROUNDS, Spending, spend
from graphcollab.components import FitPersonal, Local
from graphcollab.methods import cga, cobo, ditto, dpsgd, fedavg, fedavg_finetuned, local, meta_l2c
from tests.raising import raises

SIZES = [10, 25]


def make_tasks(seed: int = 0) -> Tasks:
    """Two nodes with 10 and 25 training samples, that is one step and three of batches of ten."""
    draw = torch.Generator().manual_seed(seed)
    nodes = [(x, (x[:, 0] > 0).long()) for x in (torch.randn(n, 3, generator=draw) for n in SIZES)]
    return Tasks.from_samples(nodes, nodes, nodes)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("method", "steps", "models"),
    [
        (local(epochs=5), [5, 15], 1),
        (local(epochs=1, batch_size=4), [3, 7], 1),
        (local(steps=7), [7, 7], 1),
        (cobo(), [1, 1], 1),
        (dpsgd(), [1, 1], 1),
        (cga(), [1, 1], 1),
        (ditto(epochs=2, batch_size=10), [2, 6], 2),
        (meta_l2c(epochs=1), [1, 3], 2),
        (fedavg_finetuned(epochs=1), [1, 3], 1),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_steps_of_a_round_by_hand(method, steps, models) -> None:
    assert method.local_steps(torch.tensor(SIZES), 1).tolist() == steps
    assert method.local_steps(torch.tensor(SIZES), 4).tolist() == [4 * n for n in steps]
    assert method.models_trained == models


def test_steps_are_those_that_are_taken() -> None:
    result = run(dpsgd(epochs=2, batch_size=10, momentum=0.5), make_tasks(), model(), rounds=3)
    if "fit_step" in result.data:
        taken = result.data.fit_step.tolist()
        assert result.method.local_steps(torch.tensor(SIZES), 3).tolist() == taken == [6, 18]


def test_steps_of_phases_by_hand() -> None:
    sizes = torch.tensor(SIZES)
    two = Phases(local(steps=2), 3, Phases(local(steps=5), 6, ditto(epochs=1, batch_size=10)))
    assert [two.local_steps(sizes, rounds)[0].item() for rounds in (1, 3, 4, 6, 8)] == [2, 6, 11, 21, 23]
    assert two.models_trained == 2


def spent(methods, budget="steps", rounds=ROUNDS, every=1) -> list[tuple[int, int]]:
    many = spend(list(methods.items()), make_tasks(), budget, rounds, every)
    return [(one.rounds, one.evaluate_every) for one in many]


def test_rounds_by_hand() -> None:
    # a round of the first is (5 + 15) / 2 = 10 steps, of the others 1 and 3
    methods = {"local": local(epochs=5), "cobo": cobo(), "three": local(steps=3)}
    assert spent(methods, rounds=6) == [(6, 1), (60, 10), (20, 3)]
    assert spent(methods, rounds=6, every=2) == [(6, 2), (60, 20), (20, 7)]
    assert spent(methods, budget="rounds", rounds=6, every=2) == [(6, 2)] * 3
    assert spent(methods, budget=30) == [(3, 1), (30, 10), (10, 3)]
    assert spent(methods, budget=5) == [(1, 1), (5, 5), (2, 2)]  # a round of ten is half a round too much
    assert spent(methods, budget={"local": 2, "cobo": 9, "three": 1}, every=4) == [(2, 4), (9, 4), (1, 4)]
    assert spent({"cobo": cobo()}, rounds=6) == [(6, 1)]
    assert spent(methods)[:2] == [(100, 1), (1000, 10)]


def test_the_nearest_number_of_rounds_is_taken() -> None:
    methods = {"ten": local(steps=10), "four": local(steps=4), "seven": local(steps=7)}
    assert spent(methods, rounds=1) == [(1, 1), (2, 2), (1, 1)]
    assert spent(methods, rounds=3) == [(3, 1), (7, 2), (4, 1)]
    phases = Phases(local(steps=1), 5, local(steps=10))
    assert spent({"ten": local(steps=10), "phases": phases}, rounds=3) == [(3, 1), (7, 2)]


class Silent(Local):
    """A local update that does not say how many steps it takes."""

    def __call__(self, data, env):
        return data


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"budget": 5, "rounds": 3}, ("conflict", "budget", "budget=5", "rounds=3")),
        ({"budget": {"a": 1, "b": 1}, "rounds": 3}, ("conflict", "budget", "rounds=3")),
        ({"budget": {"a": 1, "c": 1}}, ("mismatch", "budget", "['b', 'c']")),
        ({}, ("missing", "method 'b'")),
    ],
)
def test_what_cannot_be_kept(settings, told) -> None:
    methods = {"a": local, "b": lambda: local().replace(local=Silent())}
    with raises(*told):
        compare(methods, make_tasks, model, [0], **settings)
    with raises("value", "budget", "'epochs'"):
        compare({"a": local}, make_tasks, model, [0], budget="epochs")


@pytest.mark.parametrize("budget", [1, 4])
def test_a_budget_below_half_a_round_cannot_be_kept(budget) -> None:
    with raises("too-few", "budget", "'local'", "10 local steps", f"budget of {budget}"):
        compare({"cobo": cobo, "local": partial(local, epochs=5)}, make_tasks, model, [0], budget=budget)


class Idle(Silent):
    """A local update that says that it takes no steps."""

    def local_steps(self, sizes):
        return torch.zeros(len(sizes), dtype=torch.float64)


@pytest.mark.parametrize("budget", ["steps", 7])
def test_a_method_without_steps_cannot_be_given_as_many(budget) -> None:
    idle = local().replace(local=Idle())
    with raises("contract", "method 'idle'"):
        spent({"local": local(steps=2), "idle": idle}, budget=budget)
    later = Phases(idle, 3, local(steps=2))
    assert spent({"local": local(steps=2), "later": later}, rounds=4) == [(4, 1), (7, 2)]


def test_a_comparison_gives_equal_work_and_shows_it() -> None:
    methods = {"local": partial(local, epochs=5), "cobo": cobo, "ditto": partial(ditto, steps=2)}
    found = compare(methods, make_tasks, model, [0], rounds=2, evaluate_every=1)
    assert {name: many[0].curve[0] for name, many in found.chosen.items()} == {
        "local": [1, 2],
        "cobo": [10, 20],
        "ditto": [5, 10],
    }
    assert {many[0].local_steps for many in found.chosen.values()} == {20.0}
    lines = str(report.results_table(found)).splitlines()
    assert "rounds  local steps  models  sent per site" in lines[0]
    told = lines[3].split()  # of CoBo, which sends "… kB"
    assert told[-6:-3] == ["20", "20", "1"]
    rows = found.rows()
    assert (rows["ditto"]["rounds"], rows["ditto"]["local_steps"], rows["ditto"]["models"]) == (10, 20, 2)
    assert '"local_steps": 20.0' in report.results_json(found)


def test_settings_that_take_more_steps_get_fewer_rounds() -> None:
    found = compare({"fedavg": fedavg}, make_tasks, model, [0], {"fedavg": {"epochs": [1, 5]}}, rounds=2)
    assert [trial.curve[0][-1] for trial in found.trials] == [10, 2]
    settings = {"rounds": 2, "budget": "rounds"}
    same = compare({"fedavg": fedavg}, make_tasks, model, [0], {"fedavg": {"epochs": [1, 5]}}, **settings)
    assert [trial.curve[0] for trial in same.trials] == [[1, 2]] * 2


def test_what_trains_two_models_says_so() -> None:
    assert (Local.models, FitPersonal.models) == (1, 2)
    assert Spending(3, 1) == Spending(rounds=3, evaluate_every=1)
