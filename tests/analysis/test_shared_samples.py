"""Seeds that share samples are found, and intervals over them are corrected."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from graphcollab import Tasks, compare, methods, report, run
from graphcollab.analysis import Comparison, resplit
from graphcollab.analysis.shared_samples import correction, identify_samples
from graphcollab.analysis.trial import Trial
from graphcollab.train.identity import identify_tasks
from tests.raising import raises

SEEDS = range(4)


def draws(seed: int, count: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, generator=draw), torch.randint(2, (count,), generator=draw)


def resplits(seed: int) -> Tasks:
    return resplit(Tasks.from_samples([draws(0, 40), draws(1, 80)]), seed, test=0.25, val=0.2)


def resplits_by_hand(seed: int) -> Tasks:
    """Every site's samples in another order, a third for testing and 16 of 80 for validation, and scaled inputs."""
    nodes = []
    for x, y in (draws(0), draws(1)):
        order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
        nodes.append(((1 + seed) * x[order], y[order]))
    return Tasks.from_samples([(x[20:], y[20:]) for x, y in nodes], test=[(x[:20], y[:20]) for x, y in nodes])


def table(seed: int, pooled: str = "sums") -> Tasks:
    x, _ = draws(0)
    rows = {"site": [k % 2 for k in range(60)], "x": x[:, 0].tolist(), "y": (x[:, 1] + x[:, 2].exp()).tolist()}
    return Tasks.from_frame(rows, standardize_target=True, pooled=pooled, seed=seed, val_fraction=0)


