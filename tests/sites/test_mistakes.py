"""What a rehearsal says of mistakes."""

from __future__ import annotations

import traceback
import warnings

import pytest
import torch
from torch import nn

from graphcollab import methods, site
from graphcollab.sites.errors import as_shared

TABLE = {"age": [*range(30, 70)], "ill": [0, 1, 1, 0] * 10}
SECRET = "Jane Doe"


def linear(tasks) -> nn.Module:
    return nn.Linear(*tasks.input_shape, 2)


def raised(act) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return caught.value


def rehearses(table=TABLE, method=None, model=linear, **settings):
    here = site("Bern", table, dry_run=["Basel", "Genf"], **{"target": "ill", **settings})
    return here.run(method or methods.local(), model, rounds=1)


def fails(tasks):
    raise ValueError("the model is not there")


def test_of_the_own_samples_it_is_said_what_is_wrong():
    error = raised(lambda: rehearses(target="il"))
    assert str(error).startswith("there is no column 'il' (target='il'); did you mean 'ill'?")


def test_a_rehearsal_that_fails_logs_nothing_of_copies(caplog):
    rehearsal = lambda: rehearses(model=lambda tasks: nn.Linear(1, 1))  # noqa: E731
    assert "outputs for 0 to 0" in str(raised(rehearsal))
    assert "the run stops" not in caplog.text


def test_what_fails_in_the_users_own_code_is_shown_in_full():
    error = raised(lambda: rehearses(model=fails))
    assert traceback.extract_tb(error.__traceback__)[-1].name == "fails"


def test_also_if_the_package_says_something_of_it():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            raise RuntimeError("no such layer")

    text = "".join(traceback.format_exception(raised(lambda: rehearses(model=lambda tasks: Broken()))))
    assert "in forward" in text
    assert "no such layer" in text


def test_a_mistake_in_a_rehearsal_is_not_told_to_others_where_it_quotes_something():
    """Where a script that FLARE has started rehearses."""
    error = raised(lambda: rehearses({**TABLE, "age": [SECRET, *range(31, 70)]}))
    assert SECRET in str(error)
    assert SECRET not in str(as_shared(error, "Bern"))


def test_warnings_of_a_rehearsal_name_the_line_of_the_script():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rehearses({**TABLE, "ill": [1] * 40})
    assert any("all rows have the target 1" in str(one.message) for one in told)
    assert {one.filename for one in told} == {__file__}
    assert len({str(one.message) for one in told}) == len(told)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("compare", "rehearse run(...) with each of its methods"),
        ("benefit", "rehearse run(...) with fedavg() and with each of its methods"),
    ],
)
def test_many_runs_are_not_rehearsed_as_a_whole(what, words):
    here = site("Bern", TABLE, target="ill", dry_run=True)
    acts = {"compare": lambda: here.compare({"local": methods.local}, linear), "benefit": lambda: here.benefit(linear)}
    told = str(raised(acts[what]))
    assert told.startswith(f"{what} plays many runs and cannot be rehearsed as a whole: ")
    assert words in told
