"""A mistake in a script is shown by one sentence at its end, and anything else with all that led to it."""

from __future__ import annotations

import runpy
import traceback
import warnings

import pytest
import torch
from torch import nn

from graphcollab import methods, site
from graphcollab.settings import SettingError
from graphcollab.sites.errors import public_value, script_error

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


def test_of_a_mistake_the_script_and_the_sentence_are_shown():
    error = raised(lambda: rehearses(method="fedavg"))
    assert isinstance(error, SettingError)
    lines = "".join(traceback.format_exception(error)).splitlines()
    assert lines[-1] == "graphcollab.settings.SettingError: method must be a method, such as fedavg(), got 'fedavg'"
    assert len(traceback.extract_tb(error.__traceback__)) <= 6  # of which this file has three
    assert not any("During handling" in line or "direct cause" in line for line in lines)


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
    assert SECRET not in str(public_value(error, "Bern"))


def test_warnings_of_a_rehearsal_name_the_line_of_the_script():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rehearses({**TABLE, "ill": [1] * 40})
    assert any("all rows have the target 1" in str(one.message) for one in told)
    assert {one.filename for one in told} == {__file__}
    assert len({str(one.message) for one in told}) == len(told)


def script(tmp_path, text: str) -> tuple[Exception, str]:
    path = tmp_path / "site.py"
    path.write_text(text)
    return raised(lambda: runpy.run_path(str(path), run_name="__main__")), str(path)


def test_a_mistake_in_a_script_is_shown_with_its_line_only(tmp_path):
    error, path = script(tmp_path, "from graphcollab import methods\n\nmethods.fedavg(lr='much')\n")
    lines = script_error(error, path).splitlines()
    assert [line for line in lines if "File " in line] == [f'  File "{path}", line 3, in <module>']
    assert lines[-1] == f"graphcollab.settings.SettingError: {error}"


def test_what_fails_in_a_script_is_shown_from_the_script_on(tmp_path):
    error, path = script(tmp_path, "def divide(x):\n    return 1 / x\n\n\ndivide(0)\n")
    lines = script_error(error, path).splitlines()
    assert [line.split(", ", 1)[1] for line in lines if "File " in line] == ["line 5, in <module>", "line 2, in divide"]
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_a_script_that_cannot_be_read_is_shown_by_its_line(tmp_path):
    error, path = script(tmp_path, "x = (1,\n")
    text = script_error(error, path)
    assert text.startswith(f'  File "{path}", line 1\n')
    assert text.splitlines()[-1] == "SyntaxError: '(' was never closed"


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
