from __future__ import annotations

import pickle
import warnings

import pytest

from graphcollab import GraphcollabError
from graphcollab._base import errors
from graphcollab._base.checks import issue
from graphcollab._base.errors import RangeError, UnknownError
from graphcollab.comm.meeting import PYTHON, as_value, from_value
from tests.raising import raises, warns

KINDS = [kind for name, kind in vars(errors).items() if name.endswith("Error")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_say_their_message_and_survive_pickling(kind: type[GraphcollabError]):
    error = pickle.loads(pickle.dumps(kind("rounds", "rounds must be at least 1, got 0")))
    assert type(error) is kind
    assert (error.code, error.subject, str(error)) == (kind.code, "rounds", "rounds must be at least 1, got 0")


@pytest.mark.parametrize("kind", [*KINDS, *PYTHON], ids=lambda kind: kind.__name__)
def test_errors_come_back_from_other_processes(kind: type[Exception]):
    ours = issubclass(kind, GraphcollabError)
    error = from_value(as_value(kind("rounds", "too few") if ours else kind("too few")))
    assert (type(error), str(error)) == (kind, "too few")
    assert not ours or (error.subject, error.code) == ("rounds", kind.code)


def test_codes_name_one_class_each():
    assert len({kind.code for kind in KINDS}) == len(KINDS)


def test_errors_are_the_built_in_errors_that_users_expect():
    with pytest.raises(KeyError):
        raise UnknownError("method", "unknown method 'fedavgg'")
    with pytest.raises(IndexError):
        raise RangeError("rounds", "rounds must be at least 1")


@pytest.mark.parametrize(
    ("code", "subject", "fact"), [("shape", "rounds", 0), ("range", "seed", 0), ("range", "rounds", 7)]
)
def test_raises_refuses_another_code_subject_or_fact(code: str, subject: str, fact: int):
    with pytest.raises(AssertionError), raises(code, subject, fact):
        raise RangeError("rounds", "rounds must be at least 1, got 0")


def test_warns_passes_other_warnings_on():
    with warnings.catch_warnings(record=True) as passed:
        warnings.simplefilter("always")
        with warns("quality", "column 'age'", 99):
            issue("quality", "column 'age'", "99 may be a code")
            warnings.warn("something else", stacklevel=1)
    assert [str(one.message) for one in passed] == ["something else"]
