"""The stacked backend: one forward and backward pass for all rows of a chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from graphcollab.device import beside
from graphcollab.engine.backend import Backend, Key, batch_groups, take_step
from graphcollab.engine.dense_steps import dense_layers, take_dense_steps
from graphcollab.engine.modules import embed_arguments
from graphcollab.engine.objective import Objective
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.engine.samples import Feed
from graphcollab.engine.stacked import make_chain, stacked_ops
from graphcollab.stack import ParamSpec

__all__ = ["VmapBackend"]

Leaves = list[Tensor]


class VmapBackend(Backend):
    """Models of a chunk as stacked tensors: vmap over the forward pass and the loss.

    The backward pass is ordinary autograd over stacked tensors, so a step costs one dispatch per operation whatever the
    number of rows.

    Randomness inside layers is seeded per chunk here and is exempt from the rule that results do not depend on the
    chunk; `LoopBackend` keys it per node.
    """

    name = "vmap"

    def __init__(self, module: nn.Module, spec: ParamSpec, *settings: Any, **named: Any) -> None:
        super().__init__(module, spec, *settings, **named)
        self.chain = make_chain(module)
        self.layers = None if self.draws.twice else dense_layers(self.chain, spec)
        buffers = dict(module.named_buffers())
        self.first_buffer = len(spec.names) - sum(name in buffers for name in spec.names)
        self._run = torch.compile(self._forward) if self.draws.twice else self._forward

    @property
    def only_reads(self) -> bool:
        """A chain's layers do not write to their inputs; what other modules do nobody knows."""
        return self.chain is not None and not self.autocast

    def _outputs(self, flat: Tensor, inputs: Tensor, embed: bool) -> Any:
        return self._forward(self._views(flat), inputs, embed)

    def _gradient(
        self,
        flat: Tensor,
        inputs: Tensor,
        targets: Tensor,
        weight: Tensor | None,
        objective: Objective,
        anchor: Tensor | None,
        key: Key | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        views = self._views(flat)
        count = self.spec.num_named_parameters
        params = [view.requires_grad_() for view in views[:count]]
        with self.keyed() if key is None else self.keyed(key[0], int(key[1][0]), key[2]):
            outputs = self._forward_compiled([*params, *views[count:]], inputs, objective.reads.latents)
            losses = self._loss(objective.rows, params, outputs, targets, weight, anchor)
            grads = torch.autograd.grad(losses.sum(), params, materialize_grads=True)
        rest = _join(views[count:]) if views[count:] else flat.new_empty(len(flat), 0)
        return losses.detach(), _join(grads), rest

    def _fit(
        self,
        new: Tensor,
        feed: Feed,
        optimizer: RowOptimizer,
        objective: Objective,
        state: Mapping[str, Tensor],
        step: Tensor,
    ) -> tuple[dict[str, Tensor], Tensor]:
        if self.layers is not None and not self.autocast:
            found = take_dense_steps(self.layers, new, feed, optimizer, objective)
            if found is not None:
                return {}, found
        count = self.spec.num_named_parameters
        # A CPU works as well on parts of rows. A GPU's fused updates and convolutions want tensors in one piece, and
        # buffers that change in the forward pass must not count as changes of the parameters beside them.
        apart = new.device.type != "cpu" or count < len(self.spec.names)
        leaves = [_own(view) for view in self.spec.views(new)] if apart else self.spec.views(new)
        moments = {slot: [_own(view) for view in self._split(values)] for slot, values in state.items()}
        shares = self._shares(feed.scale)
        sizes = feed.schedule.size
        whole = torch.where((sizes == sizes[0]).all(0), sizes[0], 0).tolist()  # steps that all rows take alike
        losses = new.new_full((len(feed.schedule), len(new)), float("nan"))
        together = self.samplewise and not objective.reads.alike
        first, step = _common(step), beside(step, new)
        key = (feed.seed, int(feed.node_id[0]), feed.round_)
        with self.keyed(*key):
            for s, size in enumerate(sizes.T):
                alike = [(slice(0, len(new)), whole[s], None)] if whole[s] else None
                for rows, width, padded in alike or batch_groups(size, together, new):
                    inputs, targets = feed.batch(rows, s, width)
                    weight = feed.in_mean(rows, s, width, padded)
                    rows = rows if isinstance(rows, slice) else beside(rows, new)
                    part = [leaf[rows] for leaf in leaves]
                    params = [leaf.detach().requires_grad_() for leaf in part[:count]]
                    near = None if feed.anchor is None else feed.anchor[rows]
                    given, views = feed.given_to(rows), feed.num_views
                    outputs = self._forward_compiled([*params, *part[count:]], inputs, objective.reads.latents)
                    values = self._loss(objective.rows, params, outputs, targets, weight, near, given, views)
                    grads = torch.autograd.grad(values.sum(), params, allow_unused=True)
                    losses[s, rows] = values.detach()
                    taken = (first if isinstance(first, int) else step[rows]) + s
                    moved = {slot: [m[rows] for m in many] for slot, many in moments.items()}
                    with torch.no_grad():
                        own = None if shares is None else [share[rows] for share in shares]
                        take_step(optimizer, part[:count], grads, moved, taken, own)
                        if not isinstance(rows, slice):  # a copy was changed: write it back
                            for target, source in zip(leaves, part, strict=True):
                                target[rows] = source
                            for slot, many in moments.items():
                                for target, source in zip(many, moved[slot], strict=True):
                                    target[rows] = source
        if apart:
            for view, leaf in zip(self.spec.views(new), leaves, strict=True):
                view.copy_(leaf)
        return {slot: _join(many) for slot, many in moments.items()}, losses

    def _forward(self, views: Leaves, inputs: Tensor, embed: bool = False) -> Any:
        """Return the outputs of all rows, [r, m, ...], or outputs, latents and projections."""
        if self.chain is not None and not self.autocast and not embed:
            return self.chain({**self.frozen.tensors, **dict(zip(self.spec.names, views, strict=True))}, inputs)

        def one(own: Leaves, samples: Tensor) -> Any:
            named = dict(zip(self.spec.names, own, strict=True))
            return functional_call(self.module, named, (samples,), embed_arguments(embed))

        with stacked_ops(), self._autocast(inputs.device):
            return self._whole(vmap(one, randomness="different")(views, inputs))

    def _forward_compiled(self, views: Leaves, inputs: Tensor, embed: bool) -> Any:
        run = self._forward if self.draws.active else self._run  # torch.compile draws in another way
        return run(views, inputs, embed)

    def _views(self, flat: Tensor) -> Leaves:
        """Return views of rows that are read only: buffers are copies, since a module may change its own."""
        views = [view.detach() for view in self.spec.views(flat)]
        for n in range(self.first_buffer, len(views)):
            views[n] = _own(views[n])
        return views


def _own(view: Tensor) -> Tensor:
    return view.detach().clone(memory_format=torch.contiguous_format)


def _join(pieces: Sequence[Tensor]) -> Tensor:
    """Put pieces [r, *shape] side by side as rows [r, columns]."""
    return torch.cat([piece.reshape(len(piece), -1) for piece in pieces], 1)


def _common(step: Tensor) -> int | None:
    """Return the step count all rows share, if they do."""
    return int(step[0]) if bool((step == step[0]).all()) else None
