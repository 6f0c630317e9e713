"""What holds while rounds are played: the number of threads, and that Ctrl-C waits for the round."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from graphcollab.local import Plan

__all__ = ["choose_threads", "finish_round_on_interrupt", "same_threads"]

LARGE = 2**18  # parameters of a stacked model whose matrix products are worth sharing

_SETTING = threading.Lock()


def choose_threads(modules: Sequence[nn.Module], plans: Sequence[Plan]) -> int:
    """Return how many threads suit the work: all that the caller's setting allows where they pay, else one.

    They pay for convolutions, and for stacked models of many parameters (`LARGE`). The steps of other models are too
    short to be shared: several threads gain nothing, recurrent layers lose by them, and where another process takes a
    core they wait for each other.
    """
    for module, plan in zip(modules, plans, strict=True):
        convolves = any(isinstance(m, nn.modules.conv._ConvNd) for m in module.modules())
        large = plan.backend == "vmap" and sum(p.numel() for p in module.parameters()) >= LARGE
        if convolves or large:
            with _SETTING:
                return torch.get_num_threads()
    return 1


@contextmanager
def same_threads(count: int) -> Iterator[None]:
    """Compute with a number of threads, in the calling thread only, so that a resumed run repeats its sums.

    PyTorch keeps the number per thread, but threads that begin take over what was set last anywhere: they shall find
    what the caller had. Runs in several threads therefore do not change each other's.
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


@contextmanager
def finish_round_on_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a request that is met after the round; the second one interrupts."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    previous = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def ask(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)
