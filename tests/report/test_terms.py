"""Lines that say where methods were not compared on the same terms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from graphcollab import Phases, Tasks, compare, methods
from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import COLUMNS, Trial
from graphcollab.report import paired_table, results_table, site_table
from graphcollab.train.identity import identify_models

SUMMARY = dict.fromkeys(COLUMNS, 0.5)
TERMS = ("not the same", "settings tried")


def trial(method, seed, steps=100.0, round_steps=1.0, **more) -> Trial:
    value = {"mean": 0.5 + seed / 10 + 0.01 * len(method)}
    known = {"local_steps": steps, "round_steps": round_steps, **more}
    return Trial(method, seed, {}, 0.5, SUMMARY | value, ([1, 2], [0.4, 0.5]), per_node=(0.5, 0.5), **known)


def lines_about_terms(*trials: Trial, tried=()) -> list[str]:
    """The lines about terms, the same below all tables of a comparison."""
    chosen = {one.method: [t for t in trials if t.method == one.method] for one in trials}
    comparison = Comparison([*trials, *tried], chosen, True)
    tables = str(results_table(comparison)), str(paired_table(comparison, trials[0].method))
    lines = [[line for line in table.splitlines() if line.startswith(TERMS)] for table in tables]
    assert all(one == lines[0] for one in lines)
    return lines[0]


def test_other_work_is_told() -> None:
    assert lines_about_terms(trial("local", 0, 975.0, 25.0), trial("dpsgd", 0, 100.0)) == [
        "not the same work: local took 975 local steps a site, dpsgd 100"
    ]
    three = trial("a", 0, 100.0), trial("bb", 0, 962.5, 25.0), trial("ccc", 0, 500.0, 5.0)
    assert lines_about_terms(*three) == [
        "not the same work: a took 100 local steps a site, bb 962.5"
    ]  # the furthest apart
    early = trial("local", 0, 60.0), replace(trial("local", 1, 20.0), curve=([1], [0.5])), trial("b", 0), trial("b", 1)
    assert lines_about_terms(*early) == [
        "not the same work: local took 40 local steps a site, b 100, since runs stopped early"
    ]


@pytest.mark.parametrize(("steps", "line"), [(115.0, False), (85.0, False), (115.5, True), (84.5, True)])
def test_half_a_round_of_each_is_equal_work(steps, line) -> None:
    assert (
        bool(lines_about_terms(trial("local", 0, 100.0, 20.0), trial("dac", 0, steps, 10.0))) == line
    )  # 20 / 2 + 10 / 2 = 15


def test_the_first_seed_counts() -> None:
    """Rounds are counted on it; on others the same rounds may be other steps."""
    assert lines_about_terms(trial("a", 0), trial("a", 1, 130.0), trial("bb", 0), trial("bb", 1)) == []
    assert len(lines_about_terms(trial("a", 0), trial("a", 1), trial("bb", 0, 130.0), trial("bb", 1))) == 1


def test_what_is_not_known_is_no_difference(comparison, failing) -> None:
    for many in (comparison, failing):
        assert not any(word in str(results_table(many)) for word in TERMS)
    unknown = trial("a", 0, float("nan"), float("nan")), trial("bb", 0, architectures="one")
    assert lines_about_terms(*unknown) == []


def test_other_models_are_told() -> None:
    one, other = {"architectures": "4 wide"}, {"architectures": "64 wide"}
    assert lines_about_terms(trial("a", 0, **one), trial("bb", 0, **other), trial("ccc", 0, **one)) == [
        "not the same models: those of a, ccc; those of bb"
    ]
    assert (
        lines_about_terms(trial("a", 0, **one), trial("a", 1, **other), trial("bb", 0, **one), trial("bb", 1, **other))
        == []
    )


def test_more_settings_are_told() -> None:
    """They are counted on one seed: those of another seed may be others."""
    many = [replace(trial("a", seed), setting={"lr": lr}) for seed in (0, 1) for lr in (1, 2, 3)]
    chosen = trial("a", 0), trial("a", 1), trial("bb", 0), trial("bb", 1)
    assert lines_about_terms(*chosen, tried=many) == ["settings tried: 4 by a; 1 by bb"]
    assert lines_about_terms(*chosen) == []


def draw_tasks(seed: int) -> Tasks:
    """Three nodes with 20, 50 and 90 samples, other ones on every seed."""
    made = torch.Generator().manual_seed(seed)
    x = [torch.randn(n + 10 * seed, 3, generator=made) for n in (20, 50, 90)]
    return Tasks.from_samples(
        [(one, (one[:, 0] > 0).long()) for one in x], test=[(one, (one[:, 0] > 0).long()) for one in x]
    )


def terms(found: Comparison) -> list[str]:
    return [line for line in str(results_table(found)).splitlines() if line.startswith(TERMS)]


def test_joined_comparisons() -> None:
    """20, 50 and 90 samples leave 16, 40 and 72 to train on: 2, 4 and 8 batches of 10, 14 / 3 steps in a round.

    So ten rounds come nearest to 47 steps. On the other seeds, with 10 and 20 samples more each, these are 16 / 3 and
    19 / 3 steps a round: 490 / 9 in the mean.
    """
    go = partial(compare, tasks=draw_tasks, seeds=[0, 1, 2])
    local, dpsgd = {"local": partial(methods.local, epochs=1, batch_size=10)}, {"dpsgd": methods.dpsgd}
    one, same = go(local, model=nn.Linear(3, 2), budget=47), go(dpsgd, model=nn.Linear(3, 2), budget=47)
    assert terms(Comparison.join([one, same])) == []
    wide = lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))  # noqa: E731
    other = go(dpsgd, model=wide, budget=9, grids={"dpsgd": {"lr": [0.1, 0.2]}})
    assert terms(Comparison.join([one, other])) == [
        "not the same work: local took 54.4 local steps a site, dpsgd 9",
        "not the same models: those of local; those of dpsgd",
        "settings tried: 1 by local; 2 by dpsgd",
    ]


def test_equal_work_is_not_told_of() -> None:
    names = ("local", "cobo", "ditto")
    makers = {name: getattr(methods, name) for name in names}
    assert terms(compare(makers, draw_tasks, nn.Linear(3, 2), [0, 1], rounds=3)) == []


@pytest.mark.parametrize(("budget", "steps"), [(31, 23), (37, 43)])
def test_a_round_may_cost_more_than_the_mean_one(budget, steps) -> None:
    """Three rounds of one step each, then rounds of 20: 3, 23 or 43 steps."""
    later = Phases(methods.cobo(), 3, methods.local(steps=20))
    found = compare({"cobo": methods.cobo, "later": lambda: later}, draw_tasks, nn.Linear(3, 2), [0], budget=budget)
    assert found.chosen["later"][0].local_steps == steps
    assert found.chosen["later"][0].round_steps == 20
    assert terms(found) == []


def test_rounds_as_budget_are_other_work() -> None:
    makers = {"cobo": methods.cobo, "fives": partial(methods.local, steps=5)}
    found = compare(makers, draw_tasks, nn.Linear(3, 2), [0], rounds=2, budget="rounds")
    line = "not the same work: cobo took 2 local steps a site, fives 10"
    assert terms(found) == [line]
    assert line in str(site_table(found)).splitlines()


def test_models_are_the_same_whatever_their_values_are() -> None:
    found = compare({"a": methods.local, "b": methods.fedavg}, draw_tasks, lambda: nn.Linear(3, 2), [0], rounds=1)
    one, other = found.results["a"], found.results["b"]
    assert not torch.equal(one.data.x.tensors[0], other.data.x.tensors[0])
    assert identify_models(one.modules, one.data.x) == identify_models(other.modules, other.data.x)
