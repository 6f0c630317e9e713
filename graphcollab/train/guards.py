"""What holds while rounds are played: the number of threads, and that Ctrl-C waits for the round."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from graphcollab.engine import Plan
from graphcollab.threads import threads_here

__all__ = ["choose_threads", "finish_round_on_interrupt"]

LARGE = 2**18  # parameters of a stacked model whose matrix products are worth sharing


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
            return threads_here()
    return 1


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
