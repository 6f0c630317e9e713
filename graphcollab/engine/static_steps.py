"""Local steps on tensors with fixed addresses, which a GPU replays as a CUDA graph."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.checks import issue, own_filter
from graphcollab.engine.backend import take_step
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.engine.samples import Batch, Feed, copied

Slopes: TypeAlias = Callable[[Sequence[Tensor], list[Tensor], Batch, bool], tuple[Tensor, list[Tensor | None]]]
"""Returns losses [r] and gradients, given parameters and buffers, [r, ...] each, and a batch.

If no row is inactive, as the last argument states, it may take steps itself and returns no gradients for the updated
parameters.
"""

REPLAYED = frozenset({"cuda"})  # devices on which steps are recorded and replayed
_recording = threading.Lock()
WARM_UP = 3  # steps before recording a graph, in which libraries choose kernels and allocate memory


class Kind(NamedTuple):
    """The properties that determine a step's operations: batch length B, weights, padding, and inactive rows."""

    width: int
    weighted: bool
    masked: bool


class StaticSteps:
    """The local steps of R rows on static tensors: batch, loss, gradients and update use no others.

    `load` copies the data of a round there; a counter gives the current step. If ``recorded``, a GPU records each
    `Kind` of step once as a CUDA graph and replays it. Inactive rows take part, and then get their old values back.
    ``leaves`` [R, ...] (the first ``count`` are parameters) and ``moments`` are static from now on. ``kinds`` is None
    for steps that cannot be static; ``losses`` [S, R] are NaN for inactive rows and for steps not taken.
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
        self.slopes, self.count, self.optimizer, self.together = slopes, count, optimizer, together
        self.leaves, self.moments = leaves, moments
        self.pool = feed.pool
        self.anchor: Tensor | None = None
        self.given: dict[str, Tensor] | None = None
        self.shares: list[Tensor] | None = None
        self.recorded = False
        self._first = leaves[0].new_zeros(len(feed.index), dtype=torch.float64)  # for powers in full precision
        self._place = feed.index.new_zeros(1)
        self._make_room(feed)

    @property
    def nbytes(self) -> int:
        """Bytes of models, optimizer state and batch indices; the graphs need additional memory."""
        return sum(one.nbytes for one in (*self._changed(), self._index, self._weight))

    def _make_room(self, feed: Feed) -> None:
        """Allocate tensors for the steps of the feed, and for the steps before recording."""
        rows, steps, width = feed.index.shape
        places, like = (1 << (steps - 1).bit_length()) + WARM_UP, self.leaves[0]
        self._index = feed.index.new_zeros(places, rows, width)
        self._size = feed.index.new_zeros(places, rows)
        self._weight = like.new_zeros(places, rows, width)
        self._losses = like.new_zeros(places, rows)
        self._sizes: Tensor | None = None
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
        """Copy the initial models, the optimizer's state, and the batches of a round."""
        many = [moments[slot] for slot in self.moments]
        torch._foreach_copy_(self._changed(), [*leaves, *(moment for own in many for moment in own)])
        self._first.copy_(taken)
        if feed.anchor is not None:
            self.anchor = _kept(self.anchor, feed.anchor)
        if feed.given is not None:
            own = self.given or {}
            self.given = {name: _kept(own.get(name), new) for name, new in feed.given.items()}
        if shares is not None:
            kept: Sequence[Tensor | None] = self.shares or [None] * len(shares)
            self.shares = [_kept(own, new) for own, new in zip(kept, shares, strict=True)]
        self._load_batches(feed)

    def _load_batches(self, feed: Feed) -> None:
        steps, width = feed.index.shape[1:]
        if steps + WARM_UP > len(self._index):
            self._make_room(feed)
        self.losses = self._losses[:steps].fill_(torch.nan)
        self._place.zero_()
        self._index[:steps].copy_(feed.index.transpose(0, 1))
        weighted = feed.weight is not None
        if feed.schedule.size is not self._sizes:  # the same tensor in every round, unless other nodes train
            self._sizes = feed.schedule.size
            self.kinds = kinds(self._sizes, width, weighted, self.together)
            self._size[:steps].copy_(self._sizes.T, non_blocking=True)
            self._pad(steps, width)
        if feed.weight is not None:
            self._pad(steps, width).mul_(feed.weight.transpose(0, 1))

    def _pad(self, steps: int, width: int) -> Tensor:
        """Set the weights of samples in the mean of their batch, if they have none of their own, [S, R, B]."""
        length = self._size[:steps, :, None].clamp(min=1)
        inside = torch.arange(width, device=length.device) < length
        return torch.div(inside, length.to(self._weight.dtype), out=self._weight[:steps])

    def take(self, kind: Kind) -> None:
        """Take the next step, which is of this kind."""
        if not (self.recorded and self._index.device.type in REPLAYED and self._replayed(kind)):
            self._step(kind)

    def skip(self) -> None:
        """Skip a step that cannot be static."""
        self._place.add_(1)

    def _step(self, kind: Kind) -> None:
        before = [values.clone() for values in self._changed()] if kind.masked else []
        index = self._now(self._index)[:, : kind.width]
        weight = self._now(self._weight)[:, : kind.width] if kind.weighted else None
        inputs, targets = self.pool.inputs, self.pool.targets
        # Labels: on a GPU, `index_select` uses few threads to gather single numbers
        own_targets = targets.take(index) if targets.dim() == 1 else copied(targets, index)
        batch = Batch(copied(inputs, index), own_targets, weight, self.anchor, self.given)
        own = self.leaves[: self.count]
        params = [leaf.detach().requires_grad_() for leaf in own]
        loss, grads = self.slopes(params, self.leaves[self.count :], batch, not kind.masked)
        with torch.no_grad():
            take_step(self.optimizer, own, grads, self.moments, self._first + self._place, self.shares)
            if kind.masked:
                active = self._now(self._size) > 0
                loss = loss.where(active, torch.nan)
                for values, old in zip(self._changed(), before, strict=True):
                    values.copy_(torch.where(active.view(-1, *[1] * (old.dim() - 1)), values, old))
            self._losses.index_copy_(0, self._place, loss.to(self._losses.dtype)[None])
            self._place.add_(1)

    def _now(self, values: Tensor) -> Tensor:
        """Return the entries of values [S, R, ...] at the current step, [R, ...]."""
        return values.index_select(0, self._place)[0]

    def _changed(self) -> list[Tensor]:
        return [*self.leaves, *(moment for many in self.moments.values() for moment in many)]

    def _replayed(self, kind: Kind) -> bool:
        """Replay the graph of a kind of step, recorded on first use; return False if that fails."""
        if kind not in self._graphs:
            changed = [*self._changed(), self._losses, self._place]
            self._graphs[kind] = recorded("a local step", partial(self._step, kind), changed, self._memory)
        graph = self._graphs[kind]
        if graph is None:
            return False
        self._memory = self._memory or graph.pool()  # shared by all kinds, since they never run concurrently
        graph.replay()
        return True


