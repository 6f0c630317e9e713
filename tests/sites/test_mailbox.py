from __future__ import annotations

import threading

import pytest
import torch

from graphcollab.sites.delivery import Mailbox
from graphcollab.sites.frame import Frame


def message(epoch: int = 0, step: int = 0, value: float = 1.0, **about: object) -> bytes:
    return Frame({"epoch": epoch, "step": step, **about}, (torch.tensor([value]),)).pack()


@pytest.fixture
def box() -> Mailbox:
    return Mailbox({"Bern", "Genf"}, limit=1000)


def test_a_message_is_there_when_it_is_due(box):
    assert box.put("Bern", message(step=2)) == "ok"
    assert box.wait(["Bern"], 0.0) == ["Bern"]
    box.turn_to(0, 2)
    assert box.wait(["Bern", "Genf"], 0.0) == ["Genf"]
    assert box.take("Bern").tensors[0].item() == 1.0


def test_a_doubled_message_counts_once_and_the_first_one(box):
    assert [box.put("Bern", message(value=value)) for value in (1.0, 2.0)] == ["ok", "ok"]
    assert box.take("Bern").tensors[0].item() == 1.0
    assert box.wait(["Bern"], 0.0) == ["Bern"]


def test_a_late_message_is_dropped(box):
    box.turn_to(1, 5)
    assert box.put("Bern", message(1, 4)) == "late"
    assert box.put("Bern", message(0, 9)) == "late"
    assert box.wait(["Bern"], 0.0) == ["Bern"]


def test_what_was_not_read_in_its_epoch_is_forgotten(box):
    box.put("Bern", message(0, 3))
    box.turn_to(1, 0)
    box.turn_to(1, 3)
    assert box.wait(["Bern"], 0.0) == ["Bern"]


def test_a_message_far_ahead_is_to_be_sent_again(box):
    assert box.put("Bern", message(100, 0)) == "early"


def test_a_sender_takes_no_more_room_than_it_has():
    box = Mailbox({"Bern", "Genf"})
    assert box.put("Bern", Frame({"epoch": 0, "step": 0, "x": [[]] * 20_000}).pack()) == "damaged"  # 1.4 MB in memory
    assert box.put("Bern", Frame({"epoch": 0, "step": 0}, [torch.empty(0)] * 10_001).pack()) == "damaged"
    assert [box.put("Bern", message(0, step)) for step in range(1001)] == ["ok"] * 1000 + ["full"]
    assert box.put("Genf", message(0, 0)) == "ok"
    box.turn_to(0, 10)
    assert [box.put("Bern", message(0, step)) for step in range(1000, 1011)] == ["ok"] * 10 + ["full"]


def test_a_cut_message_is_refused_and_may_come_again(box):
    whole = message()
    assert box.put("Bern", whole[:-3]) == "damaged"
    assert box.put("Bern", whole) == "ok"


@pytest.mark.parametrize("about", [{"epoch": "0"}, {"epoch": None}, {"epoch": True}, {"epoch": 0.0}])
def test_a_message_without_place_in_the_run_is_refused(box, about):
    assert box.put("Bern", Frame({"step": 0, **about}).pack()) == "refused"


def test_a_stranger_is_refused(box):
    assert box.put("Basel", message()) == "refused"


def test_no_more_waits_than_there_is_room_for(box):
    one, two = (Frame({"epoch": 0, "step": step}, (torch.zeros(150),)).pack() for step in (1, 2))
    assert 600 < len(one) <= 1000 < len(one) + len(two)
    assert box.put("Bern", one) == "ok"
    assert box.put("Bern", two) == "full"
    assert box.put("Bern", one) == "ok"  # it is there already
    box.turn_to(0, 1)
    box.take("Bern")
    assert box.put("Bern", two) == "ok"


def test_nobody_takes_the_room_of_others(box):
    far = [Frame({"epoch": 0, "step": 10**9 + many}).pack() for many in range(1000)]
    held = [box.put("Bern", one) for one in far].count("ok")
    assert held == 1000 // len(far[0])  # also what has no tensors takes room
    assert box.put("Genf", message()) == "ok"
    assert box.wait(["Genf"], 0.0) == []


def test_a_shape_that_no_tensor_has_is_damage(box):
    assert box.put("Bern", Frame({"epoch": 0, "step": 0}, (torch.zeros(0, 5),)).pack()) == "ok"
    assert box.put("Bern", b"graphcollab 1\n") == "damaged"


def test_who_waits_is_woken(box):
    threading.Timer(0.05, box.put, ("Genf", message())).start()
    assert box.wait(["Genf"], 10.0) == []
