"""CPU threads: the number of threads used by each thread, and parallel work without synchronization per operation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")

_SETTING = threading.Lock()
_WORKERS: list[ThreadPoolExecutor] = []  # at most one, created on first use; none after a fork


def threads_here() -> int:
    """Return the number of threads with which this thread computes."""
    with _SETTING:
        return torch.get_num_threads()


@contextmanager
def same_threads(count: int) -> Iterator[None]:
    """Set the number of threads for the calling thread only, so that a resumed run reproduces its sums.

    PyTorch keeps the number per thread, but new threads inherit the value set last anywhere; they get the caller's
    previous value.
    """
    with _SETTING:
        now = torch.get_num_threads()
        _set_here(count, elsewhere=now)
    try:
        yield
    finally:
        with _SETTING:
            if torch.get_num_threads() != now:
                torch.set_num_threads(now)


def _set_here(count: int, elsewhere: int) -> None:
    """Set the number of threads of this thread, and the value inherited by new threads."""
    if count == elsewhere or count > (os.cpu_count() or 1):
        return
    torch.set_num_threads(count)
    helper = threading.Thread(target=torch.set_num_threads, args=(elsewhere,))
    helper.start()
    helper.join()


def share(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Process every item in parallel, in as many threads as the caller computes with, each single-threaded.

    If another process occupies a core, the work therefore waits for at most one item rather than in every operation.
    Items write to separate memory, so results do not depend on the number of threads; gradients are disabled. An error,
    or an interrupt of the caller, is raised only after all threads have stopped, since the memory may be reused
    afterwards.
    """
    count, left = min(threads_here(), len(items)), iter(items)  # shared: each item goes to one thread only
    over = threading.Event()

    def take() -> None:
        try:
            with torch.no_grad():
                for item in left:
                    if over.is_set():
                        return
                    work(item)
        except BaseException:
            over.set()
            raise

    if count < 2:
        take()
        return
    if not _WORKERS:
        _WORKERS.append(ThreadPoolExecutor(os.cpu_count(), "graphcollab", initializer=_compute_alone))
    taken = [_WORKERS[0].submit(take) for _ in range(count)]
    try:
        for done in taken:
            done.result()
    finally:
        over.set()
        _outlast(taken)


def _outlast(taken: Sequence[Future[None]]) -> None:
    """Wait until all are done despite interrupts; an interrupt in the meantime is raised afterwards."""
    try:
        wait(taken)
    except BaseException:
        _outlast(taken)
        raise


def _compute_alone() -> None:
    with _SETTING:
        _set_here(1, elsewhere=torch.get_num_threads())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKERS.clear)  # threads do not survive it
