"""Contexts that expect an error or a warning of the package by its code and subject, never by its sentences."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import pytest

from graphcollab import GraphcollabError, GraphcollabWarning
from graphcollab._base import errors

CODES = {kind.code for name, kind in vars(errors).items() if name.endswith("Error")} | {"no-effect", "quality"}


@contextlib.contextmanager
def raises(
    code: str, subject: str | None = None, *facts: object, kind: type[BaseException] = GraphcollabError
) -> Iterator[pytest.ExceptionInfo[GraphcollabError]]:
    """Expect an error with a code and a subject, whose message holds the facts (numbers, names), in any order."""
    assert code in CODES, code
    with pytest.raises(GraphcollabError) as found:
        yield found
    error = found.value
    assert isinstance(error, kind), f"a {type(error).__name__} is no {kind.__name__}"
    assert (error.code, error.subject) == (code, error.subject if subject is None else subject), str(error)
    lacking = [str(fact) for fact in facts if str(fact) not in str(error)]
    assert not lacking, f"the message lacks {lacking}: {error}"


@contextlib.contextmanager
def warns(code: str, subject: str | None = None, *facts: object) -> Iterator[list[warnings.WarningMessage]]:
    """Expect at least one warning with a code and a subject, whose message holds the facts; others are raised again."""
    assert code in CODES, code
    found: list[warnings.WarningMessage] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    for entry in caught:
        if _fits(entry.message, code, subject, facts):
            found.append(entry)
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
    assert found, f"no warning {code!r} of {subject!r} with {facts}; there were {[str(one.message) for one in caught]}"


def _fits(warning: Warning | str, code: str, subject: str | None, facts: tuple[object, ...]) -> bool:
    if not isinstance(warning, GraphcollabWarning) or warning.code != code:
        return False
    return subject in (None, warning.subject) and all(str(fact) in str(warning) for fact in facts)