def kinds(size: Tensor, width: int, weighted: bool, together: bool) -> list[Kind | None]:
    """Return the kinds of steps with batch lengths [R, S], 0 for inactive rows; None for mixed kinds."""
    longest = size.amax(0)
    shortest = size.where(size > 0, longest).amin(0)
    found: list[Kind | None] = []
    for most, least, rests in torch.stack([longest, shortest, (size == 0).any(0)], 1).tolist():
        length = width if together else most
        alike = least == most or together
        found.append(Kind(length, weighted or least < length, bool(rests)) if alike else None)
    return found


def recorded(name: str, step: Callable[[], None], changed: Sequence[Tensor], memory: Any = None) -> Any:
    """Return a step as a CUDA graph (`record`), or None with a warning if it cannot be recorded."""
    try:
        return record(step, changed, memory)
    except RuntimeError as error:
        reason = str(error).splitlines()[0][:160]
        text = f"{name} cannot be recorded as a CUDA graph ({reason}): its operations are launched one by one"
        issue("unsupported", name, text)
        return None


def record(step: Callable[[], None], changed: Sequence[Tensor], memory: Any) -> torch.cuda.CUDAGraph:
    """Return a step as a CUDA graph; tensors that it changed meanwhile are restored.

    A step that synchronizes is rejected before recording, since a failed recording would leave PyTorch's streams and
    memory in an invalid state. The device is that of the tensors, and a process records one graph at a time.
    """
    device, before = changed[0].device, [values.clone() for values in changed]
    with _recording, torch.cuda.device(device):
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(current)
        checked = torch.cuda.get_sync_debug_mode()
        _check_waits("default")  # recording itself synchronizes once
        try:
            with torch.cuda.stream(side):
                for turn in range(WARM_UP):
                    if turn == WARM_UP - 1:
                        _check_waits("error")
                    step()
            _check_waits("default")
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with (
                _no_collection(),
                torch.cuda.stream(current),
                torch.cuda.graph(graph, pool=memory, stream=side, capture_error_mode="thread_local"),
            ):
                step()
        finally:
            _check_waits(checked)
            current.wait_stream(side)
            for values, old in zip(changed, before, strict=True):
                values.copy_(old)
    return graph


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause Python's garbage collector: freeing an older graph would invalidate the one being recorded."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _check_waits(mode: int | str) -> None:
    """Set PyTorch's synchronization debug mode, without its warning that it may not detect all cases."""
    with own_filter("ignore", "Synchronization debug mode is a prototype feature"):
        torch.cuda.set_sync_debug_mode(mode)


def _kept(own: Tensor | None, new: Tensor) -> Tensor:
    return new.clone() if own is None else own.copy_(new)
