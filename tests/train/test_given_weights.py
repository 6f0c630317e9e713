"""Weights that a graph comes with are kept where the method keeps weights; else a warning says that they are not."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.transforms import AddSelfLoops, BaseTransform
from torch_geometric.utils import dense_to_sparse

from graphcollab import Method, Phases, Tasks, run
from graphcollab._base.errors import OtherRunError
from graphcollab.components import Exchange, Fit, KeepWeights
from graphcollab.methods import l2c, local
from graphcollab.persistence import LearnedGraph
from graphcollab.transforms import Ring, WithSelfLoops
from tests.raising import raises, warns

NAMES = ("ada", "bob", "cy")
EDGES, WEIGHT = torch.tensor([[0, 1, 2], [1, 0, 0]]), torch.tensor([0.5, 0.25, 2.0])  # bob hears ada, ada both others
MATRIX = torch.tensor([[0, 0.25, 2], [0.5, 0, 0], [0, 0, 0]])  # receivers in rows
NAMED = [("ada", "bob", 0.5), ("bob", "ada", 0.25), ("cy", "ada", 2.0)]
X = torch.arange(24.0).view(12, 2).sin()
TASKS = Tasks.from_samples(
    [(X + k, torch.arange(12) % 2) for k in range(3)], names=NAMES, val_fraction=0, test=[(X, torch.arange(12) % 2)] * 3
)
NET = nn.Linear(2, 2)


GRAPHS = {
    "Data": Data(num_nodes=3, edge_index=EDGES, edge_weight=WEIGHT),
    "unsorted": Data(num_nodes=3, edge_index=EDGES.flip(1), edge_weight=WEIGHT.flip(0).double()),
    "learned": LearnedGraph(num_nodes=3, edge_index=EDGES.flip(0).flip(0), edge_weight=WEIGHT, name=list(NAMES)),
    "named otherwise": LearnedGraph(num_nodes=3, edge_index=2 - EDGES, edge_weight=WEIGHT, name=[*NAMES[::-1]]),
    "pairs": NAMED,
    "matrix": Data(**dict(zip(("edge_index", "edge_weight"), dense_to_sparse(MATRIX.T), strict=True)), num_nodes=3),
}


def keeping(**slots):
    return Method(
        "kept", local=Fit(batch_size=12), weigh=KeepWeights(), exchange=Exchange("x_start", "update"), **slots
    )


def play(graph, rounds=1, method=None, **settings):
    return run(method or keeping(), TASKS, NET, graph=graph, rounds=rounds, **settings)


@pytest.fixture(scope="module")
def update():
    """What every node learns in the first round."""
    alone = run(Method("alone", local=Fit(batch_size=12)), TASKS, NET, rounds=1).stacks.part("all")
    return alone - initial_row()


def initial_row():
    return torch.cat([one.detach().flatten() for one in NET.parameters()])


@pytest.mark.parametrize("form", GRAPHS)
def test_models_are_mixed_by_the_weights_that_were_given(form, update):
    result = play(GRAPHS[form])
    assert {(j, i, weight) for j, i, weight in result.graph().named_edges()} == {*NAMED}
    expected = torch.stack([0.25 * update[1] + 2 * update[2], 0.5 * update[0], torch.zeros(6)])
    torch.testing.assert_close(result.stacks.part("all"), initial_row() + expected)


@pytest.mark.parametrize("graph", [None, Data(edge_index=EDGES, edge_attr=torch.ones(3), num_nodes=3), Ring()])
def test_edges_without_weights_have_none_to_keep(graph):
    with raises("missing", "graph"):
        play(graph)


def test_weights_may_be_given_by_what_prepares_the_graph():
    class Weigh(BaseTransform):
        def forward(self, data):
            data = copy.copy(data)
            data.edge_weight = torch.full((data.num_edges,), 0.25)
            return data

    assert play(Ring(), method=keeping(prepare=Weigh())).graph().edge_weight.tolist() == [0.25] * 6
    with raises("missing", "graph"):
        play(Ring(), method=keeping(prepare=WithSelfLoops()))


def test_a_file_has_weights_too(tmp_path):
    graph = LearnedGraph.from_csv(play(GRAPHS["Data"]).graph().to_csv(tmp_path / "graph.csv"))
    assert torch.equal(play(graph).stacks.part("all"), play(GRAPHS["Data"]).stacks.part("all"))


@pytest.mark.parametrize(("prepare", "own"), [(WithSelfLoops(), 0.0), (AddSelfLoops("edge_weight", 0.25), 0.25)])
def test_self_loops_that_are_added_weigh_what_the_transform_says(prepare, own, update):
    result = play(GRAPHS["Data"], method=keeping(prepare=prepare))
    torch.testing.assert_close(result.stacks.part("all")[2], initial_row() + own * update[2])
    assert {*NAMED} < {*result.graph().named_edges()}


def test_weights_are_kept_in_all_rounds_and_phases_and_are_part_of_the_run(tmp_path):
    method = Phases(keeping(), 2, keeping())
    straight, resumed = (
        play(GRAPHS["Data"], 4, method),
        [play(GRAPHS["Data"], rounds, method, checkpoint=tmp_path) for rounds in (3, 4)],
    )
    assert torch.equal(straight.stacks.part("all"), resumed[1].stacks.part("all"))
    assert {*straight.graph().named_edges()} == {*NAMED}
    other = Data(num_nodes=3, edge_index=EDGES, edge_weight=2 * WEIGHT)
    with raises("other-run", "edge_weight", kind=OtherRunError):
        play(other, 5, method, checkpoint=tmp_path)


@pytest.mark.parametrize("method", [l2c(), Phases(local(), 1, keeping())])
def test_a_warning_says_that_weights_are_not_read(method):
    tasks = TASKS.hold_out(0.5)
    with warns("no-effect", "graph"):
        run(method, tasks, NET, graph=GRAPHS["Data"], rounds=2)
    for silent in (EDGES, Data(num_nodes=3, edge_index=EDGES, edge_weight=torch.ones(3))):
        run(method, tasks, NET, graph=silent, rounds=2)


def test_weights_that_cannot_be_read_are_refused():
    with raises("conflict", "graph", "'ada'", "'bob'"):
        play([*NAMED, ("ada", "bob", 0.75)])
    with raises("shape", "edge_weight", "3", "1"):
        play(Data(num_nodes=3, edge_index=EDGES, edge_weight=WEIGHT[:, None]))
    with raises("shape", "edge_weight", "3", "2"):
        play(Data(num_nodes=3, edge_index=EDGES, edge_weight=WEIGHT[:2]))
