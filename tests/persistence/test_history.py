from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.methods import local
from graphcollab.persistence import History
from graphcollab.train import Finding
from tests.raising import raises


@pytest.fixture
def history():
    h = History(("a", "b", "c"), "accuracy")
    h.add(1, 0.5, {"test_metric": torch.tensor([0.0, 0.5, 1.0]), "test_loss": torch.tensor([3.0, 2.0, 1.0])})
    h.add(4, 0.9, {"test_metric": torch.tensor([0.6, math.nan, 0.8]), "test_loss": torch.tensor([1.0, 2.0, 6.0])})
    return h


def test_tables_and_means(history):
    assert len(history) == 2
    assert history.rounds == [1, 4]
    assert history.seconds == [0.5, 0.9]
    assert history.table("test_loss").tolist() == [[3.0, 2.0, 1.0], [1.0, 2.0, 6.0]]
    assert history.mean("test_metric") == pytest.approx([0.5, 0.7], abs=1e-7)
    assert history.last("test_loss").tolist() == [1.0, 2.0, 6.0]
    with raises("unknown", "name", "'accuracy'", "'test_loss'", "'test_metric'", kind=KeyError):
        history.table("accuracy")


def test_the_worst_of_a_loss_are_the_largest(history):
    assert history.summary("test_loss")["worst10"] == 6.0
    assert history.summary()["worst10"] == pytest.approx(0.6, abs=1e-7)
    assert history.summary()["ignored"] == 1
    regression = History(("a", "b"), "mse", False)
    regression.add(1, 0.0, {"test_metric": torch.tensor([1.0, 2.0])})
    assert regression.summary()["worst10"] == 2.0


def test_summary_is_of_the_returned_models(history):
    history.returned = 0
    assert history.final("test_metric").tolist() == [0.0, 0.5, 1.0]
    assert history.summary()["mean"] == 0.5
    assert history.last("test_loss").tolist() == [1.0, 2.0, 6.0]


def test_values_are_copies():
    value, history = torch.tensor([1.0]), History(("a",))
    history.add(1, 0.0, {"v": value})
    value.zero_()
    assert history.last("v").tolist() == [1.0]


def test_findings_are_part_of_the_json(tmp_path):
    history = History(
        ("a", "b"), findings=[Finding("never sampled", "nodes", "nobody listened to b", {"round": 3, "nodes": ("b",)})]
    )
    told = json.loads(history.to_json(tmp_path / "log.json").read_text())
    [finding] = told["findings"]
    assert (finding["code"], finding["numbers"]) == ("never sampled", {"round": 3, "nodes": ["b"]})


def test_histories_and_results_are_printed_in_a_line(history):
    history.metric = "auc"
    assert repr(history) == "History(3 nodes, round 4; mean test auc 0.7 (2 of 3 nodes))"  # 0.6, 0.8
    assert repr(History(("a", "b"))) == "History(2 nodes, round 0; nothing evaluated)"
    history.values = {"train_loss": history.values["test_loss"]}
    assert repr(history) == "History(3 nodes, round 4; mean train loss 3)"
    tasks = Tasks.from_samples({"a": (torch.rand(9, 2), torch.rand(9, 1))}, loss="mse", metric="mse")
    result = run(local(), tasks, nn.Linear(2, 1), rounds=2)
    mean = float(result.history.last("val_metric")[0])
    assert repr(result) == f"Result(local; 1 nodes, round 2; mean val mse {mean:.4g})"


def test_a_workbook_is_no_table_of_text(history, tmp_path):
    with raises("format", f"file {tmp_path / 'h.xlsx'}"):
        history.to_csv(tmp_path / "h.xlsx")
    assert not list(tmp_path.iterdir())
