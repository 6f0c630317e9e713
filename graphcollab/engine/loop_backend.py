"""The loop backend: one row after another through a single module, whose parameters are views of the row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab.engine.backend import Backend, Key, Work, keyed_rows, take_step
from graphcollab.engine.modules import embed_arguments, in_parts
from graphcollab.engine.objective import Objective
from graphcollab.engine.samples import Batch


class LoopBackend(Backend):
    """Row by row, with all local steps of a row before the next one: the module's parameters are views of the row."""

    name = "loop"

    def _outputs(self, flat: Tensor, inputs: Tensor, embed: bool) -> Any:
        outputs = []
        for row, x in zip(flat, inputs, strict=True):
            self._bind(row.clone())  # a module may write to its parameters
            parts = x.split(self.microbatch or len(x))
            outputs.append(in_parts([self._run(part, embed) for part in parts], embed))
        return tuple(map(torch.stack, zip(*outputs, strict=True))) if embed else torch.stack(outputs)

    def _run(self, inputs: Tensor, embed: bool) -> Any:
        inputs = inputs.contiguous(memory_format=self.memory_format) if inputs.dim() == 4 else inputs
        with self._autocast(inputs.device):
            return self._whole(self.module(inputs, **embed_arguments(embed)))

    def _gradient(
        self, flat: Tensor, batch: Batch, objective: Objective, key: Key | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        losses, width, rest = [], self.spec.num_parameters, []
        grads = flat.new_zeros(len(flat), width)
        for r, row in enumerate(flat):
            own = row.clone()
            params = self._bind(own)
            run = partial(self._run, embed=objective.reads.latents)
            with keyed_rows(key, r):
                loss, parts = self._slopes(run, params, batch.of(r), objective)
            for view, part in zip(self._split(grads[r]), parts, strict=True):
                if part is not None:
                    view.copy_(part)
            losses.append(loss)
            self._unbind(own, self.spec.num_named_parameters)
            rest.append(own[width:])
        return torch.stack(losses), grads, torch.stack(rest)

    def _fit(self, new: Tensor, work: Work) -> tuple[dict[str, Tensor], Tensor]:
        feed, objective = work.feed, work.objective
        run = partial(self._run, embed=objective.reads.latents)
        moments = {slot: values.detach().clone() for slot, values in work.state.items()}
        sizes, first = feed.schedule.size.tolist(), work.step.tolist()
        losses, shares = new.new_full((len(feed.schedule), len(new)), float("nan")), self._shares(feed.scale)
        for r, row in enumerate(new):
            params = self._bind(row)
            kept = {slot: self._split(values[r]) for slot, values in moments.items()}
            moved = {slot: [self._laid_out(view) for view in views] for slot, views in kept.items()}
            own = None if shares is None else [share[r] for share in shares]
            seen = []
            with keyed_rows(work.key, r):
                for s, size in enumerate(sizes[r]):
                    if size == 0:
                        break
                    loss, grads = self._slopes(run, params, feed.at(r, s, size), objective)
                    with torch.no_grad():
                        take_step(work.optimizer, params, grads, moved, first[r] + s, own)
                    seen.append(loss)
            losses[: len(seen), r] = torch.stack(seen)
            self._unbind(row)
            for slot, views in kept.items():
                _copy_back(views, moved[slot])
        return moments, losses

    def _bind(self, row: Tensor) -> list[nn.Parameter]:
        """Make the module's parameters views of a row, copy its buffers, and return trainable ones in column order.

        Weights of convolutions are copies, too, if they need another memory layout than the row's.
        """
        named, buffers = dict(self.module.named_parameters()), dict(self.module.named_buffers())
        params = []
        for name, view in zip(self.spec.names, self.spec.views(row), strict=True):
            if name in named:
                named[name].data = self._laid_out(view)
                params.append(named[name])
            else:
                buffers[name].copy_(view)
        return params[: self.spec.num_named_parameters]

    def _unbind(self, row: Tensor, first: int = 0) -> None:
        """Copy the module's tensors that are not views back into a row, starting with the given name."""
        state = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        with torch.no_grad():
            _copy_back(self.spec.views(row)[first:], [state[name] for name in self.spec.names[first:]])

    def _laid_out(self, view: Tensor) -> Tensor:
        """Return a parameter of a row in the module's memory layout: itself, or a copy in another layout."""
        if view.dim() != 4 or self.memory_format == torch.contiguous_format:
            return view
        return torch.empty_like(view, memory_format=self.memory_format).copy_(view)


def _copy_back(views: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for view, value in zip(views, values, strict=True):
        if view.data_ptr() != value.data_ptr():
            view.copy_(value)
