from __future__ import annotations

import contextlib
import threading
import warnings
from pathlib import Path

import pytest

from graphcollab import GraphcollabWarning
from graphcollab._base import checks
from graphcollab._base.checks import issue, own_filter
from tests.raising import warns


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def warnings_of(work):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        work()
    return [str(warning.message) for warning in told]


def test_a_filter_is_for_its_own_thread():
    def work():
        with own_filter("ignore", "a"):
            warnings.warn("all that begins so", stacklevel=1)
            warnings.warn("something else", stacklevel=1)
            in_a_thread(lambda: warnings.warn("all, of another thread", stacklevel=1))
        warnings.warn("afterwards", stacklevel=1)

    assert warnings_of(work) == ["something else", "all, of another thread", "afterwards"]


def test_an_error_is_raised_in_its_own_thread():
    def work():
        with own_filter("error", "slow"):
            in_a_thread(lambda: warnings.warn("slow, there", stacklevel=1))
            with pytest.raises(UserWarning, match="slow, here"):
                warnings.warn("slow, here", stacklevel=1)

    assert warnings_of(work) == ["slow, there"]


def test_a_filter_by_code_and_subject():
    def work():
        with own_filter("ignore", code="quality", subject="column 'age'"):
            issue("quality", "column 'age'", "age is odd")
            issue("quality", "column 'sex'", "sex is odd")
            issue("no-effect", "column 'age'", "age does nothing")
            in_a_thread(lambda: issue("quality", "column 'age'", "age, of another thread"))
            with own_filter("ignore", code="quality"):
                issue("quality", "column 'sex'", "sex, inside")
        issue("quality", "column 'age'", "afterwards")

    assert warnings_of(work) == ["sex is odd", "age does nothing", "age, of another thread", "afterwards"]


def test_an_error_by_code():
    with own_filter("error", code="quality"), pytest.raises(GraphcollabWarning):
        issue("quality", "age", "age is odd")


def test_filters_of_two_threads_that_end_in_the_order_they_began():
    before, begun, ended, told = list(warnings.filters), threading.Event(), threading.Event(), []

    def other():
        with own_filter("error"):
            begun.set()
            ended.wait(60)
            try:
                warnings.warn("still an error", stacklevel=1)
            except UserWarning as warning:
                told.append(str(warning))

    thread = threading.Thread(target=other)
    with own_filter("ignore"):
        thread.start()
        begun.wait(60)
    ended.set()
    thread.join()
    assert told == ["still an error"]
    assert warnings.filters == before


def test_a_copy_of_the_filters_that_is_put_back_filters_nothing():
    def work():
        with own_filter("ignore"):
            kept = warnings.filters[:]
        warnings.filters = kept
        warnings.warn("said", stacklevel=1)

    assert warnings_of(work) == ["said"]


def test_warnings_name_the_first_caller_outside_of_the_package():
    with warns("quality", "age") as said:
        issue("quality", "age", "age is odd")
    assert said[0].filename == __file__


def test_a_warning_names_the_line_that_has_called_also_through_a_decorator():
    def package(name: str, text: str) -> dict:
        """Return what code of a file in this package defines."""
        made = {"contextmanager": contextlib.contextmanager, "issue": issue}
        exec(compile(text, str(Path(checks.__file__).with_name(name)), "exec"), made)
        return made

    own = package(
        "own.py",
        "@contextmanager\ndef held():\n    yield\n@held()\ndef act():\n    issue('quality', 'a', 'few')\n",
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        own["act"]()
    assert [one.filename for one in told] == [__file__]
