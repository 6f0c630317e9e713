from __future__ import annotations

import math

import pytest
import torch

from graphcollab.testing import differences
from graphcollab.train import Finding, History, journal
from graphcollab.train.journal import Journal


def read(content, written, history):
    return Journal.read(content, written.tracks, written.rest(history))[1]


def evaluate(history, round_, **more):
    history.add(round_, round_ / 10, {"val_loss": torch.full((2,), float(round_)), **more})


def test_every_block_holds_what_has_come_since():
    history, written, content = History(("a", "b")), Journal(), b""
    sizes = []
    for round_ in range(1, 30):
        evaluate(history, round_)
        history.graphs[round_] = (torch.tensor([[0], [1]]), torch.tensor([float(round_)]))
        block = written.grow(history)
        sizes.append(len(block))
        content += block
        assert differences(read(content, written, history), history) == []
    assert max(sizes[10:]) <= sizes[9] + 16
    assert written.grow(history) == b""


def test_what_is_taken_back_is_taken_back():
    history, written = History(("a", "b")), Journal()
    for round_ in (1, 2, 3):
        evaluate(history, round_)
        history.findings.append(Finding(round_, "cluster death", ("a",), "it died"))
    content = written.grow(history)
    history.rounds.pop(), history.seconds.pop(), history.values["val_loss"].pop()
    history.findings[:] = [finding for finding in history.findings if finding.round != 2]
    content += written.grow(history)
    assert differences(read(content, written, history), history) == []
    evaluate(history, 4)
    content += written.grow(history)
    again = read(content, written, history)
    assert again.rounds == [1, 2, 4]
    assert [finding.round for finding in again.findings] == [1, 3]
    assert again.last("val_loss").tolist() == [4.0, 4.0]


def test_mappings_by_round():
    history, written = History(("a",)), Journal()
    content = written.grow(history)
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
        content += written.grow(history)
        assert differences(read(content, written, history), history) == []
        assert list(read(content, written, history).scores) == list(history.scores)


def test_fields_that_come_later():
    history, written = History(("a", "b")), Journal()
    evaluate(history, 1)
    content = written.grow(history)
    evaluate(history, 2, val_metric=torch.ones(2))
    history.isolated["b"], history.watched, history.heard = 1, 5, torch.tensor([1, 0])
    content += written.grow(history)
    again = read(content, written, history)
    assert differences(again, history) == []
    assert again.table("val_metric").tolist() == [pytest.approx([math.nan] * 2, nan_ok=True), [1, 1]]


def test_what_was_read_goes_on(monkeypatch):
    monkeypatch.setattr(journal, "CHUNK", 4)  # so the first block is several
    history, written = History(("a", "b")), Journal()
    for round_ in range(1, 12):
        evaluate(history, round_)
    content = written.grow(history)
    going, again = Journal.read(content, written.tracks, written.rest(history))
    assert (going.length, going.digest) == (len(content), written.digest)
    assert going.grow(again) == b""
    copied = going.copy()
    evaluate(again, 12)
    assert copied.grow(again) == going.grow(again) != b""
    assert copied.digest == going.digest


def test_other_entries_than_the_manifest_says_are_refused():
    history, written = History(("a", "b")), Journal()
    evaluate(history, 1)
    first = written.grow(history)
    evaluate(history, 2)
    written.grow(history)
    with pytest.raises(ValueError, match="holds other entries of the history than it should"):
        Journal.read(first, written.tracks, {"names": ("a", "b")})
