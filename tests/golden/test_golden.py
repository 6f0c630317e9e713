"""All methods still do what they did when their results were recorded, resumed runs too."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from graphcollab import methods
from tests.golden.cases import KINDS, RESUMED, cases, outcome
from tests.golden.record import RECORDED, largest_difference, moved

PLAYS = dict(cases())
# These runs are held to what was recorded in two parts, resumed halfway: such a run plays all that others play. Of the
# kinds that differ in what the loop keeps, not in what methods keep, some methods' are: models that are heard in the
# local update, learned weights, drawn peers, centers, and personal models.
SOME = {"cga", "meta_l2c", "fomo", "ifca", "ditto"}
IN_PARTS = [(name, kind) for kind in RESUMED for name in methods.__all__ if kind in ("quick", "phases") or name in SOME]


@pytest.fixture(scope="module")
def recorded():
    return load_file(RECORDED)


@pytest.mark.parametrize("case", [case for case in PLAYS if tuple(case.split("/")) not in IN_PARTS])
def test_results_are_those_recorded(case, recorded):
    assert moved(case, outcome(PLAYS[case]), recorded) == []


@pytest.mark.parametrize(("name", "kind"), IN_PARTS)
def test_resumed_results_are_those_recorded(name, kind, recorded, tmp_path):
    KINDS[kind](name, rounds=2, checkpoint=tmp_path)
    assert moved(f"{name}/{kind}", outcome(lambda: KINDS[kind](name, checkpoint=tmp_path)), recorded) == []


def test_nothing_else_is_recorded(recorded):
    assert {name.rpartition("/")[0] for name in recorded} == {*PLAYS}
    assert {*PLAYS} > {f"{m}/{kind}" for m in methods.__all__ for kind in KINDS}


def test_differences_are_seen():
    one = torch.tensor([1.0, 200.0, torch.nan], dtype=torch.float64)
    assert largest_difference(one, one) == 0
    assert largest_difference(one + torch.tensor([0.5, 0.0, 0.0]), one) == 0.5
    assert largest_difference(one + torch.tensor([0.0, 1.0, 0.0]), one) == 0.005  # relative to 200
    assert (
        largest_difference(one.nan_to_num(), one)
        == largest_difference(one[:2], one)
        == largest_difference(one.float(), one)
        == float("inf")
    )
    told = moved("a/b", {"models.0": one + 1, "new": one}, {"a/b/models.0": one, "a/b/old": one})
    assert told == ["a/b: new is new", "a/b: old is gone", "a/b: models.0 moved by 1, and may move by 1e-09"]
