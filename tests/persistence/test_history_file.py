from __future__ import annotations

import json
import math

import pytest
import torch

from graphcollab.persistence import History
from graphcollab.persistence.checkpoint import _stacked, _unstacked
from graphcollab.persistence.folder import decode, encode
from graphcollab.testing import differences
from graphcollab.train import Finding


def there_and_back(history):
    """Return what is read of a history in a checkpoint."""
    tensors = {}
    code = json.loads(json.dumps(encode(_stacked(history), "history", tensors)))
    return _unstacked(decode(code, tensors))


def evaluate(history, round_, **more):
    history.add(round_, round_ / 10, {"val_loss": torch.full((2,), float(round_)), **more})


def test_what_is_taken_back_is_taken_back():
    history = History(("a", "b"))
    for round_ in (1, 2, 3):
        evaluate(history, round_)
        history.findings.append(Finding("cluster death", "nodes", "it died", {"round": round_, "nodes": ("a",)}))
    there_and_back(history)
    history.rounds.pop(), history.seconds.pop(), history.values["val_loss"].pop()
    history.findings[:] = [finding for finding in history.findings if finding.numbers["round"] != 2]
    assert differences(there_and_back(history), history) == []
    evaluate(history, 4)
    again = there_and_back(history)
    assert again.rounds == [1, 2, 4]
    assert [finding.numbers["round"] for finding in again.findings] == [1, 3]
    assert again.last("val_loss").tolist() == [4.0, 4.0]


def test_mappings_by_round():
    history = History(("a",))
    there_and_back(history)
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
        again = there_and_back(history)
        assert differences(again, history) == []
        assert list(again.scores) == list(history.scores)


def test_fields_that_come_later():
    history = History(("a", "b"))
    evaluate(history, 1)
    there_and_back(history)
    evaluate(history, 2, val_metric=torch.ones(2))
    history.isolated["b"], history.observed["mine"] = 1, torch.tensor([1, 0])
    again = there_and_back(history)
    assert differences(again, history) == []
    assert again.table("val_metric").tolist() == [pytest.approx([math.nan] * 2, nan_ok=True), [1, 1]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_numbers_come_back_to_the_last_bit(dtype):
    values = torch.rand(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).exp().mul(1e-3)
    history = History(("a", "b", "c"))
    history.add(1, math.pi, {"val_loss": values[:, 0]})
    history.add(2, math.e, {"val_loss": torch.tensor([math.nan, -math.inf, -0.0])})
    history.graphs[1] = (torch.empty(2, 0, dtype=torch.int64), torch.empty(0, dtype=dtype))
    history.scores[2] = (torch.tensor([[0, 2**62], [1, -1]]), (values * 1e3).to(dtype))
    again = there_and_back(history)
    assert differences(again, history) == []
    assert math.copysign(1, again.last("val_loss")[2]) == -1
