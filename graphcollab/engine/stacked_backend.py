"""Common parts of the backends that compute the models of a chunk together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from graphcollab._base.device import beside
from graphcollab.engine.backend import Backend, Key, Work, batch_groups, keyed_rows, take_step
from graphcollab.engine.objective import Objective
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.engine.plan import Plan
from graphcollab.engine.randomness import Stream, randomness_by_row
from graphcollab.engine.samples import Batch
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import Chain
from graphcollab.engine.standing import Replays, Standing, own_copy
from graphcollab.engine.static_steps import Kind, StaticSteps

KEPT_BYTES = 2**30  # for the static steps of a backend: four whole chunks on a GPU, or some of small models
KEPT = 16  # maximum number of static steps, whose graphs have their own memory

Leaves: TypeAlias = list[Tensor]
"""Parameters and buffers of several models, [r, ...] each, in column order."""


class StackedBackend(Backend):
    """Models of a chunk as stacked tensors, which step together; subclasses define the forward pass."""

    def __init__(self, module: nn.Module, spec: ParamSpec, plan: Plan) -> None:
        super().__init__(module, spec, plan)
        self._static: dict[tuple[object, ...], StaticSteps] = {}
        self._replays = Replays()
        self.chain: Chain | None = None  # if all layers are known

    @abstractmethod
    def _forward(self, views: Leaves, inputs: Tensor, embed: bool = False) -> Any:
        """Return the outputs of all rows, [r, m, ...], or outputs, latents and projections."""

    def _streams(self, key: Key | None) -> list[Stream] | None:
        """Return the stream that each row draws from, None if all draw from the default generators."""
        return None

    def _outputs(self, flat: Tensor, inputs: Tensor, embed: bool) -> Any:
        return self._forward(self._views(flat), inputs, embed)

    def standing_gradient(self, flat: Tensor, standing: Standing, objective: Objective) -> tuple[Tensor, Tensor]:
        """Return losses [r] and gradients [r, P] as `gradient` does, in evaluation mode, for standing samples."""

        def compute(models: Tensor) -> Sequence[Tensor]:
            with torch.enable_grad():
                return self._gradient(models, standing.batch(), objective, None)[:2]

        losses, found = self._standing(("gradient", True, objective), "a gradient", compute, flat, standing, objective)
        return losses, found

    def standing_losses(self, flat: Tensor, standing: Standing, objective: Objective) -> Tensor:
        """Return losses [r] of standing samples, in evaluation mode."""

        def compute(models: Tensor) -> Sequence[Tensor]:
            batch, views = standing.batch(), self._views(models)
            with torch.no_grad():
                outputs = self._forward(views, batch.inputs)
                return [self.loss(objective.rows, views[: self.spec.num_named_parameters], outputs, batch)]

        (losses,) = self._standing(("losses", objective), "losses", compute, flat, standing, objective)
        return losses

    def _standing(
        self,
        kind: tuple[object, ...],
        name: str,
        compute: Callable[[Tensor], Sequence[Tensor]],
        flat: Tensor,
        standing: Standing,
        objective: Objective,
    ) -> Sequence[Tensor]:
        self.module.eval()
        if self.chain is not None and _is_ours(objective):  # of others, further inputs would be frozen by recording
            compute = self._replays.of((standing, *kind), name, compute)
        with keyed_rows(None):
            found = compute(flat)
        self.frozen.require_unchanged()
        return found

    def _gradient(
        self, flat: Tensor, batch: Batch, objective: Objective, key: Key | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        views = self._views(flat)
        count = self.spec.num_named_parameters
        params = [view.requires_grad_() for view in views[:count]]
        run = partial(self._run, params, views[count:], objective)
        drawing = _by_row(self._streams(key), slice(0, len(flat)))
        losses, grads = self._slopes(run, params, batch, objective, rows=True, drawing=drawing)
        whole = [torch.zeros_like(own) if grad is None else grad for own, grad in zip(params, grads, strict=True)]
        rest = _join(views[count:]) if views[count:] else flat.new_empty(len(flat), 0)
        return losses, _join(whole), rest

    def _fit(self, new: Tensor, work: Work) -> tuple[dict[str, Tensor], Tensor]:
        feed, objective, step = work.feed, work.objective, work.step
        count = self.spec.num_named_parameters
        # On a CPU, parts of rows are equally fast. A GPU's fused updates and convolutions need contiguous tensors, and
        # buffers that change in the forward pass must not count as changes of the adjacent parameters.
        apart = self.graphs or new.device.type != "cpu" or count < len(self.spec.names)
        shares = self._shares(feed.scale)
        streams = self._streams(work.key)
        static = self._static_steps(new, work, shares)
        if static is not None:
            leaves, moments = static.leaves, static.moments
        else:
            leaves = [own_copy(view) for view in self.spec.views(new)] if apart else self.spec.views(new)
            moments = {slot: [own_copy(view) for view in self._split(values)] for slot, values in work.state.items()}
        sizes = feed.schedule.size
        together = self.samplewise and not objective.reads.alike
        if static is None:
            losses = new.new_full((len(feed.schedule), len(new)), float("nan"))
            kinds: Sequence[Kind | None] = [None] * len(feed.schedule)
        else:
            losses, kinds = static.losses, static.kinds
        if None in kinds:
            whole = torch.where((sizes == sizes[0]).all(0), sizes[0], 0).tolist()  # steps of equal size in all rows
            first = int(step[0]) if bool((step == step[0]).all()) else None
            step = beside(step, new)
        for s, kind in enumerate(kinds):
            if static is not None and kind is not None:
                static.take(kind)
                continue
            alike = [(slice(0, len(new)), whole[s], None)] if whole[s] else None
            for rows, width, padded in alike or batch_groups(sizes[:, s], together, new):
                batch, drawing = feed.at(rows, s, width, padded), _by_row(streams, rows)
                rows = rows if isinstance(rows, slice) else beside(rows, new)
                part = [leaf[rows] for leaf in leaves]
                params = [leaf.detach().requires_grad_() for leaf in part[:count]]
                run = partial(self._run, params, part[count:], objective)
                losses[s, rows], grads = self._slopes(run, params, batch, objective, rows=True, drawing=drawing)
                taken = (first if isinstance(first, int) else step[rows]) + s
                moved = {slot: [m[rows] for m in many] for slot, many in moments.items()}
                with torch.no_grad():
                    own = None if shares is None else [share[rows] for share in shares]
                    take_step(work.optimizer, part[:count], grads, moved, taken, own)
                    if not isinstance(rows, slice):  # a copy was changed: write it back
                        for target, source in zip(leaves, part, strict=True):
                            target[rows] = source
                        for slot, many in moments.items():
                            for target, source in zip(many, moved[slot], strict=True):
                                target[rows] = source
            if static is not None:
                static.skip()
        if apart:
            _join(leaves, out=new)
        # The next steps, of another chunk, overwrite static tensors
        return {slot: _join(many) for slot, many in moments.items()}, losses if static is None else losses.clone()

    def _static_steps(self, new: Tensor, work: Work, shares: Sequence[Tensor] | None) -> StaticSteps | None:
        """Return the steps of so many rows on static tensors, reusing those of previous rounds of the same kind.

        They are static from the first round on, so that a resumed run pads its batches equally, and recorded from the
        second on, if nothing draws: recording pays off if steps of a kind recur. Few are kept, with models of at most
        ``KEPT_BYTES``: evicted ones must occur twice again.
        """
        feed, optimizer, objective = work.feed, work.optimizer, work.objective
        if not self.graphs or feed.views is not None or not _is_ours(objective):
            return None  # other inputs of a user's loss would be frozen by recording
        leaves = self.spec.views(new)
        moments = {slot: self._split(values) for slot, values in work.state.items()}
        given = None if feed.given is None else tuple((name, of.shape) for name, of in feed.given.items())
        more = feed.anchor is not None, given, shares is not None, feed.weight is not None
        key = len(new), feed.index.shape[2], id(feed.pool), optimizer, objective, more
        static = self._static.pop(key, None)
        recorded = static is not None and not self.random
        if static is None:
            left = KEPT_BYTES - new.nbytes
            for n, (old, kept) in enumerate(reversed([*self._static.items()]), 2):  # keep the most recently used
                left -= kept.nbytes
                if left < 0 or n > KEPT:
                    del self._static[old]  # free its memory before allocating more
            count, together = self.spec.num_named_parameters, self.samplewise and not objective.reads.alike
            mine = [own_copy(leaf) for leaf in leaves], {slot: [*map(own_copy, many)] for slot, many in moments.items()}

            moves = None if shares is not None else self._moving(optimizer, objective)

            def slopes(
                params: Sequence[Tensor], rest: Leaves, batch: Batch, whole: bool
            ) -> tuple[Tensor, list[Tensor | None]]:
                run = partial(moves, params) if whole and moves else partial(self._run, params, rest, objective)
                return self._slopes(run, params, batch, objective, rows=True)

            static = StaticSteps(slopes, *mine, count, feed, optimizer, together)
        self._static[key] = static
        static.recorded = recorded
        static.load(leaves, moments, feed, shares, beside(work.step, new))
        return static

    def _run(self, params: Sequence[Tensor], rest: Leaves, objective: Objective, inputs: Tensor) -> Any:
        return self._forward([*params, *rest], inputs, objective.reads.latents)

    def _moving(
        self, optimizer: RowOptimizer, objective: Objective
    ) -> Callable[[Sequence[Tensor], Tensor], Tensor] | None:
        """Return a function from parameters and inputs to outputs that steps in the backward pass, if supported."""
        return None

    def _views(self, flat: Tensor) -> Leaves:
        """Return views of rows that are only read: buffers are copies, since a module may change its own."""
        views = [view.detach() for view in self.spec.views(flat)]
        count = self.spec.num_named_parameters
        return [*views[:count], *map(own_copy, views[count:])]


def _by_row(streams: list[Stream] | None, rows: Tensor | slice) -> randomness_by_row | None:
    return None if streams is None else randomness_by_row(streams, torch.arange(len(streams))[rows].tolist())


def _is_ours(objective: Objective) -> bool:
    pieces = list(objective.walk())
    functions = [function for piece in pieces if (function := getattr(piece, "function", None)) is not None]
    return all(getattr(one, "__module__", "").startswith("graphcollab.") for one in (*map(type, pieces), *functions))


def _join(pieces: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """Concatenate pieces [r, *shape] as rows [r, columns]."""
    return torch.cat([piece.reshape(len(piece), -1) for piece in pieces], 1, out=out)