def partitions(seed: int, used: int = 80) -> Tasks:
    """As many of 80 training and 40 test samples as are used, dealt to two nodes."""
    draw = torch.Generator().manual_seed(seed)
    whole = Tasks.from_samples([draws(0, 80)], test=[draws(1, 40)])
    order = torch.randperm(80, generator=draw)[:used], torch.randperm(40, generator=draw)[: used // 2]
    splits = {
        name: replace(whole.splits[name], index=index, ptr=torch.tensor([0, len(index) // 2, len(index)]))
        for name, index in zip(("train", "test"), order, strict=True)
    }
    return Tasks(whole.pools, splits)


def fresh(seed: int) -> Tasks:
    return Tasks.from_samples([draws(2 * seed)], test=[draws(2 * seed + 1)])


def fresh_numbers(seed: int) -> Tasks:
    x, _ = draws(seed, 400)
    return Tasks.from_samples([(x[:200], x[:200, 0])], test=[(x[200:], x[200:, 0])], loss="mse", metric="mae")


def same_tasks(seed: int) -> Tasks:
    return resplits(0)


@pytest.mark.parametrize(
    ("tasks", "ratio", "said"),
    [
        (resplits, 30 / 72, "times 1/n + 0.42, not 1/n (Nadeau and Bengio)"),
        (resplits_by_hand, 40 / 64, "corrected"),
        (table, 12 / 48, "corrected"),
        (lambda seed: table(seed, "per_site"), 12 / 48, "corrected"),
        (partitions, 40 / 80, "corrected"),
        (lambda seed: partitions(seed, 20), 10 / 20 * 30 / 120, "corrected"),
        (fresh, 0, ""),
        (fresh_numbers, 0, ""),
        (same_tasks, 0, "intervals are over seeds of the same split, and say nothing of other samples"),
    ],
)
def test_what_seeds_share(tasks, ratio, said):
    seeds = [(identify_tasks(tasks(seed)), identify_samples(tasks(seed))) for seed in SEEDS]
    found, about = correction(seeds, None)
    assert found == pytest.approx(ratio)
    assert said in about if said else about == ""
    assert correction(seeds, "seeds")[0] == 0
    if tasks in (resplits, partitions):
        assert correction(seeds, "seeds")[1].startswith("intervals are over other seeds on these samples, and say noth")
    if tasks is same_tasks:
        with raises("conflict", "over"):
            correction(seeds, "samples")
    assert correction(seeds[:1], None) == (0, "")
    assert correction([*seeds, ("", None)], None) == (0, "")
    with raises("missing", "over", "'samples'"):
        correction([*seeds, ("", None)], "samples")


def test_many_tests_are_said():
    samples = identify_samples(Tasks.from_samples([draws(0, 25)], test=[draws(1, 60)]))  # five for validation
    about = correction([("a", samples), ("b", samples)], None)
    assert about[0] == 3
    assert about[1].endswith("1/n + 3, not 1/n (Nadeau and Bengio), which is too careful with so many test samples")


def test_tests_that_all_nodes_share_count_once():
    tasks = partitions(0)
    test = replace(tasks.splits["test"], index=torch.arange(40).repeat(2), ptr=torch.tensor([0, 40, 80]))
    assert identify_samples(Tasks(tasks.pools, {**tasks.splits, "test": test})).test == 40


@pytest.fixture
def comparison() -> Comparison:
    """Differences 1, 2, 3 and 6 points on four resplits."""
    gains = (0.01, 0.02, 0.03, 0.06)
    known = {seed: (identify_tasks(resplits(seed)), identify_samples(resplits(seed))) for seed in SEEDS}
    chosen = {
        name: [
            Trial(name, seed, {}, 0, {"mean": 0.5 + by}, tasks=known[seed][0], samples=known[seed][1])
            for seed, by in enumerate(values)
        ]
        for name, values in {"local": (0, 0, 0, 0), "l2c": gains}.items()
    }
    return Comparison([], chosen, True)


def test_corrected_by_hand(comparison):
    """30 test and 72 training samples: the variance of the mean is 14 / 3 · (1 / 4 + 30 / 72) = 28 / 9."""
    found = comparison.paired("l2c", "local")
    error = math.sqrt(28 / 9) / 100
    reach = stats.t.ppf(0.975, 3) * error
    assert (found.mean, found.low, found.high) == pytest.approx((0.03, 0.03 - reach, 0.03 + reach))
    assert found.p_value == pytest.approx(2 * stats.t.sf(0.03 / error, 3))
    assert (found.ratio, found.std) == pytest.approx((30 / 72, math.sqrt(14 / 3) / 100))
    plain = comparison.paired("l2c", "local", over="seeds")
    assert plain.p_value == pytest.approx(float(stats.ttest_1samp([1, 2, 3, 6], 0).pvalue))
    assert plain.ratio == 0
    with raises("value", "over", "'samples'", "'partitions'"):
        str(report.paired_table(comparison, over="partitions"))


def test_the_table_says_what_was_done(comparison):
    told = str(report.paired_table(comparison)).splitlines()
    assert told[-1].startswith("intervals and p-values are corrected for samples that seeds share: ")
    assert told[-2] == ""
    plain = str(report.paired_table(comparison, over="seeds")).splitlines()
    assert plain[-1] == "intervals are over other seeds on these samples, and say nothing of other samples"
    assert plain[2] != told[2]


def test_weights_of_the_same_nodes_are_compared_between_seeds():
    def three(seed: int) -> Tasks:
        return resplit(Tasks.from_samples([draws(0, 40), draws(1, 80), draws(2, 60)]), seed)

    model = lambda: torch.nn.Linear(3, 2)  # noqa: E731
    found = compare({"l2c": methods.l2c, "dpsgd": methods.dpsgd}, three, model, SEEDS, rounds=2)
    told = found.agreement("l2c")
    weights = []
    for seed in SEEDS:
        graph = run(methods.l2c(), three(seed), model, rounds=found.chosen["l2c"][0].rounds, seed=seed).graph()
        pairs = {(to, by): weight for by, to, weight in graph.named_edges()}
        weights.append([pairs[f"node {i}", f"node {j}"] for i in range(3) for j in range(3) if i != j])
    alike = np.corrcoef(weights)
    assert told == pytest.approx(alike[np.triu_indices(4, 1)].mean(), abs=1e-6)
    assert math.isnan(found.agreement("dpsgd"))  # its weights are not learned
    line = str(report.results_table(found)).splitlines()[-1]
    word = "agree" if told >= 0.5 else "differ: do not read them as who helps whom"
    assert line == f"On different seeds the weights that l2c learned {word} (mean correlation {told:.2f}).".replace(
        "-", "−"
    )
    other = compare({"l2c": methods.l2c}, fresh_three, model, SEEDS, rounds=1)
    assert math.isnan(other.agreement("l2c"))  # nodes that have nothing in common


def fresh_three(seed: int) -> Tasks:
    return resplit(Tasks.from_samples([draws(10 * seed + k) for k in range(3)]), 0)
