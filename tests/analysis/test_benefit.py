from __future__ import annotations

import json
import math
import pickle
import random
import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from scipy import stats
from torch import nn

from graphcollab import Tasks, benefit, build_model, run
from graphcollab.analysis import Benefit, resplit
from graphcollab.analysis.baseline import OWN
from graphcollab.analysis.evidence import Choice
from graphcollab.analysis.held import asked, minority_held
from graphcollab.analysis.metrics import corrected_differences
from graphcollab.methods import cobo, ditto, fedavg, local, meta_l2c
from graphcollab.report import benefit_answer, benefit_table
from graphcollab.report.benefit_answer import benefit_findings
from graphcollab.report.page.sections import content_of_benefit
from graphcollab.train import Finding
from tests.raising import raises, warns

CLOSE = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-6)
WHOLE = {"rounds": 4, "epochs": 1, "batch_size": 1000, "evaluations": 2}  # whole batches: nothing is random

LEARNED = Choice("", {"lr": 0.1}, 4)


def site(n, seed, sign=1.0, width=3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=generator)
    return x, sign * x.sum(1, keepdim=True) + 0.1 * torch.randn(n, 1, generator=generator)


def regression():
    pairs = [site(30, 1), site(20, 2), site(40, 3, -1.0)]
    return Tasks.from_samples(pairs, names=["a", "b", "c"], loss="mse", metric="mse")


def linear():
    return nn.Linear(3, 1)


@pytest.fixture(scope="module")
def regression_benefit():
    return benefit(regression(), linear, methods={"ditto": ditto}, repeats=3, lrs=(0.1,), seed=5, **WHOLE)


def findings(benefit, code, subject=None):
    """Return the findings of an answer that have a code, and a subject, of which all or one is asked for."""
    return [one for one in benefit_findings(benefit) if one.code == code and subject in (None, one.subject)]


def finding(benefit, code, subject=None) -> Finding:
    [one] = findings(benefit, code, subject)
    return one


def history_of(method, tasks, seed, nodes=None):
    """The history of a run of its own."""
    tasks = tasks if nodes is None else tasks.select(nodes)
    settings = {"epochs": 1, "batch_size": 1000, "lr": 0.1}
    return run(method(**settings), tasks, linear, rounds=4, evaluate_every=2, seed=seed)


def targets(tasks, split, node):
    return tasks.pools[tasks.splits[split].pool].targets[tasks.splits[split].of(node)].double()


def best(histories, tasks, nodes, usual):
    """Test metrics at the evaluation that does best on validation samples, or of constants, of some runs together.

    That is where the mean of loss / max(usual loss, median of these) is least; ``usual`` are the sites' median losses
    alone.
    """
    means = [float(targets(tasks, "train", k).mean()) for k in nodes]
    flat, score = (
        torch.tensor([float((targets(tasks, split, k) - m).square().mean()) for k, m in zip(nodes, means, strict=True)])
        for split in ("val", "test")
    )
    loss, found = (torch.cat([h.table(name) for h in histories], 1) for name in ("val_loss", "test_metric"))
    scale = usual[nodes].clamp(min=usual[nodes].median())
    regret, flat_regret = ((some / scale).mean(-1) for some in (loss, flat.double()))
    at = regret.argmin()
    return score.double() if float(flat_regret) < float(regret[at]) else found[at]


@pytest.mark.parametrize("r", [0, 2])
def test_scores_are_those_of_runs_of_their_own(regression_benefit, r):
    tasks = resplit(regression(), 5 + r)
    usual = history_of(local, tasks, 5 + r).history.table("val_loss").median(0).values
    for name, method in (("alone", local), ("together", fedavg), ("ditto", ditto)):
        CLOSE(
            regression_benefit.scores[name][r],
            best([history_of(method, tasks, 5 + r).history], tasks, [0, 1, 2], usual),
        )
    pairs = [(0, 1), (0, 2), (1, 2)]
    histories = [history_of(fedavg, tasks, 5 + r, list(pair)).history for pair in pairs]
    scores = best(histories, tasks, [k for pair in pairs for k in pair], usual).view(-1, 2)
    for (i, j), both in zip(pairs, scores, strict=True):  # the two others leave the third out
        CLOSE(torch.stack([regression_benefit.pairs[r, i, j], regression_benefit.pairs[r, j, i]]), both)
        k = 3 - i - j
        CLOSE(torch.stack([regression_benefit.without[r, i, k], regression_benefit.without[r, j, k]]), both)
    assert regression_benefit.pairs[r].diagonal().isnan().all()


def test_models_of_all_others_are_tested_at_the_one_left_out(regression_benefit):
    tasks = resplit(regression(), 5)
    rounds = int(regression_benefit.picked["outside"][0].rounds)
    pooled = run(fedavg(epochs=1, batch_size=1000, lr=0.1), tasks.select([0, 1]), linear, rounds=rounds, seed=5)
    x, y = (getattr(tasks.pools["all"], name)[tasks.splits["test"].of(2)] for name in ("inputs", "targets"))
    expected = float((pooled.model(0)(x) - y).square().mean().detach())
    assert float(regression_benefit.outside[0, 2]) == pytest.approx(expected, rel=1e-5)
    ratio = (regression_benefit.outside[:, 2] / regression_benefit.scores["alone"][:, 2]).log().mean().exp()
    assert float(regression_benefit.left_out[2]) == pytest.approx(1 - float(ratio))
    assert float(ratio) > 3  # c has the opposite sign
    table = benefit_table(regression_benefit)
    assert table.splitlines()[4].split()[-1] == f"−{100 * (ratio - 1):.1f}"


@pytest.mark.slow
def test_results_are_those_of_one_process_bit_for_bit(regression_benefit):
    methods = {"ditto": lambda **given: ditto(**given), "meta_l2c": lambda **given: meta_l2c(**given)}
    settings = {"methods": methods, "repeats": 3, "lrs": (0.1,), "seed": 5, **WHOLE}
    one, other = (benefit(regression(), lambda: nn.Linear(3, 1), n_jobs=jobs, **settings) for jobs in (1, 2))
    assert benefit_answer(other) == benefit_answer(one)
    assert other.picked == one.picked
    assert list(one.scores) == ["alone", "together", "ditto", "meta_l2c"]
    for name in one.scores:
        assert torch.equal(other.scores[name], one.scores[name])
        assert name == "meta_l2c" or torch.equal(one.scores[name], regression_benefit.scores[name])
    assert one.weights["meta_l2c"].shape == (3, 3, 3)
    assert torch.equal(other.weights["meta_l2c"], one.weights["meta_l2c"])


def test_further_metrics_are_of_the_same_models(regression_benefit):
    """As if the metric were the only one, at a third of the level."""
    settings = {"methods": {"ditto": ditto}, "repeats": 3, "lrs": (0.1,), "seed": 5, **WHOLE}
    several = benefit(regression(), linear, metrics=["mae", "r2"], **settings)
    assert list(several.also) == ["mae", "r2"]
    single = benefit(replace(regression(), metric="mae"), linear, **settings)
    mae = several.also["mae"]
    for name in regression_benefit.scores:
        assert torch.equal(several.scores[name], regression_benefit.scores[name])
        CLOSE(mae.scores[name], single.scores[name])
    for name in ("pairs", "without", "outside"):
        CLOSE(getattr(mae, name), getattr(single, name), equal_nan=True)
    assert (several.level, mae.level, single.level) == pytest.approx((0.05 / 3, 0.05 / 3, 0.05))
    assert several.also["r2"].higher_is_better
    assert not several.also["r2"].relative
    table = benefit_table(several)
    assert "alone, mae" in table.split("\n\nmae:\n\n")[1]
    assert "alone, r2" in table.split("\n\nr2:\n\n")[1]
    assert finding(several, "metric", "mae").numbers == {gain.by: gain.gain for gain in mae.overall}
    assert finding(several, "metrics").numbers == {"metrics": 3}
    again = benefit(regression(), linear, metrics=["mse"], **settings)  # the tasks' own
    assert (again.also, again.level) == ({}, 0.05)


