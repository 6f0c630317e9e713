"""How many messages runs send, round by round."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Tasks, methods, run
from graphcollab.components import Participation
from graphcollab.models import MLP
from graphcollab.testing import Scene
from graphcollab.train import RecordGraph
from graphcollab.transforms import Ring

TASKS = Scene.small(torch.float32).tasks


def model():
    return MLP(4, (6,), 3)


def totals(method, rounds=3, graph=None, **settings):
    history = run(method, TASKS, model, graph, rounds=rounds, **settings).history
    return history.table("messages_sent").sum(1).tolist()


def test_all_pairs_of_six_nodes():
    assert totals(methods.dpsgd()) == [30, 60, 90]
    assert totals(methods.dpsgd(), graph=Ring()) == [12, 24, 36]
    assert totals(methods.dpsgd(), evaluate_every=2) == [60, 90]


def test_through_a_server_and_not_at_all():
    assert totals(methods.fedavg()) == [12, 24, 36]
    assert totals(methods.fedavg(fraction=0.5)) == [6, 12, 18]
    assert totals(methods.local()) == [0, 0, 0]


def test_edges_that_are_dropped_send_no_more():
    """After the second round, of index 1, everybody drops two of five neighbors."""
    assert totals(methods.l2c(drop_round=1, drop_fraction=None, drop_count=2), rounds=4) == [30, 60, 78, 96]


def test_nodes_that_are_not_there():
    """Node 0 joins in the second round: 5 nodes, then 6."""
    assert totals(methods.dpsgd(), participation=Participation(joins={0: 1})) == [20, 50, 80]


@pytest.mark.parametrize("name", ["l2c", "cobo", "panm", "fomo", "pens"])
@pytest.mark.filterwarnings("ignore:.*never played")
def test_it_is_what_recorded_graphs_say(name):
    history = run(getattr(methods, name)(), TASKS, model, rounds=3, callbacks=[RecordGraph()]).history
    counts = [int(((e[0] != e[1]) & (w != 0)).sum()) for _, (e, w) in sorted(history.graphs.items())]
    assert history.table("messages_sent").sum(1).tolist() == torch.tensor(counts).cumsum(0).tolist()


def test_a_resumed_run_goes_on_counting(tmp_path):
    run(methods.dpsgd(), TASKS, model, rounds=2, checkpoint=tmp_path)
    assert totals(methods.dpsgd(), checkpoint=tmp_path) == [30, 60, 90]


def test_tasks_of_one_node():
    x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    result = run(methods.dpsgd(), Tasks.from_samples([(x, y)]), model, rounds=2)
    assert result.history.last("messages_sent").tolist() == [0]
