"""CPU threads: each thread's own number of them, and work that is shared without waiting for each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

__all__ = ["same_threads", "share", "threads_here"]

T = TypeVar("T")

_SETTING = threading.Lock()
_WORKERS: list[ThreadPoolExecutor] = []  # one, once there is work for it; none after a fork


def threads_here() -> int:
    """Return how many threads this thread computes with."""
    with _SETTING:
        return torch.get_num_threads()


@contextmanager
def same_threads(count: int) -> Iterator[None]:
    """Compute with a number of threads, in the calling thread only, so that a resumed run repeats its sums.

    PyTorch keeps the number per thread, but threads that begin take over what was set last anywhere: they shall find
    what the caller had.
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
    """Set the number of threads of this thread, and what threads that begin find."""
    if count == elsewhere or count > (os.cpu_count() or 1):
        return
    torch.set_num_threads(count)
    helper = threading.Thread(target=torch.set_num_threads, args=(elsewhere,))
    helper.start()
    helper.join()


def share(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Do some work for every item, in as many threads at a time as the caller computes with, each of them alone.

    Where another process takes a core away, the work then waits for one item at most, not in every operation. Items
    write to places of their own, so results do not depend on the number of threads; nothing is differentiated. An
    error, or the caller's interrupt, is raised only once no thread is at work: what items write to may be somebody
    else's afterwards.
    """
    count, left = min(threads_here(), len(items)), iter(items)  # shared: an item is taken by one thread only
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
    """Wait until all are done, whoever interrupts that: an interrupt that comes meanwhile is raised afterwards."""
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