def test_halves_of_the_test_samples_are_measured_where_there_are_more_of_them_than_of_training_samples():
    deal = lambda seed: resplit(regression(), seed, test=0.7)  # noqa: E731
    told = benefit(deal, linear, methods={}, repeats=3, lrs=(0.1,), **WHOLE)
    assert told.halves["together"].shape == (3, 2, 3)
    tasks = resplit(regression(), 1, test=0.7)
    rounds = int(told.picked["alone"][1].rounds)
    result = run(local(epochs=1, batch_size=1000, lr=0.1), tasks, linear, rounds=rounds, seed=1)
    halves = [replace(result, tasks=tasks)]
    for k in range(3):
        assert halves[0].scores()["mse"][k] == pytest.approx(float(told.scores["alone"][1, k]), rel=1e-5)
        one, other = told.halves["alone"][1, :, k].tolist()
        size = int(tasks.sizes("test")[k])  # the halves have size / 2, rounded, each
        parts = (size // 2, size - size // 2)
        whole = float(told.scores["alone"][1, k])
        assert min(abs((a * one + b * other) / size - whole) for a, b in (parts, parts[::-1])) < 1e-5 * whole
    assert not benefit(regression(), linear, methods={}, repeats=3, lrs=(0.1,), **WHOLE).halves


def test_means_weighted_by_samples(regression_benefit):
    weight = regression_benefit.test / regression_benefit.test.sum()
    means = {name: scores @ weight for name, scores in regression_benefit.scores.items()}
    ratio = (means["ditto"] / means["alone"]).log().mean().exp()
    one = {gain.by: gain for gain in regression_benefit.by_samples}["ditto"]
    assert one.gain == pytest.approx(1 - float(ratio))
    assert one.alone == pytest.approx(float(means["alone"].log().mean().exp()))
    assert "all, by samples" in benefit_table(regression_benefit)


def test_gains_are_positive_where_less_is_better(regression_benefit):
    gains = regression_benefit.of("a")
    ratio = (regression_benefit.pairs[:, 0, 1] / regression_benefit.scores["alone"][:, 0]).log().mean().exp()
    assert gains["b"].gain == pytest.approx(1 - float(ratio))  # the share by which the error falls
    assert gains["b"].gain > gains["c"].gain  # c has the opposite sign
    for gain in gains.values():
        assert gain.gain == pytest.approx(1 - gain.score / gain.alone)
    assert gains["together"].score == pytest.approx(
        float(regression_benefit.scores["together"][:, 0].log().mean().exp())
    )
    without = (regression_benefit.scores["together"][:, 0] / regression_benefit.without[:, 0, 2]).log().mean().exp()
    assert float(regression_benefit.worth[0, 2]) == pytest.approx(1 - float(without))
    assert regression_benefit.matrix[0, 2] == pytest.approx(gains["c"].gain)
    assert regression_benefit.of(0) == regression_benefit.of("a")
    with raises("unknown", "site", "'z'", kind=KeyError):
        regression_benefit.of("z")


@pytest.mark.filterwarnings("ignore:the function of tasks makes the same split")
def test_test_samples_play_no_part_in_choices():
    tasks = regression()
    spoilt = resplit(tasks, 0)
    pool = spoilt.pools["all"]
    targets = pool.targets.clone()
    targets[spoilt.splits["test"].index] = 1e3
    spoilt = replace(spoilt, pools={"all": replace(pool, targets=targets)})
    settings = {"methods": {}, "repeats": 3, "lrs": (0.01, 0.1), **WHOLE}
    one, other = (benefit(lambda _, some=some: some, linear, **settings) for some in (resplit(tasks, 0), spoilt))
    assert one.picked == other.picked
    assert not torch.allclose(one.scores["alone"], other.scores["alone"])


def test_same_population_is_found_and_said():
    tasks = Tasks.from_samples([site(12, k, width=8) for k in range(5)], loss="mse", metric="mse")
    told = benefit(tasks, lambda: nn.Linear(8, 1), methods={}, repeats=6, rounds=20, lrs=(0.1,))
    assert told.helps
    assert any(gain.verdict == "gains" for gain in told.overall)
    gaining = [gain.by for gain in told.overall if gain.verdict == "gains"]
    assert finding(told, "evidence", "mse").numbers["gains"] == gaining
    assert [one.subject for one in findings(told, "mean") if one.numbers["verdict"] == "gains"] == gaining


def test_all_can_be_saved_shown_and_pickled(regression_benefit, tmp_path):
    numbers = json.loads(regression_benefit.save(tmp_path / "benefit.json").read_text())
    assert numbers["names"] == ["a", "b", "c"]
    assert numbers["pairs"][0][0][0] is None
    assert len(numbers["pair_gains"]) == 6
    table = benefit_table(regression_benefit)
    assert [line.split()[0] for line in table.split("\n\n")[0].splitlines()[2:]] == ["a", "b", "c", "all", "all,"]
    assert "gain by all together (%)" in table
    again = pickle.loads(pickle.dumps(regression_benefit))
    assert isinstance(again, Benefit)
    assert benefit_table(again) == table


def test_sites_with_few_test_samples_are_named(regression_benefit):
    assert not findings(regression_benefit, "few-tested")
    told = replace(regression_benefit, test=torch.tensor([8.0, 2.0, 3.0]))
    assert finding(told, "few-tested", "sites").numbers == {"samples": {"b": 2.0, "c": 3.0}}


def test_harm_without_gains_is_the_headline(regression_benefit):
    """Of errors that double everywhere, with little noise."""
    alone = torch.tensor([[1.0, 1.0, 1.0], [1.1, 1.1, 1.1], [0.9, 0.9, 0.9]], dtype=torch.float64)
    noise = 1 + 0.001 * torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    worse = replace(
        regression_benefit, scores={"alone": alone, "together": 2 * alone * noise, "ditto": 2 * alone * noise}
    )
    evidence = finding(worse, "evidence", "mse").numbers
    assert (evidence["gains"], evidence["loses"]) == ([], ["together", "ditto"])
    quick = finding(worse, "advice", "again").numbers["quick"]
    assert quick == "3 of the usual 10 splits and 4 of the usual 30 rounds"
    assert finding(replace(worse, quick=""), "advice").subject == "alone"
    one = 2 * torch.ones_like(regression_benefit.pairs[0])
    some = replace(worse, scores={**worse.scores, "together": alone, "ditto": alone})
    some = replace(some, pairs=alone[..., None] * one * noise[..., None])
    evidence = finding(some, "evidence", "mse").numbers
    assert (evidence["gains"], evidence["loses"], evidence["sites"]["gains"]) == ([], [], [])
    assert evidence["sites"]["loses"]


def test_without_evidence_it_is_undecided_but_where_all_seem_to_lose(regression_benefit):
    alone = torch.tensor([[1.0, 1.0, 1.0], [1.1, 1.1, 1.1], [0.9, 0.9, 0.9]], dtype=torch.float64)
    ratio, clear = (torch.tensor(one, dtype=torch.float64)[:, None] for one in ((0.88, 0.95, 0.9), (0.88, 0.92, 0.9)))
    pairs, without = torch.full_like(regression_benefit.pairs, 1.0), torch.full_like(regression_benefit.without, 1.0)
    scores = {"alone": alone, "together": alone * ratio, "ditto": 1.01 * alone}
    told = replace(regression_benefit, scores=scores, pairs=pairs, without=without, quick="")
    seen = told.overall[0]
    assert seen.gain == pytest.approx(1 - (0.88 * 0.95 * 0.9) ** (1 / 3))
    undecided = finding(told, "advice")
    assert undecided.subject == "undecided"
    assert undecided.numbers["times"] == pytest.approx((math.log(1 - seen.detectable) / math.log(1 - seen.gain)) ** 2)
    times = math.ceil(undecided.numbers["times"])
    assert f"about {times} times as many (for the gain by all together" in str(undecided)
    swings = torch.tensor([[0.8], [1.3], [1.1]], dtype=torch.float64)  # a loss in the mean that may be a gain
    open_ = replace(told, scores={"alone": alone, "together": alone * swings, "ditto": alone * swings})
    assert max(gain.gain for gain in open_.overall) < 0 < max(gain.high for gain in open_.overall)
    assert "ask again with more samples." in str(finding(open_, "advice", "undecided"))
    worse = replace(told, scores={"alone": alone, "together": alone / clear, "ditto": alone / clear})
    assert max(gain.high for gain in worse.overall) < 0
    assert finding(worse, "advice").subject == "alone"
    quick = replace(told, quick="3 of the usual 10 splits")
    assert finding(quick, "advice", "again").numbers == {"quick": "3 of the usual 10 splits"}


def test_sites_that_are_numbers_are_called_sites(regression_benefit):
    told = replace(regression_benefit, names=("1", "2", "23"), test=torch.tensor([8.0, 2.0, 3.0]))
    assert "Few test samples on a split (site 2: 2, site 23: 3)" in benefit_answer(told)
    assert " site 1 " in benefit_table(told) or " site 2 " in benefit_table(told)


def test_few_test_samples_of_the_rarer_class_are_told():
    """Of 40 rows a quarter are tested on: of b's 4 rows of class 1 that is one."""
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    y, rare = torch.arange(40) % 2, (torch.arange(40) < 4).long()
    tasks = Tasks.from_samples([(x, y), (x, rare)], metric="auc", names=["a", "b"])
    told = benefit(tasks, lambda: nn.Linear(2, 2), methods={}, repeats=3, rounds=2, lrs=(0.1,))
    assert told.rarer.tolist() == [5.0, 1.0]
    assert finding(told, "rare-class", "sites").numbers == {"samples": {"a": 5.0, "b": 1.0}}


def test_sites_of_one_class_are_told_first():
    """Of b's 40 rows none is of class 1, of c's four."""
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    y, none, rare = torch.arange(40) % 2, torch.zeros(40).long(), (torch.arange(40) < 4).long()
    tasks = Tasks.from_samples([(x, y), (x, none), (x, rare)], metric="brier", names=["a", "b", "c"])
    told = benefit(tasks, lambda: nn.Linear(2, 2), methods={}, repeats=3, rounds=2, lrs=(0.1,))
    assert told.rarer.tolist() == [5.0, 0.0, 1.0]
    assert told.minority.tolist() == [5.0, 0.0, 4.0]
    assert finding(told, "rare-class", "sites").numbers == {"samples": {"a": 5.0, "b": 0.0, "c": 1.0}}
    assert finding(told, "no-star", "sites").numbers == {"samples": {"a": 5.0, "b": 0.0, "c": 4.0}}
    assert "(one class only: b; c: 4)" in benefit_answer(told)
    details = next(one for one in content_of_benefit(told, "", "").sections if one.name == "details")
    assert "no-star" in {one.code for one in details.said if isinstance(one, Finding)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*of rows are of class 'no'")
def test_a_site_that_has_one_class_by_chance_loses_nothing():
    """Every row has the same chance of 12 %, whatever its site, and at s00 it has come true in none of 20 rows."""
    draw = random.Random(5)
    rows = {name: [] for name in ("site", "a", "b", "c", "event")}
    for k in range(240):
        rows["site"].append(f"s{k // 20:02d}")
        for name in "abc":
            rows[name].append(draw.gauss(0, 1))
        rows["event"].append("yes" if draw.random() < 0.12 else "no")
    tasks = lambda seed: Tasks.from_frame(rows, target="event", seed=seed)  # noqa: E731
    model = lambda: build_model("mlp", (3,), 2, hidden=16)  # noqa: E731
    settings = {"methods": {}, "rounds": 20, "lrs": (0.3,), "limit": 2, "evaluations": 1}  # which trains for too long
    told = benefit(tasks, model, metrics=["log_loss"], **settings).also["log_loss"]
    assert told.found == []
    assert told.of("s00")["together"].high < 0, "by its own interval it does lose"
    assert {gain.site for gain in replace(told, minority=None).found} == {"s00"}, "claimed until rows were counted"


def test_times_count_where_an_event_was_seen():
    """All of 20 times at both sites differ; a saw 3 events, b 12."""
    seen = [1] * 3 + [0] * 17 + [1] * 12 + [0] * 8
    rows = {"site": ["a"] * 20 + ["b"] * 20, "x": [k * k % 11 for k in range(40)], "days": range(1, 41), "seen": seen}
    with pytest.warns(RuntimeWarning, match="fewer than 5 events"):
        tasks = Tasks.from_frame(rows, target="days", event="seen")
    assert minority_held(tasks).tolist() == [3, 5]


def test_amounts_that_are_hardly_ever_others_claim_nothing():
    x, y = torch.randn(30, 2), torch.zeros(3, 30, 1)
    y[0, :4], y[1, :5], y[2] = torch.rand(4, 1), torch.rand(5, 1), torch.rand(30, 1)
    tasks = Tasks.from_samples([(x, one) for one in y], loss="mse", metric="mae")
    assert minority_held(tasks).tolist() == [4, 5, 5]
    settings = {"methods": {}, "repeats": 3, "rounds": 1, "lrs": (0.1,)}
    told = benefit(tasks, nn.Linear(2, 1), **settings)
    assert finding(told, "no-star", "sites").numbers["samples"] == {"node 0": 4, "node 1": 5, "node 2": 5}


def test_samples_of_one_group_count_as_one():
    """Six rows of a are ill, of two patients."""
    rows = {"site": ["a"] * 30 + ["b"] * 30, "x": [*range(60)], "ill": [0] * 24 + [1] * 6 + [0, 1] * 15}
    rows["patient"] = [k // 3 for k in range(60)]
    assert minority_held(Tasks.from_frame(rows, target="ill", group="patient")).tolist() == [2, 5]


def test_a_metric_that_is_not_defined_is_said():
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    tasks = Tasks.from_samples(
        [(x, y), (x[y == 1], y[y == 1]), (x.flip(0), y.flip(0))], metric="auc", names=["a", "b", "c"]
    )
    told = benefit(tasks, lambda: nn.Linear(2, 2), methods={}, repeats=3, rounds=2, lrs=(0.1,))
    assert math.isnan(told.of("b")["together"].gain)
    assert told.of("b")["together"].verdict == "not defined"
    assert finding(told, "not-defined").subject == "b"


def test_of_many_sites_pairs_are_drawn_and_it_says_so():
    tasks = Tasks.from_samples([site(12, k) for k in range(6)], loss="mse", metric="mse")
    told = benefit(tasks, linear, methods={}, repeats=3, limit=4, lrs=(0.1,), **WHOLE)
    assert told.tried == (6, 15)
    assert finding(told, "pairs-drawn", "limit").numbers == {"tried": 6, "pairs": 15, "left_out": 4}
    assert int(told.matrix.isfinite().sum()) == 12


def test_it_is_said_where_models_do_no_better_than_the_mean(regression_benefit):
    means = [regression_benefit.picked[name].count(None) for name in ("alone", "together", "ditto")]
    told = replace(regression_benefit, picked={**regression_benefit.picked, "together": [None, LEARNED]})
    assert finding(told, "constants", "together").numbers == {"splits": 1, "of": 2}
    arms = ("alone", "together", "ditto")
    assert sum(one.subject in arms for one in findings(regression_benefit, "constants")) == sum(
        many > 0 for many in means
    )


def test_no_gain_is_claimed_where_constants_stand_for_models(regression_benefit):
    """They are of the site's own targets, so whom it collaborates with has no part in it. Models
    that lose to constants lose to training alone where that does better than constants, and else that is unknown.
    """
    alone = torch.tensor([[1.0, 1.0, 1.0], [1.1, 1.1, 1.1], [0.9, 0.9, 0.9]], dtype=torch.float64)
    noise = 1 + 0.001 * torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    scores = {"alone": alone, "together": 0.5 * alone * noise, "ditto": 2 * alone * noise}
    models = dict.fromkeys([*regression_benefit.picked], [LEARNED] * 3)
    constant = 4 * alone.flip(0)
    told = replace(regression_benefit, scores=scores, picked=models, constant=constant)
    assert {gain.by: gain.verdict for gain in told.overall} == {"together": "gains", "ditto": "loses"}
    flat = dict.fromkeys([*regression_benefit.picked], [None] * 2 + [LEARNED])
    told = replace(regression_benefit, scores=scores, picked=flat, constant=constant)
    assert {gain.by: gain.verdict for gain in told.overall} == {"together": "no evidence", "ditto": "no evidence"}
    told = replace(told, picked={**flat, "alone": models["alone"]})
    assert {gain.by: gain.verdict for gain in told.overall} == {"together": "no evidence", "ditto": "loses"}
    assert told.overall[0].gain == pytest.approx(0.5, abs=0.01)


def with_one_that_spoils():
    """Return what is gained at three sites and one of which the others do better without."""
    draw = torch.Generator().manual_seed(0)
    splits, sites = 10, 4

    def noise(*shape):
        return 1 + 0.01 * torch.randn(*shape, generator=draw, dtype=torch.float64)

    alone, without = noise(splits, sites), torch.full((splits, sites, sites), torch.nan, dtype=torch.float64)
    for i in range(sites):
        for k in range(sites):
            if i != k:
                without[:, i, k] = (0.7 if k == 3 else 1.5) * noise(splits)
    nothing = torch.full((splits, sites, sites), torch.nan, dtype=torch.float64)
    return Benefit(
        ("a", "b", "c", "d"),
        "mae",
        False,
        {"alone": alone, "together": 1.4 * noise(splits, sites)},
        nothing,
        without,
        torch.full((splits, sites), torch.nan, dtype=torch.float64),
        4 * noise(splits, sites),
        "the mean of the targets",
        torch.tensor([30.0, 30.0, 30.0, 30.0]),
        torch.tensor([10.0, 10.0, 10.0, 10.0]),
        {name: [Choice("", {"lr": 0.1}, 1)] * splits for name in ("alone", "together", "pairs", "without")},
    )


def test_groups_of_all_but_one_are_judged():
    """Gains are computed here from the scores."""
    told = with_one_that_spoils()
    alone, without = told.scores["alone"], told.without
    gains = {gain.site: gain for gain in told.group_gains}
    assert [*gains] == [f"all but {name}" for name in told.names]
    means = without[:, :3, 3].mean(1), alone[:, :3].mean(1)
    assert gains["all but d"].gain == pytest.approx(1 - float((means[0] / means[1]).log().mean().exp()))
    assert {site: gain.verdict for site, gain in gains.items()} == {
        "all but a": "loses",
        "all but b": "loses",
        "all but c": "loses",
        "all but d": "gains",
    }
    assert told.helps
    assert [gain.verdict for gain in told.overall] == ["loses"]
    evidence = finding(told, "evidence", "mae").numbers
    assert (evidence["groups"], evidence["loses"]) == (["all but d"], ["together"])
    assert finding(told, "advice", "leave-out").numbers == {"alone": ["d"]}
    gap = (told.scores["together"][:, :3] / without[:, :3, 3]).log().mean()
    assert float(told.spared.mean[3]) == pytest.approx(float(gap))
    as_well = replace(told, scores={**told.scores, "together": without[:, :, 3].nan_to_num(0.7)})
    assert as_well.group_gains[3].gain == gains["all but d"].gain
    assert as_well.group_gains[3].verdict == "no evidence"  # nor do they lose by d
    pairs = replace(told, without=torch.full_like(without, torch.nan))
    assert pairs.group_gains == []
    assert not pairs.helps


def test_a_site_that_makes_the_interval_wide_is_named_with_the_gain_of_the_others():
    told = with_one_that_spoils()
    alone, draw = told.scores["alone"], torch.Generator().manual_seed(4)
    times = 0.95 + 0.02 * torch.randn(10, 4, generator=draw, dtype=torch.float64)
    times[:, 3] = 0.9 + 0.5 * torch.randn(10, generator=draw, dtype=torch.float64).clamp(-1.5, 1.5)
    swayed = replace(
        told, scores={"alone": alone, "together": alone * times}, test=torch.tensor([30.0, 30.0, 30.0, 3.0])
    )
    (gain,) = swayed.overall
    assert gain.verdict == "no evidence"
    found = finding(swayed, "swayed", "d")
    others = ((alone * times)[:, :3].mean(1) / alone[:, :3].mean(1)).log().mean().exp()
    assert found.numbers["gain"] == pytest.approx(1 - float(others))
    assert gain.low < found.numbers["low"] < found.numbers["gain"] < found.numbers["high"] < gain.high
    assert "wide by d, with 3 test samples on a split" in found.message
    times[:, 3] = times[:, 2].flip(0)
    assert findings(replace(swayed, scores={"alone": alone, "together": alone * times}), "swayed") == []


def test_an_answer_in_full():
    """An example of the text; other tests look at findings."""
    assert benefit_answer(with_one_that_spoils()).splitlines() == [
        "4 sites. Do sites gain by collaborating, which of them, and by whom? Judged by mean absolute error (the mean "
        "distance of predictions from the truth; smaller is better).",
        "Evidence that all but d gain by collaborating without the others. Evidence that collaborating by all together "
        "harms. Evidence of losses at single sites.",
        "By all together (one model for all sites, by federated averaging) mean absolute error rises by 40.3 % in the "
        "mean over sites, compared with training alone (95 % interval 39.0 … 41.6). There is evidence of that (p < "
        "0.001).",
        "Gains say by how many percent the error of training alone falls (negative: rises), with 95 % intervals of "
        "each by itself. A star is evidence: the chance that any is wrong is at most 5 %.",
        "In the mean over sites, by all together: −40.3 (−41.6 … −39.0)*, weighted by test samples −40.3 "
        "(−41.6 … −39.0). There is evidence of that (p < 0.001).",
        "Of groups that do better without one site, all but d gain most: +29.9 (+29.0 … +30.8)* in the mean over them. "
        "There is evidence of that (p < 0.001).",
        "c loses by all together: −40.9 (−43.7 … −38.1)*.",
        "a loses by all together: −40.2 (−42.9 … −37.6)*.",
        "b loses by all together: −40.0 (−42.3 … −37.8)*.",
        "d loses by all together: −40.0 (−42.7 … −37.3)*.",
        "So do not let all collaborate: train d alone, and ask again without it, with new rows if you can, since these "
        "have shown which site to leave out.",
    ]


def accuracies(found, **of):
    """As if the metric were accuracy: [R, 1] of means for all sites alike, R = 4; others as alone."""
    values = {name: torch.tensor(some, dtype=torch.float64)[:, None].expand(4, 3) for name, some in of.items()}
    constant, alone = values.pop("constant"), values["alone"]
    scores = {name: values.get(name, alone) for name in found.scores}
    unknown = torch.full((4, 3, 3), math.nan, dtype=torch.float64)
    chosen = {name: [LEARNED] * 4 for name in found.picked}
    about = {"metric": "accuracy", "higher_is_better": True, "flat": "the class frequencies", "picked": chosen}
    shares = {"train": torch.full((3,), 30.0), "test": torch.full((3,), 10.0)}
    return replace(
        found, scores=scores, constant=constant, pairs=unknown, without=unknown, outside=alone, **about, **shares
    )


def test_a_gain_must_be_one_over_constants(regression_benefit):
    """Gains over training alone .20, .22, .20, .22; error of the mean sqrt(var (1/4 + 1/3)); two arms, Holm doubles."""
    alone = [0.60, 0.60, 0.62, 0.62]
    together = [0.80, 0.82, 0.82, 0.84]

    def p_value(gains):
        gains = torch.tensor(gains, dtype=torch.float64)
        t = float(gains.mean() / (gains.var() * (1 / 4 + 1 / 3)).sqrt())
        return 2 * (2 * float(stats.t.sf(t, 3)))

    by = lambda constant: accuracies(regression_benefit, alone=alone, together=together, constant=constant).overall[0]  # noqa: E731
    poor = by([0.30, 0.31, 0.32, 0.33])  # by .50, .51, .50, .51 better: the gain over training alone is less sure
    assert (poor.verdict, poor.p_value) == ("gains", pytest.approx(p_value([0.20, 0.22, 0.20, 0.22])))
    close = by([0.79, 0.79, 0.80, 0.80])
    assert close.gain == pytest.approx(0.21)
    assert (close.verdict, close.p_value) == ("no evidence", pytest.approx(p_value([0.01, 0.03, 0.02, 0.04])))
    assert (close.alone, close.score, close.constant) == pytest.approx((0.61, 0.82, 0.795))
    gains = torch.tensor([0.01, 0.03, 0.02, 0.04], dtype=torch.float64)
    error = float((gains.var() * (1 / 4 + 1 / 3)).sqrt())
    reach = float(stats.t.ppf(1 - 0.35 * 0.05 / 2 / 2, 3) + stats.t.ppf(0.8, 3)) * error
    assert close.detectable == pytest.approx(reach + 0.795 - 0.61)  # beyond constants, so beyond training alone by more
    better = by([0.85, 0.86, 0.85, 0.86])
    assert (better.verdict, better.p_value) == ("no evidence", 1.0)
    assert by([math.nan] * 4).p_value == poor.p_value  # a loss that has no constant
    assert by([0.70, 0.72, 0.72, 0.74]).p_value == poor.p_value  # always .10 better: how that varies is not known
    worse = accuracies(regression_benefit, alone=together, together=alone, constant=[0.9, 0.91, 0.9, 0.9]).overall[0]
    assert (worse.verdict, worse.p_value) == ("loses", poor.p_value)


def test_it_is_said_where_constants_do_as_well(regression_benefit):
    some = {"alone": [0.60, 0.60, 0.62, 0.62], "together": [0.80, 0.82, 0.82, 0.84]}
    told = accuracies(regression_benefit, **some, constant=[0.75, 0.75, 0.75, 0.77])
    expected = {"models": {"alone": 0.61, "ditto": 0.61}, "constant": pytest.approx(0.755)}
    expected["models"] = pytest.approx(expected["models"])
    assert finding(told, "no-better", "accuracy").numbers == expected
    assert finding(replace(told, metric="auc", also={"accuracy": told}), "no-better", "accuracy").numbers == expected
    header, _, row = (re.split(r"\s{2,}", line) for line in benefit_table(told).splitlines()[:3])
    assert header[3:6] == ["alone, accuracy (%)", "constant", "gain by all together"]
    assert row[3:5] == ["61.0", "75.5"]
    poor = accuracies(regression_benefit, **some, constant=[0.6, 0.6, 0.6, 0.6])
    assert not findings(poor, "no-better")
    assert "constant" not in benefit_table(poor)


def test_a_gain_must_be_one_over_a_simple_tool_at_the_site(regression_benefit):
    """Gains over training alone .20, .22, .20, .22, over a tool about .1, or none that is sure, or none."""
    alone, together = [0.60, 0.60, 0.62, 0.62], [0.80, 0.82, 0.82, 0.84]
    told = accuracies(regression_benefit, alone=alone, together=together, constant=[0.5] * 4)
    p_values = []
    for tool in ([0.70, 0.71, 0.72, 0.73], [0.80, 0.70, 0.83, 0.83], [0.85] * 4):
        one = torch.tensor(tool, dtype=torch.float64)[:, None].expand(4, 3)
        judged = replace(told, baseline={OWN: one}).overall[0]
        p_values.append(judged.p_value)
        gains = torch.tensor(together, dtype=torch.float64) - torch.tensor(tool, dtype=torch.float64)
        t = float(gains.mean() / (gains.var() * (1 / 4 + 1 / 3)).sqrt())
        assert judged.p_value == pytest.approx(min(2 * 2 * float(stats.t.sf(t, 3)), 1.0) if gains.mean() > 0 else 1.0)
        assert (judged.gain, judged.alone) == (told.overall[0].gain, told.overall[0].alone)
        assert judged.verdict == ("gains" if judged.p_value <= 0.0175 else "no evidence")
    assert p_values[0] <= 0.0175 < p_values[1]
    weak = replace(
        told, baseline={OWN: torch.tensor([0.70, 0.71, 0.72, 0.73], dtype=torch.float64)[:, None].expand(4, 3)}
    )
    assert finding(weak, "alone-weak", OWN).numbers["gain"] == pytest.approx(0.105)
    assert not findings(told, "alone-weak")


def test_errors_below_a_hundredth_of_a_constants_are_alike(regression_benefit):
    """Errors of .001 and .002 of a target of spread 1 are both next to nothing; .02 is twice the floor of .01."""
    noise = 1 + 0.001 * torch.arange(3.0, dtype=torch.float64)[:, None].expand(3, 3)
    small = {"alone": 0.001 * noise, "together": 0.002 * noise, "ditto": 0.02 * noise.flip(0)}
    told = replace(regression_benefit, scores=small, constant=torch.ones(3, 3, dtype=torch.float64))
    together, method = told.overall
    assert (together.gain, together.verdict) == (0.0, "no evidence")
    assert (together.alone, together.score) == (pytest.approx(0.001, rel=0.01), pytest.approx(0.002, rel=0.01))
    assert method.gain == pytest.approx(-1.0, abs=0.01)
    assert method.verdict == "loses"


def test_what_comes_of_constants_is_told_of_pairs_and_groups_and_named_nowhere(regression_benefit):
    models = {name: [LEARNED] * 3 for name in regression_benefit.picked}
    flat = [None] * 2 + [LEARNED]
    cells = lambda told: [re.split(r"\s{2,}", line)[-3:] for line in benefit_table(told).splitlines()[2:5]]  # noqa: E731
    told = replace(regression_benefit, picked=models)
    assert not findings(told, "constants")
    gains = told.matrix.nan_to_num().amax(1)
    assert [row[0] != "–" for row in cells(told)] == (gains > 0).tolist()
    assert (gains > 0).any()
    assert cells(told)[0][1] != "–"
    told = replace(regression_benefit, picked={**models, "pairs": flat, "without": flat})
    stood = {one.subject: one.numbers for one in findings(told, "constants")}
    assert stood == {"pairs": {"splits": 2, "of": 3}, "without": {"splits": 2, "of": 3}}
    assert [row[:2] for row in cells(told)] == [["–", "–"]] * 3


def test_nothing_is_claimed_of_sites_and_pairs_for_whose_models_constants_stood(regression_benefit):
    """Constants are three times as bad as training alone, on every split; one choice is made for all pairs."""
    alone = torch.tensor([[1.0, 1.1, 0.9], [1.1, 1.0, 1.0], [0.9, 0.9, 1.1]], dtype=torch.float64)
    models = {name: [LEARNED] * 3 for name in regression_benefit.picked}
    noise = 1 + 0.001 * torch.arange(3.0, dtype=torch.float64)[:, None, None]
    pairs = (3 * alone[:, :, None] * noise).expand(3, 3, 3).masked_fill(torch.eye(3).bool(), torch.nan)
    told = replace(
        regression_benefit, scores={"alone": alone, "together": alone}, pairs=pairs, constant=pairs.nanmean(2)
    )
    assert {gain.verdict for gain in replace(told, picked=models).pair_gains} == {"loses"}
    stood = replace(told, picked={**models, "pairs": [None] * 3})
    assert {gain.verdict for gain in stood.pair_gains} == {"no evidence"}
    assert "pairs" not in [section.name for section in content_of_benefit(stood, "", "").sections]
    worse = replace(told, scores={"alone": alone, "together": 3 * alone * noise[..., 0]})
    assert {gain.verdict for gain in replace(worse, picked=models).gains} == {"loses"}
    stood = replace(worse, picked={**models, "together": [None] * 3})
    assert {gain.verdict for gain in stood.gains} == {"no evidence"}
    assert [gain.verdict for gain in stood.overall] == ["loses"]
    assert content_of_benefit(replace(told, picked=models), "", "").sections[2].charts


def test_intervals_end_where_differences_of_shares_do(regression_benefit):
    """Of AUCs that go up and down by 1, a t-interval of few splits would be wider than any difference can be."""
    alone = torch.zeros_like(regression_benefit.scores["alone"])
    alone[::2] = 1
    scores = {name: alone if name == "alone" else 1 - alone for name in regression_benefit.scores}
    wild = replace(regression_benefit, metric="auc", higher_is_better=True, scores=scores)
    assert all((gain.low, gain.high) == (-1, 1) for gain in wild.gains)
    assert float(corrected_differences(1 - 2 * alone, wild.test / wild.train).high[0]) > 1
    assert finding(wild, "mean", "together").numbers["detectable"] >= 1


def test_models_that_are_all_the_same_say_nothing(regression_benefit):
    same = replace(
        regression_benefit, scores=dict.fromkeys(regression_benefit.scores, regression_benefit.scores["alone"])
    )
    assert [one.numbers["detectable"] for one in findings(same, "mean")] == [0, 0]


def test_step_sizes_with_which_models_diverge_are_left_out():
    settings = {"methods": {"ditto": ditto}, "repeats": 3, **WHOLE, "rounds": 40}
    told = benefit(regression(), linear, lrs=(1e30, 0.1), **settings)
    assert all(one is None or str(one).startswith("lr=0.1") for some in told.picked.values() for one in some)
    with pytest.raises(ArithmeticError) as error:
        benefit(regression(), linear, lrs=(1e30,), **settings)
    assert "lrs=..." in str(error.value)
    assert "isolate" not in str(error.value), "benefit does not take it"


def test_what_a_function_sets_itself_is_said():
    wrong = {"ditto": lambda **given: ditto(epochs=2, **given)}
    with raises("type", "method 'ditto'", kind=TypeError):
        benefit(regression(), linear, methods=wrong, **WHOLE)


def test_it_is_said_that_there_may_be_nothing_to_learn(regression_benefit):
    flat = replace(regression_benefit, picked={name: [None] * 3 for name in regression_benefit.picked})
    assert finding(flat, "advice", "longer").numbers == {"models": ["alone", "together", "ditto"]}


def test_learned_weights_are_judged_in_words():
    found = benefit(regression(), linear, methods={"meta_l2c": meta_l2c}, repeats=3, lrs=(0.1,), **WHOLE)
    one = torch.tensor([[0.5, 0.4, 0.1], [0.1, 0.5, 0.4], [0.2, 0.3, 0.5]], dtype=torch.float64)
    same = replace(found, weights={"meta_l2c": torch.stack([one, 0.9 * one, one])})
    assert same.agreement("meta_l2c") == pytest.approx(1.0)
    assert finding(same, "weights-alike", "meta_l2c").numbers["r"] == pytest.approx(1.0)
    other = replace(found, weights={"meta_l2c": torch.stack([one, one.T, one])}, findings={"meta_l2c": ["", "x", ""]})
    assert other.agreement("meta_l2c") < 0.5
    assert finding(other, "weights-alike", "meta_l2c").numbers["r"] == other.agreement("meta_l2c")
    assert finding(other, "weights-wrong", "meta_l2c").numbers == {"kind": "x", "splits": 1, "of": 3}
    uniform = replace(found, weights={"meta_l2c": torch.full((3, 3, 3), 1 / 3)})
    assert math.isnan(uniform.agreement("meta_l2c"))
    assert not findings(uniform, "weights-alike")


def test_models_may_depend_on_the_split():
    def wider(seed):
        dealt = resplit(regression(), seed)
        pool = dealt.pools["all"]
        extra = pool.inputs.new_zeros(len(pool), seed % 2)
        return replace(dealt, pools={"all": replace(pool, inputs=torch.cat([pool.inputs, extra], 1))})

    settings = {"methods": {}, "repeats": 3, "lrs": (0.1,), **WHOLE}
    widths = []

    def fitting(tasks, *, more=None):
        widths.append(tasks.pools["all"].inputs.shape[1])
        return nn.Linear(widths[-1], 1)

    told = benefit(wider, fitting, **settings)
    assert list(dict.fromkeys(widths)) == [3, 4]
    assert told.scores["alone"].isfinite().all()
    with raises("mismatch", "model", "3", "2", "4", "1"):
        benefit(wider, linear, **settings)


def test_one_site_with_large_losses_does_not_choose_for_the_others():
    """Amounts of d are in other units: its losses are 10,000 times as large."""
    pairs = [site(30, 1), site(20, 2), site(40, 3, -1.0), site(30, 4)]
    scaled = [*pairs[:3], (pairs[3][0], 100 * pairs[3][1])]
    settings = {"methods": {}, "repeats": 3, "lrs": (0.001, 0.1), **WHOLE}
    one, other = (
        benefit(Tasks.from_samples(some, names=["a", "b", "c", "d"], loss="mse", metric="mse"), linear, **settings)
        for some in (pairs, scaled)
    )
    CLOSE(one.scores["alone"][:, :3], other.scores["alone"][:, :3])


def test_a_metric_of_ones_own_is_given_outputs_as_models_have_them():
    def off(outputs, targets):
        return (outputs[:, 0] - targets).abs().mean()

    off.higher_is_better = False
    x, y = zip(*(site(20, k) for k in range(3)), strict=True)
    tasks = Tasks.from_samples([(a, b[:, 0]) for a, b in zip(x, y, strict=True)], loss="mse", metric=off)
    assert benefit(tasks, linear, methods={}, repeats=3, lrs=(1e-6,), **WHOLE).scores["alone"].isfinite().all()


def test_what_is_alike_on_all_splits_is_said(regression_benefit):
    lifted = {name: scores.new_ones(3, 3) + k for k, (name, scores) in enumerate(regression_benefit.scores.items())}
    same = replace(regression_benefit, scores=lifted, higher_is_better=True)
    assert all(math.isnan(one.numbers["detectable"]) for one in findings(same, "mean"))
    assert not [gain for gain in same.overall if gain.verdict != "no evidence"]


def test_splits_that_are_all_the_same_are_warned_of():
    settings = {"methods": {}, "repeats": 3, "lrs": (0.1,), **WHOLE}
    with warns("quality", "tasks"):
        benefit(lambda seed: resplit(regression(), 0), linear, **settings)


def test_refusals():
    tasks = regression()
    with raises("conflict", "metric", "'auc'"):
        benefit(tasks, linear, metrics=["auc"])
    with raises("value", "tasks"):
        benefit(lambda: tasks, linear)
    with raises("type", "tasks", "0", "3", kind=TypeError):
        benefit(lambda seed: 3, linear)
    with raises("value", "lrs", "0.1"):
        benefit(tasks, linear, lrs=0.1)
    with raises("empty", "lrs"):
        benefit(tasks, linear, lrs=[])
    for name, meant in (("lr", "lrs"), ("metric", "metrics"), ("method", "methods"), ("batchsize", "batch_size")):
        with raises("type", name, f"did you mean '{meant}'", kind=TypeError):
            benefit(tasks, linear, **{name: 1})
    settings = {"repeats": 3, **WHOLE}
    with raises("too-few", "tasks"):
        benefit(tasks.select([0]), linear, **settings)
    with raises("type", "method 'cobo'", kind=TypeError):
        benefit(tasks, linear, methods={"cobo": cobo}, **settings)
    with raises("conflict", "method 'alone'"):
        benefit(tasks, linear, methods={"alone": fedavg}, **settings)
    with raises("conflict", "site 'ditto'"):
        benefit(replace(tasks, names=("a", "ditto", "c")), linear, methods={"ditto": ditto}, **settings)
    with raises("type", "patience", kind=TypeError):
        benefit(tasks, linear, patience=3, **settings)
    table = {"site": list("ab") * 10, "age": [*range(20)], "y": [0.5 * (7 * k % 20) for k in range(20)]}
    with warns("quality", "tasks"):
        benefit(Tasks.from_frame(table), lambda: nn.Linear(1, 1), methods={}, lrs=(0.01,), **settings)
    names = iter((["a", "b", "c"], ["a", "b", "d"], ["a", "b", "c"]))
    with raises("mismatch", "tasks"):
        benefit(lambda _: replace(resplit(tasks, 0), names=tuple(next(names))), linear, **settings)
    with raises("empty", "split 'test'"):
        benefit(lambda _: tasks, linear, **settings)
    with raises("value", "repeats"):
        benefit(tasks, linear, repeats=2)


def test_standardized_targets_and_weights_are_said(regression_benefit):
    told = replace(regression_benefit, metric="mae", deviation=("score", 8.125), weighted=True)
    assert finding(told, "standardized", "column 'score'").numbers == {"deviation": 8.125, "metrics": ["mae"]}
    assert finding(told, "weighted")
    assert not findings(regression_benefit, "standardized") + findings(regression_benefit, "weighted")


@pytest.mark.parametrize(("metric", "power"), [("mae", 1), ("rmse", 1), ("mse", 2), ("r2", 0)])
def test_errors_are_in_the_unit_of_the_target_on_every_split(metric, power):
    """What a constant reaches with a target that was standardized is what it reaches with one that was not."""
    draw = torch.Generator().manual_seed(0)
    y = (10 * torch.randn(60, generator=draw) + 50 * (torch.arange(60) == 7)).tolist()  # one row spreads some splits
    table = {"site": ["a", "b", "c"] * 20, "x": torch.randn(60, generator=draw).tolist(), "y": y}

    def found(standardize):
        split = partial(Tasks.from_frame, table, loss="mse", metric=metric, standardize_target=standardize)
        settings = {"methods": {}, "repeats": 3, "rounds": 1, "lrs": (0.001,), "limit": 2, "baseline": "sklearn"}
        return benefit(lambda seed: split(seed=seed), lambda: nn.Linear(1, 1), **settings)

    own, plain = found(True), found(False)
    torch.testing.assert_close(own.constant, plain.constant, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(own.baseline["sklearn pooled"], plain.baseline["sklearn pooled"], rtol=1e-2, atol=1e-2)
    assert own.in_unit is (power > 0)


def test_evidence_near_what_is_allowed_says_so(regression_benefit):
    """Of two ways in the mean over sites each may claim with p up to 0.35 of 0.05."""
    gain = regression_benefit.overall[0]
    for p_value, verdict, close in (
        (0.0174, "gains", True),
        (0.008, "gains", False),
        (0.0184, "no evidence", True),
        (0.06, "no evidence", False),
    ):
        told = replace(regression_benefit)
        one = replace(gain, verdict=verdict, p_value=p_value, gain=0.9, low=-0.1, high=0.95)
        object.__setattr__(told, "overall", [one, *regression_benefit.overall[1:]])
        assert ("corrected for all comparisons; below 0.05 is evidence" in str(finding(told, "best"))) is close


def test_a_gain_that_just_misses_is_likely(regression_benefit):
    """A corrected p of .0184 is below the level of .05, of which means over sites have .0175; or the interval is."""
    models = dict.fromkeys([*regression_benefit.picked], [LEARNED] * 3)
    told = replace(
        regression_benefit, picked=models, quick="", constant=torch.full_like(regression_benefit.constant, 9.0)
    )
    first, *rest = told.overall
    for p_value, low, subject in ((0.0184, -0.1, "likely"), (0.076, 0.05, "likely"), (0.051, -0.01, "undecided")):
        near = replace(told)
        one = replace(first, gain=0.9, p_value=p_value, verdict="no evidence", detectable=0.95, low=low, high=0.99)
        object.__setattr__(near, "overall", [one, *(replace(gain, gain=0.0, verdict="no evidence") for gain in rest)])
        object.__setattr__(near, "gains", [])
        object.__setattr__(near, "group_gains", [])
        object.__setattr__(near, "pair_gains", [])
        assert finding(near, "advice").subject == subject
        assert ("seem to gain by all together" in str(finding(near, "advice"))) is (subject == "likely")
        said = str(finding(near, "best"))
        assert ("corrected for all comparisons; below 0.05" in said) is (low > 0 or p_value < 0.0525)
        assert (f"of a gain over training alone, over {told.flat}, corrected" in said) is (low > 0 or p_value < 0.0525)


def test_a_metric_that_is_defined_on_some_splits_is_told(regression_benefit):
    scores = {name: values.clone() for name, values in regression_benefit.scores.items()}
    for values in scores.values():
        values[0, 1] = math.nan
    assert finding(replace(regression_benefit, scores=scores), "partly-defined").numbers["splits"] == {"b": 2}
    assert not findings(regression_benefit, "partly-defined")


def test_a_simple_tool_that_gains_more_than_every_way_is_told(regression_benefit):
    alone = regression_benefit.scores["alone"]
    noise = 1 + 0.001 * torch.arange(3.0, dtype=torch.float64)[:, None]
    for pooled, told in ((0.1 * alone * noise, True), (2.0 * alone * noise, False)):
        one = findings(replace(regression_benefit, baseline={"pooled": pooled}), "simpler")
        assert [(f.subject, f.numbers["gain"] == pytest.approx(0.9, abs=0.01)) for f in one] == [
            ("pooled", True)
        ] * told
    assert not findings(regression_benefit, "simpler")


def test_rows_of_a_site_add_up_to_all_that_it_has_where_splits_differ_in_size():
    """Of eleven rows 7 or 6 are to train on, 2 for validation, 2 or 3 to test on: means of 6.5, 2 and 2.5."""
    x = torch.randn(11, 1)

    def dealt(train, val):
        own = [[(part, part)] for part in x.split([train, val, 11 - train - val])]
        return Tasks.from_samples(own[0], val=own[1], test=own[2], loss="mse", metric="mse")

    assert asked([dealt(7, 2), dealt(6, 2)])["rows"] == {"train": [6], "val": [2], "test": [3]}


def test_groups_count_where_samples_are_of_groups():
    """Five patients of four visits each at either site; a quarter of them, one or two, are tested on."""
    rows = [
        (site, 4 * k + visit + shift, k)
        for site, shift in (("a", 0), ("b", 0.5))
        for k in range(5)
        for visit in range(4)
    ]
    table = {"site": [r[0] for r in rows], "x": [r[1] / 7 for r in rows], "who": [r[2] for r in rows]}
    table |= {"y": [0.25 + 0.5 * (7 * k % 4) for k in range(40)]}  # 0.25 to 1.75, each ten times
    one = {"target": "y", "group": "who", "loss": "mse", "metric": "mse", "standardize_target": True}

    def draw(seed):
        return Tasks.from_frame(table, seed=seed, **one)

    told = benefit(draw, lambda: nn.Linear(1, 1), methods={}, repeats=3, rounds=1, lrs=(0.1,))
    assert told.test.tolist() == [4.0, 4.0]
    assert told.groups.tolist() == [1.0, 1.0]
    assert finding(told, "few-tested", "sites").numbers == {"samples": {"a": 1.0, "b": 1.0}}
    assert told.deviation[0] == "y"
    assert told.deviation[1] == pytest.approx(0.5 * 1.25**0.5)  # of four values 0.5 apart, which each patient has once


def test_it_says_what_to_do(regression_benefit):
    """Of errors that are halved or doubled everywhere, with little noise; c loses by all together."""
    alone = torch.tensor([[1.0, 1.0, 1.0], [1.1, 1.1, 1.1], [0.9, 0.9, 0.9]], dtype=torch.float64)
    noise = 1 + 0.001 * torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    models = dict.fromkeys([*regression_benefit.picked], [LEARNED] * 3)
    base = replace(
        regression_benefit,
        picked=models,
        constant=4 * alone.flip(0),
        pairs=torch.full_like(regression_benefit.pairs, torch.nan),
    )

    def advice(**scores):
        one = finding(replace(base, scores={"alone": alone, **scores}), "advice")
        return one.subject, one.numbers

    one = advice(together=0.5 * alone * noise, ditto=alone)
    assert one == ("collaborate", {"by": "together", "alone": []})
    one = advice(together=0.5 * alone * noise, ditto=0.25 * alone * noise)
    assert one == ("collaborate", {"by": "ditto", "alone": []})
    one = advice(together=alone * torch.tensor([0.1, 0.1, 2.0]) * noise, ditto=alone)
    assert one == ("collaborate", {"by": "together", "alone": ["c"]})
    assert advice(together=alone * torch.tensor([0.5, 1.0, 2.0]) * noise, ditto=alone)[0] == "starred"


def test_what_constants_stand_for_is_marked(regression_benefit):
    flat = [None] * 2 + [LEARNED]
    models = {name: [LEARNED] * 3 for name in regression_benefit.picked}
    told = replace(regression_benefit, picked={**models, "together": flat, "pairs": flat})
    assert finding(told, "mean", "together").numbers["constants"]
    assert "gain" in finding(told, "mean", "together").numbers
    assert "by all together†: " in benefit_answer(told)
    assert len(re.findall(r"\)\*?†", benefit_table(told))) == 5  # three sites and two means; none by ditto
    told = replace(told, picked={**told.picked, "alone": flat})
    assert finding(told, "mean", "together").numbers == {"constants": True}
    table = benefit_table(told)
    assert re.split(r"\s{2,}", table.splitlines()[2])[4 + ("constant" in table.splitlines()[0])] == "–†"
    assert table.count("–†") == 5
    assert "†: on half of the splits or more the mean of the targets of each site took the place of models." in table
    assert "†" not in benefit_table(replace(regression_benefit, picked=models))


def test_errors_that_are_many_times_as_large_are_told_in_percent_too(regression_benefit):
    """c's error is 3.5, 4 and 4.5 times as large."""
    scores = {name: one.clone() for name, one in regression_benefit.scores.items()}
    scores["together"][:, 2] = scores["alone"][:, 2] * torch.tensor([3.5, 4.0, 4.5])
    row = re.split(r"\s{2,}", benefit_table(replace(regression_benefit, scores=scores)).splitlines()[4])
    assert any(cell.startswith(f"−{100 * ((3.5 * 4 * 4.5) ** (1 / 3) - 1):.1f} (") for cell in row)


def test_sites_that_are_numbers_are_called_so_in_errors():
    tasks = replace(regression(), names=("1", "2", "3"))
    with raises("diverged", "node 'site 1 alone'", kind=ArithmeticError):
        benefit(tasks, linear, methods={}, repeats=3, lrs=(1e30,), **{**WHOLE, "rounds": 40})


def test_a_way_that_constants_replaced_is_not_the_best(regression_benefit):
    """All together has half the error, ditto nine tenths; but constants took the place of the one model of all."""
    alone, noise = (
        regression_benefit.scores["alone"],
        1 + 0.05 * torch.tensor([[1.0], [-1.0], [0.5]], dtype=torch.float64),
    )
    scores = {"alone": alone, "together": 0.5 * alone * noise, "ditto": 0.9 * alone * noise}
    models = dict.fromkeys([*regression_benefit.picked], [LEARNED] * 3)
    told = replace(regression_benefit, scores=scores, picked=models)
    assert finding(told, "best").subject == "together"
    stood = replace(told, picked={**models, "together": [None] * 3})
    assert finding(stood, "best").subject == "ditto"


def test_a_quick_run_that_shows_harm_says_so(regression_benefit):
    alone, noise = regression_benefit.scores["alone"], 1 + 0.001 * torch.arange(3.0, dtype=torch.float64)[:, None]
    models = dict.fromkeys([*regression_benefit.picked], [LEARNED] * 3)
    scores = {"alone": alone, "together": 3 * alone * noise, "ditto": alone * noise}
    pairs, without = (
        torch.full_like(regression_benefit.pairs, torch.nan),
        torch.full_like(regression_benefit.without, torch.nan),
    )
    told = replace(regression_benefit, scores=scores, picked=models, pairs=pairs, without=without)
    advice = finding(told, "advice")
    assert advice.subject == "again"
    assert str(advice).startswith("So nothing is decided, except that collaborating by all together harms: ")
