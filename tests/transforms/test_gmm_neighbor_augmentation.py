"""Hand cases, degenerate cases, and a plain-Python reading of the algorithm with scipy's densities."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from scipy.stats import norm
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab.transforms import GMMNeighborAugmentation
from tests.raising import raises

Receiver = tuple[Sequence[float], Sequence[float]]  # scores of the bag, and of the candidates


def star(*receivers: Receiver) -> Data:
    """Every receiver hears the same senders: first its bag, then its candidates."""
    sender, receiver, score, member = [], [], [], []
    for i, (bag, candidates) in enumerate(receivers):
        values = [*bag, *candidates]
        sender += [len(receivers) + k for k in range(len(values))]
        receiver += [i] * len(values)
        score += values
        member += [k < len(bag) for k in range(len(values))]
    most = max((len(bag) + len(candidates) for bag, candidates in receivers), default=0)
    return Data(
        num_nodes=len(receivers) + most,
        edge_index=torch.tensor([sender, receiver], dtype=torch.int64),
        edge_score=torch.tensor(score, dtype=torch.float64),
        edge_member=torch.tensor(member, dtype=torch.bool),
    )


def bags(data: Data, receivers: int, max_iter: int = 100) -> list[list[float]]:
    out = GMMNeighborAugmentation(max_iter=max_iter)(data)
    assert bool(out.edge_member.all())
    return [sorted(out.edge_score[out.edge_index[1] == i].tolist()) for i in range(receivers)]


def alone(bag: Sequence[float], candidates: Sequence[float], max_iter: int = 100) -> list[float]:
    return bags(star((bag, candidates)), 1, max_iter)[0]


def by_hand(bag: Sequence[float], candidates: Sequence[float], max_iter: int = 100) -> list[float]:
    """Algorithm 3 in plain Python, with the normal density in place of Φ."""
    values = [*bag, *candidates]
    one = set(range(len(bag)))
    zero = set(range(len(bag), len(values)))
    given = set(one)
    for _ in range(max_iter):
        if not one or not zero:
            break
        sets = [[values[j] for j in sorted(members)] for members in (zero, one)]
        mean = [statistics.mean(many) for many in sets]  # exact: that of equal numbers is that number
        sigma = [
            math.sqrt(math.fsum((s - m) ** 2 for s in many) / len(many)) for many, m in zip(sets, mean, strict=True)
        ]
        flat = [s < 1e-6 * (max(values) - min(values)) or s == 0 for s in sigma]
        if all(flat):
            to_zero = {j for j, s in enumerate(values) if abs(s - mean[0]) < abs(s - mean[1])}
        else:
            sigma = [sigma[1 - r] if flat[r] else sigma[r] for r in (0, 1)]
            share = [len(many) / len(values) for many in sets]
            log = [
                [math.log(share[r]) + norm.logpdf(s, mean[r], sigma[r]) for s in values]
                if extreme(values, mean[r], sigma[r])
                else np.log([share[r] * norm.pdf(s, mean[r], sigma[r]) for s in values])
                for r in (0, 1)
            ]
            to_zero = {j for j in range(len(values)) if log[0][j] > log[1][j] + 1e-9 * (1 + abs(log[1][j]))}
        old, one, zero = one, set(range(len(values))) - to_zero, to_zero
        if not one:
            return sorted(values[j] for j in given)
        if one == old:
            break
    return sorted(values[j] for j in one)


def extreme(values: Sequence[float], mean: float, sigma: float) -> bool:
    """Whether a density is 0 in double precision, though its logarithm is a number."""
    return max(abs(s - mean) for s in values) > 30 * sigma


def test_a_candidate_like_the_bag_joins_it() -> None:
    assert alone([0.90, 0.92, 0.88], [0.10, 0.12, 0.91]) == [0.88, 0.90, 0.91, 0.92]


def test_candidates_unlike_the_bag_do_not() -> None:
    assert alone([0.90, 0.92, 0.88], [0.10, 0.12, 0.14]) == [0.88, 0.90, 0.92]


def test_a_neighbor_unlike_the_bag_leaves_it() -> None:
    assert alone([0.90, 0.92, 0.88, 0.91, 0.11], [0.10, 0.12, 0.09, 0.13]) == [0.88, 0.90, 0.91, 0.92]


def gaussians(seed: int) -> tuple[list[float], list[float]]:
    draw = np.random.default_rng(seed)
    return draw.normal(1, 0.05, 20).tolist(), draw.normal(0, 0.05, 20).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_two_gaussians_are_told_apart(seed: int) -> None:
    near, far = gaussians(seed)
    assert alone(near[:5], [*near[5:], *far]) == sorted(near)


def test_two_gaussians_over_many_draws() -> None:
    # A bag that happens to be narrow leaves some of its kin with the candidates: the algorithm ends where it is best
    # nearby. Plain Python says the same of every draw, and nobody ever joins the wrong bag.
    draws = [gaussians(seed) for seed in range(50)]
    receivers = [(near[:5], [*near[5:], *far]) for near, far in draws]
    found = bags(star(*receivers), len(receivers))
    assert found == [by_hand(*each) for each in receivers]
    assert all(set(bag) <= set(near) for bag, (near, _) in zip(found, draws, strict=True))
    assert sum(len(bag) == 20 for bag in found) >= 45


def test_scores_of_neighbors_may_be_the_lower_ones() -> None:
    assert alone([0.10, 0.12], [0.90, 0.92, 0.11, 0.88]) == [0.10, 0.11, 0.12]


@pytest.mark.parametrize(
    ("bag", "candidates", "expected"),
    [
        ([0.9, 0.1], [], [0.1, 0.9]),  # no candidates
        ([], [0.9, 0.1], []),  # an empty bag stays empty
        ([], [], []),
        ([0.9], [0.1], [0.9]),  # both sets of one score: the nearer mean
        ([0.9, 0.9], [0.1, 0.1, 0.9], [0.9, 0.9, 0.9]),
        ([0.5, 0.5], [0.5], [0.5, 0.5, 0.5]),  # all the same: at equal distance, to the bag
        ([0.9], [0.1, 0.12, 0.13], [0.9]),  # a bag of one takes the candidates' variance
        ([0.9], [0.1, 0.12, 0.91], [0.9]),  # which is so wide that the candidates' greater share decides: all leave
        ([0.9, 0.92, 0.88], [0.1], [0.88, 0.9, 0.92]),  # and one candidate the bag's
        ([0.3, 0.3, 0.3], [0.1, 0.1, 0.1], [0.3, 0.3, 0.3]),  # 3 · 0.1 / 3 is not 0.1
        ([0.635, 0.709], [0.709, 0.783], [0.635, 0.709, 0.709]),  # halfway between two equally wide sets: to the bag
        ([1e-300, 3e-300], [0.0, 1e300], [0.0, 1e-300, 3e-300]),
        ([-1.7e308, -1.7e308], [1.7e308, -1.7e308], [-1.7e308] * 3),  # a range that overflows
    ],
)
def test_degenerate_cases(bag: list[float], candidates: list[float], expected: list[float]) -> None:
    assert alone(bag, candidates) == pytest.approx(expected, rel=1e-15, abs=0)


def test_a_bag_that_would_be_emptied_stays() -> None:
    # The bag's scores surround the candidates', whose share is so great that all seem to be candidates.
    bag, candidates = [0.45, 0.55], [0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 0.5, 0.48, 0.52] * 8
    assert len(by_hand(bag, candidates)) == 2
    data = star((bag, candidates))
    out = GMMNeighborAugmentation()(data)
    assert out.edge_index[0].tolist() == [1, 2]


def test_almost_equal_scores_are_no_spike() -> None:
    # without a floor, the bag's density at .9 + 2e-9 would be 0, though 4 · 10⁻⁹ is nothing beside the range
    bag = [0.9, 0.9 + 1e-12, 0.9 - 1e-12]
    assert alone(bag, [0.1, 0.12, 0.9 + 2e-9]) == sorted([*bag, 0.9 + 2e-9])


def test_max_iter_ends_it() -> None:
    bag, candidates = [0.7, 0.9, 0.9], [1.0, 0.7, 0.0, 0.9, 0.1, 0.6]
    steps = [alone(bag, candidates, max_iter=n) for n in (1, 2, 100)]
    assert steps == [by_hand(bag, candidates, n) for n in (1, 2, 100)]
    assert steps[0] != steps[1] != steps[2]


scores = st.lists(st.integers(0, 40).map(lambda k: k / 40 + (k * 7 % 11) / 1000), max_size=8)


@settings(max_examples=200)
@given(scores, scores)
@example([0.053000000000000005], [0.053000000000000005] * 3)  # three times it, by three, is another number
def test_against_plain_python(bag: list[float], candidates: list[float]) -> None:
    assert alone(bag, candidates) == pytest.approx(by_hand(bag, candidates))


@settings(max_examples=50)
@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_many_receivers_at_once_and_any_order(receivers: list[Receiver], shuffle) -> None:  # type: ignore[no-untyped-def]
    data = star(*receivers)
    expected = [alone(*each) for each in receivers]
    assert bags(data, len(receivers)) == expected
    place = list(range(data.num_nodes))
    order = list(range(data.num_edges))
    shuffle.shuffle(place)
    shuffle.shuffle(order)
    moved = Data(
        num_nodes=data.num_nodes,
        edge_index=torch.tensor(place)[data.edge_index][:, order],
        edge_score=data.edge_score[order],
        edge_member=data.edge_member[order],
    )
    found = bags(moved, data.num_nodes)
    assert [found[place[i]] for i in range(len(receivers))] == expected


def looped() -> Data:
    return Data(
        num_nodes=4,
        edge_index=torch.tensor([[3, 2, 1, 0, 1], [0, 0, 0, 0, 1]]),
        edge_score=torch.tensor([0.1, 0.5, 0.9, math.nan, 0.0]),
        edge_member=torch.tensor([False, False, True, False, True]),
        edge_weight=torch.arange(5),
        kind=torch.arange(4),
    )


def test_self_loops_stay_and_are_not_judged() -> None:
    data = looped()
    data.edge_score[1] = 0.12
    before = {name: value.clone() for name, value in data if isinstance(value, torch.Tensor)}
    out = GMMNeighborAugmentation()(data)
    assert out.edge_index.tolist() == [[0, 1, 1], [0, 0, 1]]
    assert out.edge_weight.tolist() == [3, 2, 4]  # all fields of edges are aligned
    assert out.edge_member.tolist() == [False, True, True]
    assert out.kind.tolist() == [0, 1, 2, 3]
    assert all(torch.equal(data[name].nan_to_num(7), value.nan_to_num(7)) for name, value in before.items())


def test_without_drop_all_edges_stay() -> None:
    data = looped()
    data.edge_score[1] = 0.12
    out = GMMNeighborAugmentation(drop=False)(data)
    assert out.edge_index.tolist() == [[0, 1, 2, 3, 1], [0, 0, 0, 0, 1]]
    assert out.edge_member.tolist() == [False, True, False, False, True]
    assert out.edge_weight.tolist() == [3, 2, 1, 0, 4]


def test_whole_numbers() -> None:
    data = star(([0.90, 0.92, 0.88], [0.10, 0.12, 0.91]))
    data.edge_score = (data.edge_score * 100).long()
    transform = GMMNeighborAugmentation()
    assert transform(data).edge_score.tolist() == [90, 92, 88, 91]
    assert isinstance(transform, BaseTransform)
    assert repr(transform) == "GMMNeighborAugmentation(drop=True, max_iter=100)"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"edge_score": torch.tensor([0.1, math.nan, 0.9, 0.0, 0.0])}, ("not-finite", "edge_score")),
        ({"edge_score": torch.tensor([0.1, 0.0, -math.inf, 0.0, 0.0])}, ("not-finite", "edge_score")),
        ({"edge_score": None}, ("missing", "edge_score")),
        ({"edge_member": None}, ("missing", "edge_member")),
        ({"edge_member": torch.ones(5)}, ("shape", "edge_member")),
        ({"edge_score": torch.ones(5, 1)}, ("shape", "edge_score")),
        ({"edge_score": torch.ones(4)}, ("shape", "edge_score")),
        ({"edge_index": torch.tensor([[3, 2, 1, 0, 9], [0, 0, 0, 0, 1]])}, ("range", "edge_index")),
        ({"edge_index": torch.tensor([[3, 3, 1, 0, 1], [0, 0, 0, 0, 1]])}, ("duplicate", "edge_index")),
    ],
)
def test_bad_graphs(change: dict[str, torch.Tensor | None], wanted: tuple[str, ...]) -> None:
    data = looped()
    for name, value in change.items():
        data[name] = value
    with raises(*wanted):
        GMMNeighborAugmentation()(data)


def test_bad_settings() -> None:
    with raises("value", "max_iter"):
        GMMNeighborAugmentation(max_iter=0)


def test_ten_thousand_receivers() -> None:
    near = torch.arange(20).repeat(10_000) < 10
    data = Data(
        num_nodes=10_020,
        edge_index=torch.stack([torch.arange(20).repeat(10_000) + 10_000, torch.arange(10_000).repeat_interleave(20)]),
        edge_score=near + 0.01 * (torch.arange(200_000) * 7 % 10),  # all ten levels in either set
        edge_member=torch.arange(20).repeat(10_000) % 10 < 4,
    )
    data.edge_member &= near
    assert torch.equal(GMMNeighborAugmentation(drop=False)(data).edge_member, near)
