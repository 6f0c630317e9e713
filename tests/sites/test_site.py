"""What `site` finds at four hospitals, each with its own patients, is what one process finds with all of them."""

from __future__ import annotations

import pytest
import torch

from graphcollab import benefit, compare, join, load, methods, run
from graphcollab.control import Attendance
from graphcollab.train import Result
from tests.sites.in_threads import NAMES, meet, small, together

ROUNDS = 3
ROUNDING = {"rtol": 1e-5, "atol": 1e-6}


def require_same(alone: Result, found: dict[str, Result]) -> None:
    """Check models, history, edges and weights of every hospital; a weight is known to its receiver only."""
    graph = alone.graph()
    for k, name in enumerate(NAMES):
        own = found[name]
        assert not isinstance(own, Exception), own
        assert [*own.models()] == [name]
        torch.testing.assert_close(own.stacks.row(k)[1], alone.stacks.row(k)[1], **ROUNDING)
        assert own.history.names == alone.history.names == NAMES
        assert own.history.rounds == alone.history.rounds
        assert own.history.values.keys() == alone.history.values.keys()
        for what in alone.history.values:
            torch.testing.assert_close(own.history.table(what), alone.history.table(what), equal_nan=True, **ROUNDING)
        heard = own.graph()
        assert torch.equal(heard.edge_index, graph.edge_index)
        known = graph.edge_index[1] == k
        torch.testing.assert_close(heard.edge_weight[known], graph.edge_weight[known], **ROUNDING)


@pytest.mark.parametrize("name", ["fedavg", "ditto", "l2c", "meta_l2c", "cobo", "dac"])
def test_hospitals_find_what_one_process_finds(name):
    method = getattr(methods, name)()
    alone = run(method, together(), small, rounds=ROUNDS)
    require_same(alone, meet(lambda here: here.run(method, small, rounds=ROUNDS)))


def one_way() -> tuple[list[tuple[str, str]], dict[str, dict[str, list[str]]]]:
    """Return edges, and who lets whom listen: Cleveland not Switzerland, and Long Beach nobody."""
    listeners = {"cleveland": ["hungarian", "va"], "va": []}
    edges = [(one, to) for one in NAMES for to in listeners.get(one, NAMES) if to != one]
    return edges, {name: {"listeners": heard} for name, heard in listeners.items()}


@pytest.mark.parametrize("name", ["l2c", "dac"])
def test_models_go_to_listeners_only(name):
    method, (edges, own) = getattr(methods, name)(), one_way()
    alone = run(method, together(), small, edges, rounds=ROUNDS)
    require_same(alone, meet(lambda here: here.run(method, small, rounds=ROUNDS), **own))


@pytest.mark.parametrize("name", ["fedavg", "cobo"])
def test_who_cannot_listen_is_refused_as_in_one_process(name):
    """An average of all, and gradients of two nodes that are compared, need edges both ways."""
    method, (edges, own) = getattr(methods, name)(), one_way()
    with pytest.raises(ValueError, match=r"may hear|hear each other") as alone:
        run(method, together(), small, edges, rounds=1)
    found = meet(lambda here: here.run(method, small, rounds=ROUNDS), **own)
    assert {str(one) for one in found.values()} == {str(alone.value)}


def test_methods_are_compared_as_in_one_process():
    settings = {"seeds": (0, 1), "rounds": 2}
    made = {"l2c": methods.l2c, "local": methods.local}
    alone = compare(made, together, small, **settings)
    for own in meet(lambda here: here.compare(made, small, **settings)).values():
        assert str(own) == str(alone)


def test_benefit_is_that_of_one_process():
    settings = {"repeats": 3, "rounds": 2, "lrs": (0.03,), "evaluations": 1}
    alone = benefit(together, small, **settings)
    for own in meet(lambda here: here.benefit(small, **settings)).values():
        torch.testing.assert_close(own.matrix, alone.matrix, equal_nan=True, **ROUNDING)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"patience": 2}, "patience="),
        ({"attend": Attendance(drop=0.1)}, "attend="),
        ({"owner": [0, 1, 2, 3]}, "owner cannot be given between sites"),
        ({"graph": [("va", "cleveland")]}, "graph cannot be given between sites"),
    ],
)
def test_what_cannot_be_between_sites_is_refused_by_name(settings, why):
    for one in meet(lambda here: here.run(methods.l2c(), small, rounds=1, **settings)).values():
        assert isinstance(one, ValueError)
        assert why in str(one)


def test_a_site_has_its_own_model_alone(tmp_path):
    def act(here):
        result = here.run(methods.l2c(), small, rounds=1)
        result.save(tmp_path / here.name)
        scores = result.scores(["auc", "accuracy"])
        with pytest.raises(ValueError, match="no site has those of others"):
            join(result, result.tasks)
        others = [name for name in NAMES if name != here.name]
        with pytest.raises(LookupError):
            result.model(others[0])
        return load(tmp_path / here.name).names, scores

    alone = run(methods.l2c(), together(), small, rounds=1).scores(["auc", "accuracy"])
    for name, own in meet(act).items():
        assert not isinstance(own, BaseException), own
        assert own[0] == (name,)
        for metric, values in alone.values.items():
            torch.testing.assert_close(own[1].values[metric], values, **ROUNDING)
