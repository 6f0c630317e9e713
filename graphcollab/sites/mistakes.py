"""How an error is shown to whoever wrote a site's script: what is said of a mistake stands last, and is not buried."""

from __future__ import annotations

import dis
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

__all__ = ["as_text", "in_short", "is_mistake"]

T = TypeVar("T")

PACKAGE = Path(__file__).parents[1]
LIBRARIES = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
RAISE = dis.opmap["RAISE_VARARGS"]


def is_mistake(error: BaseException) -> bool:
    """Tell whether a check of this package has found something wrong with what it was given.

    Its words say it all then, and where they were written says nothing. Not so where something else has failed, be it
    code of this package, or of the user that was called from here, also if an error of it led to the one at hand.
    """
    if isinstance(error, AssertionError | NotImplementedError) or (trace := error.__traceback__) is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    raised = _is_own(trace) and code.co_code[trace.tb_lasti] == RAISE
    return raised and not any(_calls_back(one) for one in _causes(error))


def in_short(act: Callable[[], T]) -> T:
    """Return what is done; a mistake is raised from here, without what led to it inside this package."""
    try:
        return act()
    except Exception as error:
        if is_mistake(error):
            raise error.with_traceback(None) from None
        raise


def as_text(error: BaseException, script: str) -> str:
    """Return an error's text and where it was raised, from the script on; of a mistake, in the script only.

    Args:
        error: The error.
        script: The script's file.
    """
    start = next((one for one in _steps(error.__traceback__) if one.tb_frame.f_code.co_filename == script), None)
    if start is None:  # it could not even be read
        return "".join(traceback.format_exception_only(error))
    mistake = is_mistake(error)
    inside = next((number for number, one in enumerate(_steps(start)) if _is_own(one)), None)
    return "".join(
        traceback.format_exception(type(error), error, start, limit=inside if mistake else None, chain=not mistake)
    )


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Iterate over the errors from which one has come."""
    while (before := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        yield before
        error = before


def _calls_back(error: BaseException) -> bool:
    """Tell whether an error comes from code of the user's that this package has called."""
    steps = [*_steps(error.__traceback__)]
    first = next((number for number, one in enumerate(steps) if _is_own(one)), len(steps))
    return any(not _is_own(one) and not _within(one, *LIBRARIES) for one in steps[first:])


def _is_own(trace: TracebackType) -> bool:
    return _within(trace, PACKAGE)


def _within(trace: TracebackType, *folders: Path) -> bool:
    file = Path(trace.tb_frame.f_code.co_filename)
    return any(file.is_relative_to(folder) for folder in folders)
