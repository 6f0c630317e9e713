"""Local steps on tensors that stay where they are, which a GPU replays as a CUDA graph."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.engine.backend import take_step
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.engine.samples import Batch, Feed, copied

__all__ = ["Kind", "Recorded", "StaticSteps", "record"]

Slopes: TypeAlias = Callable[[Sequence[Tensor], list[Tensor], Batch, Any], tuple[Tensor, list[Tensor | None]]]
"""Returns losses [r] and gradients, given parameters and buffers, [r, ...] each, a batch and what it draws from."""

REPLAYED = frozenset({"cuda"})  # devices on which steps are recorded and replayed
_recording = threading.Lock()
WARM_UP = 3  # steps before a graph is recorded, in which libraries choose their kernels and take their memory


class Kind(NamedTuple):
    """What sets the operations of a step apart from those of another.

    Args:
        width: Length of the batches, B.
        weighted: Whether samples have weights, as those of padded batches do.
        masked: Whether some rows rest.
    """

    width: int
    weighted: bool
    masked: bool


class StaticSteps:
    """The local steps of R rows on static tensors: batch, loss, gradients and update read and write no others.

    On a GPU each `Kind` of step is recorded once as a CUDA graph, where ``recorded`` is set, and replayed from then on.
    There a step of a small model takes less time than the launches of its operations. Elsewhere, and in the first
    round, steps are computed as they are. Rows that rest take part in a step, and then get their old values back.

    Args:
        slopes: Computes losses and gradients.
        leaves: Parameters and buffers of the rows, [R, ...] each; static from now on.
        moments: The optimizer's state by slot, likewise.
        count: Number of parameters among the leaves.
        feed: The first batches.
        optimizer: The update.
        together: Whether batches may be padded.
    """

    def __init__(
        self,
        slopes: Slopes,
        leaves: list[Tensor],
        moments: Mapping[str, list[Tensor]],
        count: int,
        feed: Feed,
        optimizer: RowOptimizer,
        together: bool,
    ) -> None:
        rows, _, width = feed.index.shape
        self.slopes, self.count, self.optimizer, self.together = slopes, count, optimizer, together
        self.leaves, self.moments = leaves, moments
        self.pool = feed.pool
        self.anchor: Tensor | None = None
        self.shares: list[Tensor] | None = None
        like = leaves[0]
        self.index = feed.index.new_zeros(rows, width)
        self.weight, self.loss = like.new_zeros(rows, width), like.new_zeros(rows)
        self.active = torch.zeros(rows, dtype=torch.bool, device=like.device)
        self.first = torch.zeros(rows, dtype=torch.float64, device=like.device)  # counts, for powers in full precision
        self.taken = self.first.clone()
        self.randomness: Any = None
        self.recorded = False
        self._graphs: dict[Kind, Any] = {}
        self._memory: Any = None

    def load(
        self,
        leaves: Sequence[Tensor],
        moments: Mapping[str, Sequence[Tensor]],
        feed: Feed,
        shares: Sequence[Tensor] | None,
        taken: Tensor,
    ) -> None:
        """Take over the models that steps begin from, the optimizer's state, and what does not change in a round."""
        pairs = [(self.leaves, leaves), *((self.moments[slot], many) for slot, many in moments.items())]
        for own, values in pairs:
            for target, source in zip(own, values, strict=True):
                target.copy_(source)
        self.first.copy_(taken)
        if feed.anchor is not None:
            self.anchor = _kept(self.anchor, feed.anchor)
        if shares is not None:
            kept: Sequence[Tensor | None] = self.shares or [None] * len(shares)
            self.shares = [_kept(own, new) for own, new in zip(kept, shares, strict=True)]
        self.feed = feed

    def kind(self, size: Tensor, weighted: bool) -> Kind | None:
        """Return the kind of a step with these batch lengths [R], 0 of rows that rest; None if it is no single one."""
        active = size > 0
        lengths = size[active].unique().tolist()
        if len(lengths) > 1 and not self.together:
            return None
        width = self.index.shape[1] if self.together else lengths[0]
        return Kind(width, weighted or lengths != [width], not bool(active.all()))

    def take(self, step: int, size: Tensor) -> Tensor | None:
        """Take a step with batches of these lengths [R], and return the losses [R]; None where it cannot be static."""
        kind = self.kind(size, self.feed.weight is not None)
        if kind is None:
            return None
        self.index[:, : kind.width].copy_(self.feed.index[:, step, : kind.width])
        if kind.weighted:
            length = size.clamp(min=1)[:, None]
            padded = beside((torch.arange(kind.width) < length) / length.to(self.weight.dtype), self.weight)
            counts = self.feed.in_mean(slice(None), step, kind.width, padded)
            self.weight[:, : kind.width].copy_(padded if counts is None else counts)
        torch.add(self.first, step, out=self.taken)
        if kind.masked:
            self.active.copy_(size > 0, non_blocking=True)
        if not (self.recorded and self.index.device.type in REPLAYED and self._replayed(kind)):
            self._step(kind)
        return self.loss.where(self.active, torch.nan) if kind.masked else self.loss.clone()

    def _step(self, kind: Kind) -> None:
        """Take a step, from static tensors to static tensors."""
        before = [values.clone() for values in self._changed()] if kind.masked else []
        index = self.index[:, : kind.width]
        weight = self.weight[:, : kind.width] if kind.weighted else None
        batch = Batch(copied(self.pool.inputs, index), copied(self.pool.targets, index), weight, self.anchor)
        own = self.leaves[: self.count]
        params = [leaf.detach().requires_grad_() for leaf in own]
        loss, grads = self.slopes(params, self.leaves[self.count :], batch, self.randomness)
        with torch.no_grad():
            take_step(self.optimizer, own, grads, self.moments, self.taken, self.shares)
            self.loss.copy_(loss)
            for values, old in zip(self._changed(), before, strict=False):
                values.copy_(torch.where(self.active.view(-1, *[1] * (old.dim() - 1)), values, old))

    def _changed(self) -> list[Tensor]:
        """Return what steps change: models, with their buffers, and the optimizer's state."""
        return [*self.leaves, *(moment for many in self.moments.values() for moment in many)]

    def _replayed(self, kind: Kind) -> bool:
        """Replay the graph of a kind of step, recorded when it is asked for first; False where that fails."""
        if kind not in self._graphs:
            try:
                self._graphs[kind] = graph = record(partial(self._step, kind), self._changed(), self._memory)
                self._memory = self._memory or graph.pool()  # all kinds share it: none is replayed beside another
            except RuntimeError as error:
                warnings.warn(
                    f"a local step cannot be recorded as a CUDA graph ({str(error).splitlines()[0][:160]}): its "
                    "operations are launched one by one",
                    RuntimeWarning,
                    stacklevel=2,
                )
                self._graphs[kind] = None
        graph = self._graphs[kind]
        if graph is not None:
            graph.replay()
        return graph is not None


