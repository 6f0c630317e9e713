"""The seeds of a comparison in several processes."""

from __future__ import annotations

import pickle
import signal
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import torch
from torch_geometric.data import Data
from tqdm import tqdm

from graphcollab.checks import own_filter, warn
from graphcollab.threads import threads_here
from graphcollab.train.callbacks import Callback
from graphcollab.train.result import History
from graphcollab.train.trials import Contestant, Outcome, Trials

__all__ = ["play_in_processes"]

QUIET = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # of libraries, as they load


def play_in_processes(trials: Trials, seeds: Sequence[int], jobs: int) -> Generator[tuple[int, Contestant, Outcome]]:
    """Yield what comes of all contestants, seed by seed in the order given; each seed is played in one process.

    What a trial computes follows from its seed and the number of threads; each process has its share of the caller's.
    Functions travel by joblib, also lambdas, and scripts need no ``if __name__ == "__main__"``. Warnings are given
    here again. At Ctrl-C every process finishes and saves its round; pressed again, they are ended at once.
    """
    settings = dict(trials.settings)
    shown, threads = settings.pop("progress", False), max(threads_here() // jobs, 1)
    each = len(trials.contestants)
    with tempfile.TemporaryDirectory() as folder, tqdm(total=each * len(seeds), disable=not shown) as bar:
        stop = Path(folder) / "stop"
        settings["callbacks"] = [*settings.get("callbacks", ()), _Until(stop)]
        work = replace(trials, settings=settings)
        pool = joblib.Parallel(jobs, backend="loky", return_as="generator", max_nbytes=None)
        number_type = torch.get_default_dtype()
        told = pool(joblib.delayed(_play)(work, seed, stop, threads, number_type) for seed in seeds)
        with _ask_on_interrupt(stop):
            try:
                for seed, played in zip(seeds, told, strict=True):
                    for text, category in played.warnings:
                        warn(text, category)
                    bar.update(len(played.outcomes))
                    for number, one in enumerate(trials.contestants):
                        yield seed, one, played.outcomes[number] if number < len(played.outcomes) else Outcome()
            finally:
                if stop.exists():  # the others shall finish their rounds, too
                    deque(told, maxlen=0)
                with own_filter("ignore"):  # joblib's word for seeds that nobody waits for any more
                    told.close()


@dataclass(frozen=True)
class _Played:
    outcomes: Sequence[Outcome]
    warnings: Sequence[tuple[str, type[Warning]]]


@dataclass(frozen=True)
class _Until(Callback):
    """Ends a run after the round in which a file is found."""

    file: Path

    def ends(self, data: Data, history: History) -> bool:
        return self.file.exists()


def _play(trials: Trials, seed: int, stop: Path, threads: int, number_type: torch.dtype) -> _Played:
    """Play a seed in this process."""
    torch.set_num_threads(threads)
    torch.set_default_dtype(number_type)
    outcomes: list[Outcome] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        if not stop.exists():
            for outcome in trials.play(seed):
                result, error = outcome.result, outcome.error
                if result is not None and stop.exists():
                    result = replace(result, interrupted=True)
                outcomes.append(replace(outcome, result=result, error=None if error is None else _sendable(error)))
                if result is not None and result.interrupted:
                    break
    told = dict.fromkeys((str(one.message), one.category) for one in heard if not issubclass(one.category, QUIET))
    return _Played(outcomes, list(told))


def _sendable(error: Exception) -> Exception:
    """Return an error that another process can read: itself, or one of the same name that says the same."""
    try:
        if str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    except Exception:  # its class takes other arguments than a text
        pass
    base: Any = ArithmeticError if isinstance(error, ArithmeticError) else RuntimeError
    return type(type(error).__name__, (base,), {})(str(error))


@contextmanager
def _ask_on_interrupt(stop: Path) -> Iterator[None]:
    """Turn the first Ctrl-C into a request to all processes; the second one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def ask(number: int, frame: Any) -> None:
        stop.touch()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
