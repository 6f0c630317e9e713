from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from graphcollab import run
from graphcollab.comm import Relation
from graphcollab.methods import l2c, local
from graphcollab.models import MLP
from graphcollab.persistence import History
from graphcollab.testing import Scene
from graphcollab.train import Callback, Progress, RecordGraph

METHOD = l2c(epochs=1, lr=0.1, batch_size=4, drop_round=2, drop_fraction=0.5)


def play(rounds, callbacks, folder=None, **settings):
    names = ("a,b", 'the "c"', "d", "e\nf", "g", "h")
    tasks = replace(Scene.small(torch.float32).tasks, names=names)
    model = lambda: MLP(4, (6,), 3)  # noqa: E731
    return run(METHOD, tasks, model, rounds=rounds, callbacks=callbacks, checkpoint=folder, **settings)


def without_seconds(path):
    told = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    del told["seconds"]
    return told


def test_csv(tmp_path):
    history = play(2, []).history
    history.to_csv(tmp_path / "log.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "log.csv").read_bytes().decode(), newline="")))
    assert len(rows) == 2 * 6
    assert [row["node"] for row in rows[:6]] == list(history.names)
    assert [row["round"] for row in rows] == ["1"] * 6 + ["2"] * 6
    for name in history.values:
        assert [float(row[name]) for row in rows] == history.table(name).flatten().tolist()


def test_json(tmp_path):
    history = play(2, []).history
    history.to_json(tmp_path / "log.json")
    told = without_seconds(tmp_path / "log.json")
    assert told["nodes"] == list(history.names)
    assert told["rounds"] == [1, 2]
    assert told["values"]["val_loss"] == history.table("val_loss").tolist()


def test_values_that_are_not_finite_are_null_in_json(tmp_path):
    history = History(("a", "b"))
    history.add(1, 0.0, {"test_metric": torch.tensor([float("nan"), 0.5])})
    history.add(2, 0.0, {"test_metric": torch.tensor([float("inf"), 1.0])})
    history.to_json(tmp_path / "log.json")
    assert without_seconds(tmp_path / "log.json")["values"]["test_metric"] == [[None, 0.5], [None, 1.0]]


def test_logs_of_a_resumed_run_equal_those_of_an_uninterrupted_one(tmp_path):
    straight = play(5, []).history
    play(2, [], tmp_path / "checkpoints")
    resumed = play(5, [], tmp_path / "checkpoints").history
    one, other = (history.to_csv(tmp_path / name) for history, name in ((straight, "a.csv"), (resumed, "b.csv")))
    assert one.read_bytes() == other.read_bytes()
    one, other = (history.to_json(tmp_path / name) for history, name in ((straight, "a.json"), (resumed, "b.json")))
    assert without_seconds(one) == without_seconds(other)


def test_recorded_graphs():
    result = play(4, [RecordGraph({2, 4})])
    assert sorted(result.history.graphs) == [2, 4]
    edge_index, edge_weight = result.history.graphs[2]
    assert edge_index.shape == (2, 36)
    assert torch.zeros(6).index_add(0, edge_index[1], edge_weight).tolist() == pytest.approx([1.0] * 6)
    last_index, last_weight = result.history.graphs[4]
    assert torch.equal(last_index, result.data.edge_index)
    assert torch.equal(last_weight, result.data.edge_weight)
    assert last_index.shape[1] < 36
    assert sorted(play(3, [RecordGraph()]).history.graphs) == [1, 2, 3]


def test_the_graph_of_a_round_is_the_one_it_exchanged_along(tmp_path):
    """Also in the round after whose exchange edges are dropped, and also after a resume."""
    for rounds in (3, 4):
        result = play(rounds, [RecordGraph()], tmp_path)
        for edge_index, edge_weight in [
            *result.history.graphs.values(),
            (result.graph().edge_index, result.graph().edge_weight),
        ]:
            total = torch.zeros(6).index_add(0, edge_index[1], edge_weight)
            assert total.tolist() == pytest.approx([1.0] * 6)
        sizes = [edge_index.shape[1] for edge_index, _ in result.history.graphs.values()]
        assert sizes[:3] == [36] * 3
        assert result.graph().num_edges == sizes[-1]
        assert result.data.num_edges < 36
        assert ("last_graph" in result.data) == (rounds == 3)
    assert sizes[3] < 36


def test_recorded_scores():
    own = Relation(torch.tensor([[1], [0]]), torch.tensor([0.5], dtype=torch.float64), (2, 2))
    probed = torch.tensor([[1, 0], [0, 1]]), torch.tensor([0.5, 0.25], dtype=torch.float64)
    history, recorder = History(("a", "b")), RecordGraph({1, 2, 4}, scores=True)
    edges = {"edge_index": torch.tensor([[1], [0]]), "edge_weight": torch.ones(1)}
    nothing, third = Data(round=1, **edges), Data(round=3, scores=own, **edges)
    history.scores[4] = probed  # what is measured for analysis goes before what the method measures
    for data in (nothing, Data(round=2, scores=own, **edges), third, Data(round=4, scores=own, **edges)):
        recorder.on_round(data, history)
    assert sorted(history.scores) == [2, 4]
    assert torch.equal(history.scores[2][0], own.edge_index)
    assert history.scores[4][1].tolist() == [0.5, 0.25]
    RecordGraph().on_round(third, history)
    assert 3 not in history.scores
    RecordGraph(scores=True).on_round(third, history)
    assert history.scores[3][1].tolist() == [0.5]


def test_progress_is_closed_also_after_an_error(capsys):
    class Fail(Callback):
        def on_round(self, data, history):
            raise RuntimeError("no luck")

    bar = Progress("bar")
    with pytest.raises(RuntimeError, match="no luck"):
        play(3, [bar, Fail()])
    assert bar.bar.disable  # what a closed bar is


def test_a_callback_overrides_what_it_needs():
    assert run(local(epochs=1), Scene.small(torch.float32).tasks, MLP(4, (6,), 3), rounds=1, callbacks=[Callback()])
