"""What `site` finds at four hospitals, each with its own patients, is what one process finds with all of them."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from graphcollab import Tasks, benefit, compare, join, load, methods, run, site
from graphcollab.components import EarlyStopping, Judge, Participation
from graphcollab.models import split_models
from graphcollab.report import site_table
from graphcollab.sites.site import MANY_RUNS, ONE_RUN
from graphcollab.train import Compute, Result
from tests.data.rooms import prepared
from tests.raising import raises
from tests.sites.in_threads import COLUMNS, NAMES, SETTINGS, meet, pooled_tasks, small

ROUNDS = 2
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


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("ditto", "l2c")]  # the others have their parts


@pytest.mark.parametrize("name", ["fedavg", "meta_l2c", "cobo", "dac", *SLOW])
def test_hospitals_find_what_one_process_finds(name):
    method = getattr(methods, name)(**({} if name == "cobo" else {"epochs": 1}))
    alone = run(method, pooled_tasks(), small, rounds=ROUNDS)
    require_same(alone, meet(lambda here: here.run(method, small, rounds=ROUNDS)))


def one_way() -> tuple[list[tuple[str, str]], dict[str, dict[str, list[str]]]]:
    """Return edges, and who lets whom listen: Cleveland not Switzerland, and Long Beach nobody."""
    listeners = {"cleveland": ["hungarian", "va"], "va": []}
    edges = [(one, to) for one in NAMES for to in listeners.get(one, NAMES) if to != one]
    return edges, {name: {"listeners": heard} for name, heard in listeners.items()}


@pytest.mark.parametrize("name", ["l2c", "dac"])
def test_models_go_to_listeners_only(name):
    method, (edges, own) = getattr(methods, name)(epochs=1), one_way()
    alone = run(method, pooled_tasks(), small, edges, rounds=ROUNDS)
    require_same(alone, meet(lambda here: here.run(method, small, rounds=ROUNDS), **own))


@pytest.mark.parametrize("name", ["fedavg", "cobo"])
def test_who_cannot_listen_is_refused_as_in_one_process(name):
    """An average of all, and gradients of two nodes that are compared, need edges both ways."""
    method, (edges, own) = getattr(methods, name)(), one_way()
    with raises("disconnected", "node 'cleveland'") as alone:
        run(method, pooled_tasks(), small, edges, rounds=1)
    found = meet(lambda here: here.run(method, small, rounds=ROUNDS), **own)
    (told,) = {str(one) for one in found.values()}
    why, cure = advice(told)
    assert why == advice(str(alone.value))[0]
    assert "by listeners= at" in cure


def advice(text: str) -> list[str]:
    """Return an error's words, and what it advises, which differs between sites."""
    return re.split(r": give |: let |\. Give |\. Let ", text, maxsplit=1)


def test_methods_are_compared_as_in_one_process():
    settings = {"seeds": (0, 1), "rounds": 2}
    made = {"l2c": partial(methods.l2c, epochs=1), "local": partial(methods.local, epochs=1)}
    alone = compare(made, pooled_tasks, small, **settings)
    for own in meet(lambda here: here.compare(made, small, **settings)).values():
        assert str(own) == str(alone)


def test_benefit_is_that_of_one_process():
    settings = {"repeats": 3, "rounds": 2, "lrs": (0.03,), "evaluations": 1}
    alone = benefit(pooled_tasks, small, **settings)
    for own in meet(lambda here: here.benefit(small, **settings)).values():
        torch.testing.assert_close(own.matrix, alone.matrix, equal_nan=True, **ROUNDING)


@pytest.mark.filterwarnings("ignore:.*diverged")
def test_models_that_have_diverged_are_named_at_their_own_site():
    found = meet(lambda here: here.run(methods.local(lr=100.0, epochs=1), small, rounds=1))
    for name, own in found.items():
        assert [(one.code, one.numbers["nodes"]) for one in own.history.findings] == [("diverged", (name,))]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"patience": 2}, "a site may be gone by then"),
        ({"participation": Participation(drop=0.1)}, "those take part who are there"),
        ({"compute": Compute(placement=[0, 1, 2, 3])}, "each site has its own samples"),
        ({"graph": [("va", "cleveland")]}, "by listeners= who hears it"),
        ({"tasks": pooled_tasks}, "which it gives to site(...)"),
        ({"n_jobs": 2}, "all sites play the same run at a time"),
    ],
)
def test_what_cannot_be_between_sites_is_refused_by_name(settings, why):
    verbs = [
        lambda here: here.run(methods.l2c(epochs=1), small, rounds=1, **settings),
        lambda here: here.compare({"l2c": methods.l2c}, small, rounds=1, seeds=(0,), **settings),
        lambda here: here.benefit(small, rounds=1, repeats=3, **settings),
    ]
    (name,) = settings
    name = "placement" if name == "compute" else name
    for act, refused in zip(verbs, (ONE_RUN, MANY_RUNS, MANY_RUNS), strict=True):
        if name in refused:
            for one in meet(act).values():
                assert isinstance(one, ValueError)
                assert str(one).startswith(f"{name} cannot be given between sites: ")
                assert why in str(one)


def test_parties_without_a_site_are_refused_the_same():
    """Also where a script calls `graphcollab.run` itself."""
    for one in meet(lambda here: run(methods.l2c(epochs=1), here.tasks(), small, rounds=1, patience=2)).values():
        assert str(one) == f"patience cannot be given between sites: {ONE_RUN['patience']}"


