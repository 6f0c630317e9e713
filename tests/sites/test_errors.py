"""What other sites read of an error."""

from __future__ import annotations

import errno

import pytest

from graphcollab import methods, run
from graphcollab.engine import NonFiniteLossError
from graphcollab.sites.errors import SiteLostError, in_words, told_error
from graphcollab.tasks import TellableError
from graphcollab.testing import Scene


def raised(act) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return caught.value


def test_words_of_a_script_or_of_a_library_stay_at_the_site():
    assert in_words(raised(lambda: int("of a patient"))) == ""
    assert in_words(raised(lambda: {}["of a patient"])) == ""
    assert in_words(ValueError("made, and raised nowhere")) == ""


@pytest.mark.parametrize("kind", [SiteLostError, NonFiniteLossError, TellableError])
def test_errors_that_quote_no_sample_are_told(kind):
    assert in_words(kind("what it says")) == "what it says"


def test_what_the_run_itself_refuses_is_told():
    scene = Scene.small()
    error = raised(lambda: run(methods.fedavg(), scene.tasks, scene.models, rounds=2, checkpoint_every=-1))
    assert "checkpoint_every" in in_words(error)


def test_what_tasks_refuse_stays_at_the_site():
    scene = Scene.small()
    error = raised(lambda: scene.tasks.require("of no name", "this"))
    assert str(error)
    assert in_words(error) == ""


def test_of_a_full_disk_no_file_is_named():
    assert in_words(OSError(errno.ENOSPC, "No space left on device", "/patients/anna.csv")) == "No space left on device"


def test_what_is_told_is_raised_as_what_it_was():
    error = told_error("Bern", "ValueError", "settings differ")
    assert type(error) is ValueError
    assert str(error) == "settings differ"
    assert error.__notes__ == ["It was raised at Bern."]


def test_where_nothing_is_told_site_and_class_are_named():
    error = told_error("Bern", "KeyError", "")
    assert type(error) is RuntimeError
    assert str(error) == "Bern has failed with a KeyError; what it says may quote a sample, and stays there"
