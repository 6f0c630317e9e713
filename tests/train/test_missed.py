"""What a site that comes back is handed over: what everybody may know, and not what others have seen for themselves."""

from __future__ import annotations

import copy
import json

import pytest
import torch

from graphcollab import methods
from graphcollab.components.state import LOOP
from graphcollab.persistence import History
from graphcollab.testing import Scene
from graphcollab.train import Finding, missed
from graphcollab.train.missed import hand_over, take_over
from tests.raising import raises
from tests.train.forged import saying

NAMES = tuple("abcdef")


def history(rounds, own_weight):
    told = History(NAMES)
    told.observed = {"own_weight": torch.full((6,), own_weight, dtype=torch.float64)}
    for round_ in rounds:
        values = {"test_loss": torch.full((6,), float(round_)), "own_weight": torch.full((6,), own_weight + round_)}
        told.add(round_, 0.0, values)
    told.graphs = {1: (torch.tensor([[0], [1]]), torch.tensor([own_weight]))}
    told.findings = [Finding("own model only", "weights", f"it gives itself {own_weight}", {"round": 1})]
    return told


def test_what_a_site_has_seen_for_itself_stays_with_it():
    method = methods.l2c()
    data, _ = Scene.small(embeds=method.embeds).begin(method)
    fields = (*LOOP, *method.fields)
    content = hand_over(data, history([1, 2, 3], 0.625), fields)
    assert b"own_weight" not in content
    assert b"it gives itself" not in content
    assert torch.tensor(0.625).numpy().tobytes() not in content
    _, back = take_over(content, data, fields, history([1], 0.25))
    assert back.rounds == [1, 2, 3]
    assert [one[0].item() for one in back.values["test_loss"]] == [1, 2, 3]
    assert back.table("own_weight")[:, 0].nan_to_num(-1).tolist() == [1.25, -1, -1]
    assert back.graphs[1][1].tolist() == [0.25]
    assert back.findings[0].message == "it gives itself 0.25"
    assert back.observed["own_weight"][0] == 0.25


@pytest.mark.parametrize(
    ("name", "value", "fact"),
    [
        ("x", None, "'x'"),
        ("edge_weight", torch.zeros(30), "'edge_weight'"),
        ("unheard_of", 1, "'unheard_of'"),
        ("trains", torch.zeros(6), "torch.float32 [6]"),
        ("trains", torch.zeros(7, dtype=torch.bool), "torch.bool [7]"),
        ("trains", 1, "'trains' is a int"),
        ("edge_index", torch.tensor([[0], [6]]), "from 0 to 6, of 6"),
    ],
)
def test_a_site_takes_over_nothing_but_what_everybody_may_know(monkeypatch, name, value, fact):
    method = methods.l2c()
    data, _ = Scene.small(embeds=method.embeds).begin(method)
    fields = (*LOOP, *method.fields)
    evil = copy.copy(data)
    evil[name] = data.x if value is None else value
    public = missed._is_public
    monkeypatch.setattr(missed, "_is_public", lambda n, f: n == name or public(n, f))
    content = hand_over(evil, history([1], 0.5), fields)
    monkeypatch.undo()
    with raises("damaged", "state of the run", fact):
        take_over(content, data, fields)


def forged(code):
    text = code.decode(errors="replace") if isinstance(code, bytes) else json.dumps(code)
    return saying(f'{{"format": "{missed.KIND}", "version": {missed.VERSION}, "content": {text}}}', {})


DATA = {"mapping": []}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        forged({}),
        forged([]),
        forged({"data": {}, "history": {}}),
        forged({"data": [], "history": []}),
        forged({"data": None, "history": None}),
        forged({"data": DATA, "history": DATA}),
        forged({"data": {"plain": 1}, "history": DATA}),
        forged({"data": {"tensor": "x"}, "history": DATA}),
        forged({"data": {"value": "x", "fields": DATA}, "history": DATA}),
        forged({"data": {"mapping": [1]}, "history": DATA}),
        forged({"data": {"mapping": 1}, "history": DATA}),
        forged(b"[" * 100_000),
    ],
)
def test_damage_is_one_error(content):
    method = methods.l2c()
    data, _ = Scene.small(embeds=method.embeds).begin(method)
    with raises("damaged", "state of the run"):
        take_over(content, data, (*LOOP, *method.fields))