class Recorded(NamedTuple):
    """A step as a CUDA graph, on the card where its tensors are."""

    graph: torch.cuda.CUDAGraph
    device: torch.device

    def replay(self) -> None:
        """Take the step."""
        with torch.cuda.device(self.device):
            self.graph.replay()

    def pool(self) -> Any:
        """Return the memory that it uses."""
        return self.graph.pool()


def record(step: Callable[[], None], changed: Sequence[Tensor], memory: Any) -> Recorded:
    """Return a step as a CUDA graph; the tensors that it has changed meanwhile get their values back.

    A step that waits for the card is refused before it is recorded: a recording that fails would leave PyTorch's
    streams and memory in disorder. The device is that of the tensors, and a process records one graph at a time.
    """
    device, before = changed[0].device, [values.clone() for values in changed]
    with _recording, torch.cuda.device(device):
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(current)
        checked = torch.cuda.get_sync_debug_mode()
        try:
            with torch.cuda.stream(side):
                for turn in range(WARM_UP):
                    if turn == WARM_UP - 1:
                        torch.cuda.set_sync_debug_mode("error")
                    step()
            torch.cuda.set_sync_debug_mode(checked)
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with (
                torch.cuda.stream(current),
                torch.cuda.graph(graph, pool=memory, stream=side, capture_error_mode="thread_local"),
            ):
                step()
        finally:
            torch.cuda.set_sync_debug_mode(checked)
            current.wait_stream(side)
            for values, old in zip(changed, before, strict=True):
                values.copy_(old)
    return Recorded(graph, device)


def _kept(own: Tensor | None, new: Tensor) -> Tensor:
    """Return a static tensor with new values: a new one where there is none."""
    return new.clone() if own is None else own.copy_(new)
