from __future__ import annotations

import pytest
import torch

from graphcollab.sites.connection import Past
from graphcollab.sites.frame import Frame
from tests.raising import raises

ONE, TWO = b"1" * 16, b"2" * 16


def frames(value: float) -> dict[str, Frame]:
    return {"Bern": Frame({"value": value}, (torch.tensor([value]),)), "Gen\u00e8ve": Frame({})}


def test_what_was_told_is_recalled_in_order(tmp_path):
    path = tmp_path / "folder" / "past"
    past = Past(path)
    past.keep(ONE, frames(1.0))
    past.keep(TWO, frames(2.0))
    assert not past.recalls
    again = Past(path, known=True)
    assert again.recalls
    found = again.recall(ONE)
    assert [*found] == ["Bern", "Gen\u00e8ve"]
    assert found["Bern"].tensors[0].tolist() == [1.0]
    assert again.recall(None)["Bern"].about == {"value": 2.0}
    assert not again.recalls


def test_another_run_begins_afresh(tmp_path):
    Past(tmp_path / "past").keep(ONE, frames(1.0))
    assert not Past(tmp_path / "past", known=False).recalls
    assert not Past(tmp_path / "past", known=True).recalls


def test_a_script_or_data_that_have_changed_are_noticed(tmp_path):
    Past(tmp_path / "past").keep(ONE, frames(1.0))
    with raises("mismatch", "data"):
        Past(tmp_path / "past", known=True).recall(TWO)


@pytest.mark.parametrize("lost", [1, 5, 60])
def test_a_record_that_was_not_finished_is_dropped(tmp_path, lost):
    path = tmp_path / "past"
    past = Past(path)
    past.keep(ONE, frames(1.0))
    whole = path.read_bytes()
    past.keep(TWO, frames(2.0))
    path.write_bytes(path.read_bytes()[:-lost])
    again = Past(path, known=True)
    assert path.read_bytes() == whole
    again.recall(ONE)
    assert not again.recalls
    again.keep(TWO, frames(3.0))
    last = Past(path, known=True)
    last.recall(ONE)
    assert last.recall(TWO)["Bern"].about == {"value": 3.0}


def test_without_a_file_nothing_is_kept():
    past = Past(None, known=True)
    past.keep(ONE, frames(1.0))
    assert not past.recalls