def test_a_site_has_its_own_model_alone(tmp_path):
    def act(here):
        result = here.run(methods.l2c(epochs=1), small, rounds=1)
        result.save(tmp_path / here.name)
        scores = result.scores(["auc", "accuracy"])
        with raises("unsupported", "result"):
            join(result, result.tasks)
        others = [name for name in NAMES if name != here.name]
        with raises("unknown", f"node {others[0]!r}", here.name, kind=LookupError) as told:
            result.model(others[0])
        assert "process" not in str(told.value)
        return load(tmp_path / here.name).names, scores

    alone = run(methods.l2c(epochs=1), pooled_tasks(), small, rounds=1).scores(["auc", "accuracy"])
    for name, own in meet(act).items():
        assert not isinstance(own, BaseException), own
        assert own[0] == (name,)
        for metric, values in alone.values.items():
            torch.testing.assert_close(own[1].values[metric], values, **ROUNDING)


def test_a_sample_is_not_told_as_a_cluster_center():
    """With as many centers as training samples every center is a sample; a code of it may be told."""
    for one in meet(lambda here: here.run(methods.flt(centers=400, epochs=1), small, rounds=1)).values():
        assert isinstance(one, ValueError)
        assert "is one of its training samples" in str(one)
        assert "encoder=" in str(one)


def test_nodes_with_other_models():
    """Heads travel between two architectures, which are given by name; also to begin centers with."""
    kinds = {name: k % 2 for k, name in enumerate(NAMES)}

    def two(tasks):
        width = tasks.input_shape[0]
        bodies = {"wide": nn.Sequential(nn.Linear(width, 8), nn.ReLU()), "narrow": nn.Linear(width, 6)}
        return split_models(bodies, tasks.input_shape, 2, latent=5)

    for method in (methods.l2c(part="head", epochs=1), methods.ifca(part="head", epochs=1)):
        alone = run(method, pooled_tasks(), two, rounds=1, architecture=kinds)
        require_same(alone, meet(lambda here: here.run(method, two, rounds=1, architecture=kinds)))  # noqa: B023


@pytest.mark.parametrize(("name", "lr"), [pytest.param("l2c", 0.05, marks=pytest.mark.slow), ("dac", 0.012)])
def test_nodes_stop_as_in_one_process(name, lr):
    method = replace(getattr(methods, name)(lr=lr), stop=EarlyStopping(patience=1), judge=Judge(field="best_x"))
    alone = run(method, pooled_tasks(), small, rounds=6)
    assert alone.data.stopped.any()
    require_same(alone, meet(lambda here: here.run(method, small, rounds=6)))


def test_who_diverges_is_left_behind_as_in_one_process():
    settings = {"rounds": 2, "on_nonfinite": "isolate"}
    method = methods.l2c(lr=1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = run(method, pooled_tasks(), small, **settings)
        found = meet(lambda here: here.run(method, small, **settings))
    require_same(alone, found)
    assert {*alone.history.isolated}
    for own in found.values():
        assert own.history.isolated.keys() == alone.history.isolated.keys()


def wide(tasks):
    return nn.Linear(*tasks.input_shape, 1)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("l2c", {"target": "age", "loss": "mse", "standardize_target": True}),
        ("fedavg", {"weight": "age", "loss": "bce"}),
        ("dac", {"metric": "auc", "loss": "bce", "pooled": "per_site"}),
    ],
)
def test_other_tasks(name, settings):
    """Regression, weighted samples, and other metrics; with a table of what every site has reached."""
    method, given = getattr(methods, name)(epochs=1), {**SETTINGS, **settings}
    alone = run(method, prepared(COLUMNS, node="hospital", **given), wide, rounds=2)
    table = str(site_table(alone))

    def act(here):
        result = here.run(method, wide, rounds=2)
        return result, str(site_table(result))

    found = meet(act, **dict.fromkeys(NAMES, given))
    require_same(alone, {name: one[0] for name, one in found.items()})
    assert {one[1] for one in found.values()} == {table}


def test_several_targets():
    """Two numbers for every sample, as arrays."""
    draw = torch.Generator().manual_seed(0)
    inputs, place = torch.randn(60, 3, generator=draw), torch.arange(60) % 4
    targets = torch.stack([inputs.sum(1), inputs[:, 0] - place], 1)
    names = [NAMES[k] for k in place]
    settings = {"loss": "mse", "metric": "mse"}
    model = lambda tasks: nn.Linear(*tasks.input_shape, 2)  # noqa: E731
    alone = run(methods.l2c(epochs=1), Tasks.from_arrays(inputs, targets, names, **settings), model, rounds=2)

    def act(here):
        own = place == NAMES.index(here.name)
        return site(here.name, (inputs[own], targets[own]), **settings).run(methods.l2c(epochs=1), model, rounds=2)

    require_same(alone, meet(act))


def test_who_lets_nobody_listen_trains_alone_where_servers_may_average_without_it():
    """As docs/deploying.md says of ``incomplete="average"``."""
    method, edges = (
        methods.fedavg(incomplete="average", epochs=1),
        [(one, to) for one in NAMES[:3] for to in NAMES if one != to],
    )
    assert NAMES[3] == "va"
    found = meet(lambda here: here.run(method, small, rounds=ROUNDS), va={"listeners": []})
    require_same(run(method, pooled_tasks(), small, edges, rounds=ROUNDS), found)
    nobody = run(method, pooled_tasks(), small, [], rounds=ROUNDS)
    torch.testing.assert_close(found["va"].stacks.row(3)[1], nobody.stacks.row(3)[1], **ROUNDING)
