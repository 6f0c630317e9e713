from __future__ import annotations

import math

import pytest
import torch

from graphcollab.testing import differences
from graphcollab.train import Finding, History
from graphcollab.train.history_file import HistoryFile, small_fields


class Log:
    """A file, what it says of its length, and what is read of it."""

    def __init__(self, path):
        self.path, self.file = path / "history.jsonl", HistoryFile()

    def append(self, history):
        """Return how many bytes are written; the file is begun anew if the history was taken back."""
        before = self.file.length
        if not self.file.begins(history):
            self.file, before = HistoryFile(), 0
        self.file.append(self.path, history)
        return self.file.length - before

    def read(self, history):
        return HistoryFile.read(self.path.read_bytes(), small_fields(history))[1]


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


def evaluate(history, round_, **more):
    history.add(round_, round_ / 10, {"val_loss": torch.full((2,), float(round_)), **more})


def test_every_append_holds_what_has_come_since(log):
    history, sizes = History(("a", "b")), []
    for round_ in range(1, 30):
        evaluate(history, round_)
        history.graphs[round_] = (torch.tensor([[0], [1]]), torch.tensor([float(round_)]))
        sizes.append(log.append(history))
        assert differences(log.read(history), history) == []
    assert max(sizes[10:]) <= sizes[9] + 16
    assert log.append(history) == 0


def test_what_is_taken_back_is_taken_back(log):
    history = History(("a", "b"))
    for round_ in (1, 2, 3):
        evaluate(history, round_)
        history.findings.append(Finding("cluster death", "nodes", "it died", {"round": round_, "nodes": ("a",)}))
    log.append(history)
    history.rounds.pop(), history.seconds.pop(), history.values["val_loss"].pop()
    history.findings[:] = [finding for finding in history.findings if finding.numbers["round"] != 2]
    log.append(history)
    assert differences(log.read(history), history) == []
    evaluate(history, 4)
    log.append(history)
    again = log.read(history)
    assert again.rounds == [1, 2, 4]
    assert [finding.numbers["round"] for finding in again.findings] == [1, 3]
    assert again.last("val_loss").tolist() == [4.0, 4.0]


def test_mappings_by_round(log):
    history = History(("a",))
    log.append(history)
    one, two = torch.ones(1), torch.zeros(1)
    for change in (
        lambda: history.scores.update({3: (one, two)}),
        lambda: history.scores.update({4: (one, one), 7: (two, one)}),
        lambda: history.scores.pop(7),
        lambda: history.scores.update({4: (two, two)}),  # the last one is another
        lambda: history.scores.pop(3),
        lambda: history.scores.clear(),
        lambda: history.scores.update({9: (two, one)}),
    ):
        change()
        log.append(history)
        assert differences(log.read(history), history) == []
        assert list(log.read(history).scores) == list(history.scores)


def test_fields_that_come_later(log):
    history = History(("a", "b"))
    evaluate(history, 1)
    log.append(history)
    evaluate(history, 2, val_metric=torch.ones(2))
    history.isolated["b"], history.observed["mine"] = 1, torch.tensor([1, 0])
    assert log.file.begins(history)
    log.append(history)
    again = log.read(history)
    assert differences(again, history) == []
    assert again.table("val_metric").tolist() == [pytest.approx([math.nan] * 2, nan_ok=True), [1, 1]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_numbers_come_back_to_the_last_bit(log, dtype):
    values = torch.rand(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).exp().mul(1e-3)
    history = History(("a", "b", "c"))
    history.add(1, math.pi, {"val_loss": values[:, 0]})
    history.add(2, math.e, {"val_loss": torch.tensor([math.nan, -math.inf, -0.0])})
    history.graphs[1] = (torch.empty(2, 0, dtype=torch.int64), torch.empty(0, dtype=dtype))
    history.scores[2] = (torch.tensor([[0, 2**62], [1, -1]]), (values * 1e3).to(dtype))
    log.append(history)
    again = log.read(history)
    assert differences(again, history) == []
    assert math.copysign(1, again.last("val_loss")[2]) == -1


def test_what_was_read_goes_on(log, tmp_path):
    history = History(("a", "b"))
    for round_ in range(1, 12):
        evaluate(history, round_)
    log.append(history)
    going, again = HistoryFile.read(log.path.read_bytes(), small_fields(history))
    assert going.entry == log.file.entry
    assert going.begins(again)
    evaluate(again, 12)
    assert going.begins(again)
    going.append(log.path, again)
    assert going.length == log.path.stat().st_size > log.file.length
    assert differences(log.read(again), again) == []


def test_what_stands_behind_the_lines_is_cut_off(log):
    history = History(("a", "b"))
    evaluate(history, 1)
    log.append(history)
    with log.path.open("ab") as file:
        file.write(b"of a run that was killed while it wrote")
    evaluate(history, 2)
    log.append(history)
    assert log.read(history).rounds == [1, 2]
