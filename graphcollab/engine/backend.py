"""The interface of the backends, and their common parts: batches of unequal length and randomness inside layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn

from graphcollab._base.device import beside
from graphcollab._base.typing import Embedded
from graphcollab.engine.dense_steps import Dense
from graphcollab.engine.guards import Frozen
from graphcollab.engine.modules import copy_module
from graphcollab.engine.objective import Context, Objective
from graphcollab.engine.optimizer import RowOptimizer, State
from graphcollab.engine.plan import Plan
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.samples import Batch, Feed
from graphcollab.engine.stack import ParamSpec

_JUDGING = 1  # key for modules that also draw in evaluation mode: every call draws the same numbers

T = TypeVar("T", Tensor, Embedded)

Key: TypeAlias = tuple[int, Tensor, int]
"""Keys of the randomness inside layers: seed, the identity of every row's node [r], and round."""


@dataclass(frozen=True, eq=False)
class Work:
    """Local steps of rows; ``state`` by slot, [r, P] each, is not modified; ``step`` [r] counts the previous steps."""

    feed: Feed
    optimizer: RowOptimizer
    objective: Objective
    state: Mapping[str, Tensor]
    step: Tensor

    def of(self, rows: slice) -> Work:
        """Return the work of the given rows."""
        state = {slot: values[rows] for slot, values in self.state.items()}
        return replace(self, feed=self.feed.of(rows), state=state, step=self.step[rows])

    @property
    def key(self) -> Key:
        """The keys of the randomness inside layers."""
        return self.feed.seed, self.feed.node_id, self.feed.round_


