"""Multiprocessing over the seeds of a comparison and the splits of `graphcollab.benefit`."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import joblib
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError
from tqdm import tqdm

from graphcollab._base.checks import issue, issue_again, own_filter
from graphcollab._base.errors import ConflictError
from graphcollab._base.naming import AS_OPTIONS
from graphcollab._base.threads import threads_here
from graphcollab.analysis.trials import Played, Trials
from graphcollab.comm.launch import launched
from graphcollab.comm.meeting import ProcessLostError

T = TypeVar("T")
R = TypeVar("R")

QUIET = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # from libraries on import


def play_in_processes(trials: Trials, seeds: Sequence[int], n_jobs: int) -> Generator[Played]:
    """Yield the trials of all contestants in the order of seeds, each seed in one process; Ctrl-C stops all of them."""
    played = map_in_processes(partial(_play, replace(trials, progress=False)), seeds, n_jobs)
    total = len(seeds) * len(trials.contestants)
    with closing(played), progress_bar(total, "trial", trials.progress) as progress:
        for many in played:
            progress.update(len(many))
            yield from many


def progress_bar(total: int, unit: str, shown: bool) -> tqdm[Any]:
    """Return a progress bar on standard error; for commands that redirect it to a file, print one line per minute."""
    log: dict[str, Any] = {"delay": 60, "mininterval": 60} if AS_OPTIONS.get() and not sys.stderr.isatty() else {}
    return tqdm(total=total, unit=unit, disable=not shown, **log)


def map_in_processes(function: Callable[[T], R], items: Iterable[T], n_jobs: int) -> Generator[R]:
    """Yield the results of a function for items, in order, each computed in one process.

    Every process has its share of the caller's threads. Functions are sent by joblib, including lambdas, and scripts
    need no ``if __name__ == "__main__"``. Warnings are issued again in this process.
    """
    if launched():
        raise ConflictError(
            "n_jobs", f"n_jobs={n_jobs} starts processes, and this run has those of its launcher: leave n_jobs out"
        )
    threads, number_type = max(threads_here() // n_jobs, 1), torch.get_default_dtype()
    pool = joblib.Parallel(n_jobs, backend="loky", return_as="generator", max_nbytes=None)
    told = pool(joblib.delayed(_work)(function, item, threads, number_type, AS_OPTIONS.get()) for item in items)
    try:
        for made, heard in told:
            for text, category, code, subject in heard:
                issue(code, subject, text) if code else issue_again(category(text))
            yield made
    except TerminatedWorkerError as error:
        raise ProcessLostError(
            "n_jobs",
            f"one of the processes of n_jobs={n_jobs} was ended by the system, as where memory is used up: take fewer",
        ) from error
    finally:
        with own_filter("ignore"):  # joblib warns of results that are no longer awaited
            told.close()


def _work(
    function: Callable[[T], R], item: T, threads: int, number_type: torch.dtype, as_options: bool
) -> tuple[R, list[tuple[str, type[Warning], str, str]]]:
    torch.set_num_threads(threads)
    torch.set_default_dtype(number_type)
    AS_OPTIONS.set(as_options)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        made = function(item)
    told = [one for one in heard if not issubclass(one.category, QUIET)]
    about = [(getattr(one.message, "code", ""), getattr(one.message, "subject", "")) for one in told]
    texts = [(str(one.message), one.category, *codes) for one, codes in zip(told, about, strict=True)]
    return made, list(dict.fromkeys(texts))


def _play(trials: Trials, seed: int) -> list[Played]:
    return [(one, result, error and _sendable(error)) for one, result, error in trials.play(seed)]


def _sendable(error: Exception) -> Exception:
    """Return an error that another process can unpickle: itself, or one of the same name and message."""
    try:
        if str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    except Exception:  # its class takes arguments other than a text
        pass
    base: Any = ArithmeticError if isinstance(error, ArithmeticError) else RuntimeError
    return type(type(error).__name__, (base,), {})(str(error))
