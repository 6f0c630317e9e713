from __future__ import annotations

import networkx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from graphcollab.transforms import RandomBipartite
from tests.raising import raises


@pytest.mark.parametrize("count", [20, 21])
@pytest.mark.parametrize("degree", [1, 4, 10])
def test_everybody_listens_to_degree_nodes_of_the_other_group(count: int, degree: int) -> None:
    edge_index = RandomBipartite(degree, seed=3)(Data(num_nodes=count)).edge_index
    assert edge_index[1].bincount(minlength=count).tolist() == [degree] * count
    assert networkx.is_bipartite(networkx.Graph(edge_index.t().tolist()))


def test_a_full_degree_is_the_complete_bipartite_graph() -> None:
    graph = networkx.Graph(RandomBipartite(5)(Data(num_nodes=10)).edge_index.t().tolist())
    assert networkx.is_isomorphic(graph, networkx.complete_bipartite_graph(5, 5))


def test_undirected_adds_every_reverse() -> None:
    one_way = RandomBipartite(3, seed=1)(Data(num_nodes=16)).edge_index
    both = RandomBipartite(3, seed=1, undirected=True)(Data(num_nodes=16)).edge_index
    assert is_undirected(both)
    pairs = {tuple(pair) for pair in one_way.t().tolist()}
    assert {tuple(pair) for pair in both.t().tolist()} == pairs | {(i, j) for j, i in pairs}


def test_seeds_give_different_graphs_and_all_pairs_occur_equally_often() -> None:
    count, degree, seeds = 6, 2, 600
    seen = torch.zeros(count, count)
    for seed in range(seeds):
        sender, receiver = RandomBipartite(degree, seed=seed)(Data(num_nodes=count)).edge_index
        seen[receiver, sender] += 1
    # A pair is in different groups with probability 3/5, and then an edge with probability 2/3.
    off_diagonal = seen[~torch.eye(count, dtype=torch.bool)] / seeds
    assert float(off_diagonal.mean()) == pytest.approx(0.4)
    assert float((off_diagonal - 0.4).abs().max()) < 0.08  # four standard deviations


def test_draws_of_one_receiver_are_uniform_over_subsets() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(900):
        edge_index = RandomBipartite(2, seed=seed)(Data(num_nodes=8)).edge_index
        # The senders as places among the other group in its ascending order: six subsets of size 2.
        other = sorted(set(range(8)) - _group_of_zero(edge_index))
        chosen = tuple(other.index(j) for j in edge_index[0][edge_index[1] == 0].tolist())
        counts[chosen] = counts.get(chosen, 0) + 1
    assert len(counts) == 6
    assert max(abs(value - 150) for value in counts.values()) < 50


def _group_of_zero(edge_index: torch.Tensor) -> set[int]:
    full = networkx.Graph(edge_index.t().tolist())
    color = networkx.bipartite.color(full)
    return {node for node, side in color.items() if side == color[0]}


@pytest.mark.parametrize("count", [0, 1, 5])
def test_degree_above_the_smaller_group(count: int) -> None:
    with raises("range", "degree", f"{count // 2} nodes"):
        RandomBipartite(3)(Data(num_nodes=count))


@pytest.mark.parametrize(("settings", "name"), [({"degree": 0}, "degree"), ({"degree": 1, "seed": -1}, "seed")])
def test_bad_settings(settings: dict[str, int], name: str) -> None:
    with raises("value", name):
        RandomBipartite(**settings)
