"""Activation checkpointing whose second forward pass repeats the random draws of the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Self

import torch
from torch.utils.checkpoint import checkpoint

from graphcollab._base.errors import StateError
from graphcollab.engine.randomness import own_randomness, randomness_at_work


def keyed_checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without keeping its activations: the backward pass recomputes them.

    Unlike ``torch.utils.checkpoint.checkpoint``, whose second pass draws from the global generator, it repeats the
    draws under ``own_randomness``, such as dropout in local training. Outside of it, it is for functions that do not
    draw. Gradients flow to all tensors that the function uses, such as those of a layer.

    Raises:
        RuntimeError: If it is called under vmap, which never recomputes a layer.

    Example:
        >>> x = torch.ones(3, requires_grad=True)
        >>> with own_randomness(0):
        ...     y = keyed_checkpoint(torch.dropout, x, 0.5, True)
        >>> torch.equal(torch.autograd.grad(y.sum(), x)[0], y)  # what was kept counts twice
        True
    """
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise StateError(
            "backend", "activation checkpointing does not go with vmap, take backend 'shared' or 'loop', or none"
        )
    return checkpoint(
        function, *args, use_reentrant=False, preserve_rng_state=False, context_fn=_first_and_second, **kwargs
    )


def _first_and_second() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    active = randomness_at_work()
    return (nullcontext(), nullcontext()) if active is None else (_first(active), _Second(active.copy()))


@contextmanager
def _first(active: own_randomness) -> Iterator[None]:
    """Let generators draw under activation checkpointing, since the draws can be repeated."""
    active.repeats += 1
    try:
        yield
    finally:
        active.repeats -= 1


class _Second(ExitStack):
    """Draws from the state of the generators at the start of the first pass, each time it is entered."""

    def __init__(self, start: own_randomness) -> None:
        super().__init__()
        self.start = start

    def __enter__(self) -> Self:
        self.enter_context(self.start.copy()).repeats = 1
        return self