class Backend(ABC):
    """Computation with the models of one architecture. All backends give the same numbers up to rounding.

    The working memory is a copy of ``module`` that shares frozen weights. ``by_node``: randomness inside layers is
    keyed per node; ``together``: samples of all given rows pass through the module at once.
    """

    name: str
    by_node: ClassVar[bool] = True
    together: ClassVar[bool] = False
    only_reads: bool = False
    """Whether forward passes (except those to latents) are known not to write to their inputs."""
    layers: Sequence[Dense] | None = None
    """Linear layers with compiled plain steps, if the module is such a chain."""

    def __init__(self, module: nn.Module, spec: ParamSpec, plan: Plan) -> None:
        self.graphs = plan.graphs
        self.module = copy_module(module)
        for layer in self.module.modules():
            if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
                layer.sparse = False  # a row's gradient is dense
        self.frozen = Frozen(self.module)
        self.spec = spec
        self.padding = plan.padding
        self.samplewise = plan.padding == "always"  # samples may be padded in training and for gradients
        self.autocast = plan.precision == "bfloat16"
        self.memory_format = torch.channels_last if plan.memory_format == "channels_last" else torch.contiguous_format
        self.microbatch = plan.microbatch
        self.random = plan.random

    def predict(self, flat: Tensor, inputs: Tensor) -> Tensor:
        """Return the outputs [r, m, ...] of models [r, columns] on inputs [r, m, ...], in evaluation mode."""
        outputs: Tensor = self._judge(flat, inputs, False)
        return outputs

    def embed(self, flat: Tensor, inputs: Tensor) -> Embedded:
        """Return outputs, latents and projected latents, [r, m, ...] each, of models that have them."""
        return Embedded(*self._judge(flat, inputs, True))

    def _judge(self, flat: Tensor, inputs: Tensor, embed: bool) -> Any:
        self.module.eval()
        with torch.no_grad(), keyed_layers(_JUDGING):
            found = self._outputs(flat, inputs, embed)
        self.frozen.require_unchanged()
        return found

    @abstractmethod
    def _outputs(self, flat: Tensor, inputs: Tensor, embed: bool) -> Any:
        """Return outputs [r, m, ...], or outputs and latents, in the module's current mode."""

    def gradient(
        self,
        flat: Tensor,
        inputs: Tensor,
        targets: Tensor,
        weight: Tensor | None,
        objective: Objective,
        anchor: Tensor | None = None,
        key: Key | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return losses [r], gradients [r, P], and the buffers [r, columns - P] after the pass.

        The pass is in evaluation mode, or, with a key for randomness inside layers, in training mode. The models and
        their buffers are not modified; ``weight`` [r, m] is as in `Context`.
        """
        self.module.eval() if key is None else self.module.train()
        with torch.enable_grad(), keyed_rows(key):
            found = self._gradient(flat, Batch(inputs, targets, weight, anchor), objective, key)
        self.frozen.require_unchanged()
        return found

    @abstractmethod
    def _gradient(
        self, flat: Tensor, batch: Batch, objective: Objective, key: Key | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Implement `gradient`, with randomness keyed by the first row."""

    def fit(self, flat: Tensor, work: Work, out: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Take every row's local steps from models [r, columns], which are not modified; ``out`` gets the new ones.

        Returns new models, new optimizer state, and the loss at every step [S, r] (NaN for rows without this step).
        """
        self.module.train()
        new = torch.empty_like(flat, memory_format=torch.contiguous_format) if out is None else out
        new.copy_(flat)
        with torch.enable_grad(), keyed_rows(work.key):
            moments, losses = self._fit(new, work)
        self.frozen.require_unchanged()
        return new, moments, losses

    @abstractmethod
    def _fit(self, new: Tensor, work: Work) -> tuple[dict[str, Tensor], Tensor]:
        """Take the steps of models in place, with randomness keyed by the first row; return new state and losses."""

    def _split(self, values: Tensor) -> list[Tensor]:
        """Split numbers [..., P] into one view per parameter."""
        count = self.spec.num_named_parameters
        pieces = values.split(self.spec.sizes[:count], dim=-1)
        return [p.unflatten(-1, s) if s else p[..., 0] for p, s in zip(pieces, self.spec.shapes[:count], strict=True)]

    def _shares(self, scale: Mapping[str, Tensor] | None) -> list[Tensor] | None:
        """Return the share of the own model in every parameter, [r, 1, ...] each, which is 1 outside the parts."""
        if scale is None:
            return None
        count, ones = self.spec.num_named_parameters, torch.ones_like(next(iter(scale.values())))
        own = {name: share for part, share in scale.items() for name in self.spec.names_in(part)}
        pairs = zip(self.spec.names[:count], self.spec.shapes[:count], strict=True)
        return [own.get(name, ones).view(-1, *[1] * len(shape)) for name, shape in pairs]

    def _slopes(
        self,
        run: Callable[[Tensor], Any],
        params: Sequence[Tensor],
        batch: Batch,
        objective: Objective,
        rows: bool = False,
        drawing: AbstractContextManager[object] | None = None,
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Return the loss of a batch, and its gradients (None if it does not depend on a parameter), part by part.

        With ``rows``, these are losses [r] of many models, and all tensors have a leading r. ``run`` computes outputs,
        in the context ``drawing``.
        """
        most = self.microbatch if objective.additive else None
        total: tuple[Tensor, list[Tensor | None]] | None = None
        for part in batch.parts(most, int(rows), params[0].dtype):
            term = objective if total is None else objective.of_samples()
            if term is None:
                break
            with drawing or nullcontext():
                outputs = run(part.inputs)
                loss = self.loss(term.rows if rows else term, params, outputs, part)
            grads: list[Tensor | None] = [*torch.autograd.grad(loss, params, torch.ones_like(loss), allow_unused=True)]
            total = (loss.detach(), grads) if total is None else (total[0] + loss.detach(), _sums(total[1], grads))
        return cast("tuple[Tensor, list[Tensor | None]]", total)

    def loss(
        self, judge: Callable[[Tensor, Tensor, Context], Tensor], params: Sequence[Tensor], outputs: Any, batch: Batch
    ) -> Tensor:
        """Return the loss of outputs, or of outputs and latents, of a batch."""
        names = self.spec.names[: len(params)]
        near = None if batch.anchor is None else dict(zip(names, self._split(batch.anchor), strict=True))
        logits, latent, projection = outputs if isinstance(outputs, Embedded) else (outputs, None, None)
        own, more = dict(zip(names, params, strict=True)), (batch.given, batch.views, self.spec)
        return judge(logits, batch.targets, Context(batch.weight, own, near, latent, projection, *more))

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.autocast)

    def _whole(self, outputs: T) -> T:
        """Return outputs in full precision, in which losses are computed."""
        if not self.autocast:
            return outputs
        return Embedded(*(o.float() for o in outputs)) if isinstance(outputs, Embedded) else outputs.float()


def keyed_rows(key: Key | None, row: int = 0) -> AbstractContextManager[None]:
    """Key randomness inside layers by a row's node, or without keys as in evaluation mode."""
    return keyed_layers(_JUDGING) if key is None else keyed_layers(key[0], int(key[1][row]), key[2])


def batch_groups(size: Tensor, together: bool, like: Tensor) -> list[tuple[slice | Tensor, int, Tensor | None]]:
    """Group the active rows by batch length [r] (0: inactive), or pad them to one length if ``together``.

    A group has its rows, its batch length, and the weight of every sample [r, length], None if all are equal.
    """
    active = int((size > 0).sum())
    lengths = size[:active].unique().tolist()
    if len(lengths) == 1:
        return [(slice(0, active), lengths[0], None)]
    if together:
        width = lengths[-1]
        inside = torch.arange(width) < size[:active, None]
        return [(slice(0, active), width, beside(inside / size[:active, None].to(like.dtype), like))]
    return [((size == length).nonzero().flatten(), length, None) for length in lengths]


def _sums(some: Sequence[Tensor | None], more: Sequence[Tensor | None]) -> list[Tensor | None]:
    pairs = zip(some, more, strict=True)
    return [one if two is None else two if one is None else one + two for one, two in pairs]


def take_step(
    optimizer: RowOptimizer,
    params: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    state: State,
    step: Tensor | int,
    shares: Sequence[Tensor] | None = None,
) -> None:
    """Step in place, including state; parameters without a gradient do not even decay, as in ``torch.optim``."""
    some = [n for n, grad in enumerate(grads) if grad is not None]
    if not some:
        return
    mine, kept = [params[n] for n in some], {slot: [values[n] for n in some] for slot, values in state.items()}
    slopes = [grad for grad in grads if grad is not None]
    optimizer.update(mine, slopes, kept, step, None if shares is None else [shares[n] for n in some])
