"""The contract of the two backends, and what they share: batches by index and randomness inside layers."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn

from graphcollab.keyed import keyed_seed
from graphcollab.local.copy_module import copy_module
from graphcollab.local.latents import embed_arguments, has_latents
from graphcollab.local.objective import Objective
from graphcollab.local.optimizer import RowOptimizer
from graphcollab.local.randomness import Draws, own_randomness
from graphcollab.local.views import Views
from graphcollab.stack import ParamSpec
from graphcollab.tasks import Pool, Schedule
from graphcollab.typing import Embedded

__all__ = [
    "Backend",
    "Feed",
    "Key",
    "batch_groups",
    "draws_keyed",
    "is_random",
    "keyed_layers",
    "padding_by_type",
    "training_failure",
    "used",
]

_LAYER_STREAM = 105
_VIEW_STREAM = 135
_JUDGING = 1  # key of modules that draw in evaluation mode, too: every call draws alike

VIEWS_AT_ONCE = 1024  # images that one call of the augmentation makes for a node, about

T = TypeVar("T", Tensor, Embedded)
F = TypeVar("F", bound=Callable[..., Any])

Key: TypeAlias = tuple[int, Tensor, int]
"""What keys randomness inside layers: seed, the identity of every row's node [r], and round."""


@dataclass(frozen=True)
class Feed:
    """The batches of R rows over S steps, drawn from one shared pool on its device.

    Rows are sorted by decreasing number of steps, so the rows still at work at a step are always the first ones.

    Args:
        pool: The samples.
        index: Pool position of every sample, [R, S, B].
        schedule: Lengths of the batches.
        node_id: Identity of every row's node, [R]: the key of randomness inside layers and of views.
        seed: Seed of the run.
        round_: Round.
        views: Augmented views of the samples. Default: the samples themselves.
        given: What the objective is given beside the samples, by name, [R, ...] each.
    """

    pool: Pool
    index: Tensor
    schedule: Schedule
    node_id: Tensor
    seed: int
    round_: int
    views: Views | None = None
    given: Mapping[str, Tensor] | None = None
    _drawn: dict[int, tuple[int, Tensor]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _sizes(self) -> list[list[int]]:
        """Batch lengths [R, S], read off the device once."""
        return self.schedule.size.tolist()

    @cached_property
    def _idents(self) -> list[int]:
        """Identities of the rows' nodes, likewise."""
        return self.node_id.tolist()

    @property
    def num_views(self) -> int:
        """V, 1 without views."""
        return 1 if self.views is None else self.views.count

    def batch(self, rows: Tensor | slice | int, step: int, width: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of some rows at a step, [r, V * width, ...] ([V * width, ...] for a single row)."""
        index = self.index[rows, step, :width]
        flat = index.reshape(-1)
        targets = self.pool.targets.index_select(0, flat)
        targets = targets.view(*index.shape, *targets.shape[1:])
        if self.views is None:
            inputs = self.pool.inputs.index_select(0, flat)
            return inputs.view(*index.shape, *inputs.shape[1:]), targets
        targets = torch.cat([targets] * self.views.count, dim=index.dim() - 1)
        if isinstance(rows, int):
            return self._views_of(self.views, rows, step, width), targets
        places = torch.arange(len(self.index), device=self.index.device)[rows].tolist()
        return torch.stack([self._views_of(self.views, row, step, width) for row in places]), targets

    def given_to(self, rows: Tensor | slice | int) -> dict[str, Tensor] | None:
        """Return what the objective is given of some rows."""
        return None if self.given is None else {name: value[rows] for name, value in self.given.items()}

    def _views_of(self, views: Views, row: int, step: int, width: int) -> Tensor:
        """Return a row's views at a step, [V * width, ...]: those of a block of steps are drawn at once, and kept."""
        sizes = self._sizes[row]
        block = max(VIEWS_AT_ONCE // (views.count * sizes[0]), 1)
        first = step - step % block
        if self._drawn.get(row, (-1, self.index))[0] != first:
            own = [self.index[row, s, :size] for s, size in enumerate(sizes[first : first + block], first)]
            samples = self.pool.inputs.index_select(0, torch.cat(own))
            with keyed_layers(_VIEW_STREAM, self.seed, self._idents[row], self.round_, first):
                self._drawn[row] = first, views(samples)
        start = sum(sizes[first:step])
        seen = self._drawn[row][1][:, start : start + sizes[step]]
        if width > sizes[step]:  # padding, of weight zero
            seen = torch.cat([seen, seen[:, -1:].expand(-1, width - sizes[step], *seen.shape[2:])], 1)
        return seen.flatten(0, 1)


class Backend(ABC):
    """Computes with the models of one architecture. Both backends give the same numbers up to rounding.

    Args:
        module: One module of the architecture; a copy of it serves as working memory.
        spec: Its columns.
        autocast: Compute forward passes in bfloat16.
        compile: Compile stacked forward passes with ``torch.compile``; the loop has nothing to gain.
        padding: Where batches may be padded to one length: ``"always"``, only in ``"evaluation"`` (predictions), or
            ``"never"``. Default: by the types of layers, `padding_by_type`.
    """

    name: str

    def __init__(
        self,
        module: nn.Module,
        spec: ParamSpec,
        autocast: bool = False,
        compile: bool = False,
        padding: str | None = None,
    ) -> None:
        self.module = copy_module(module)
        for layer in self.module.modules():
            if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
                layer.sparse = False  # a row's gradient is dense
        self.spec = spec
        self.padding = padding or padding_by_type(module, spec)
        self.autocast = autocast
        self.draws = Draws(twice=compile)

    @property
    def samplewise(self) -> bool:
        """Whether samples may be padded in training and for gradients."""
        return self.padding == "always"

    def keyed(self, *keys: int) -> AbstractContextManager[None]:
        """Key what is drawn inside, in a method that is `draws_keyed`."""
        return self.drawing_from(keyed_layers(*(keys or (_JUDGING,))))

    def drawing_from(self, randomness: own_randomness) -> AbstractContextManager[None]:
        """Draw from these generators, on from where they are, in a method that is `draws_keyed`."""
        return self.draws.keyed(randomness) if self.draws.active else nullcontext()

    @property
    def only_reads(self) -> bool:
        """Whether forward passes (not those to latents) are known not to write to their inputs."""
        return False

    @abstractmethod
    def predict(self, flat: Tensor, inputs: Tensor) -> Tensor:
        """Return the outputs [r, m, ...] of models [r, columns] on inputs [r, m, ...], in evaluation mode."""

    @abstractmethod
    def embed(self, flat: Tensor, inputs: Tensor) -> Embedded:
        """Return outputs, latents and projected latents instead, [r, m, ...] each, of models that have them."""

    @abstractmethod
    def gradient(
        self,
        flat: Tensor,
        inputs: Tensor,
        targets: Tensor,
        weight: Tensor | None,
        objective: Objective,
        anchor: Tensor | None = None,
        key: Key | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return losses [r] and gradients [r, P]; ``weight`` [r, m] as in `Context`.

        They are of evaluation mode, or, with a key for randomness inside layers, of training mode. Buffers stay as
        they are.
        """

    @abstractmethod
    def fit(
        self,
        flat: Tensor,
        feed: Feed,
        optimizer: RowOptimizer,
        objective: Objective,
        state: Mapping[str, Tensor],
        step: Tensor,
        anchor: Tensor | None = None,
        out: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Take every row's local steps.

        Args:
            flat: Models, [r, columns]; not changed.
            feed: Their batches.
            optimizer: The update.
            objective: What is minimised.
            state: Optimiser state by slot, [r, P]; not changed.
            step: Optimiser steps taken before, [r].
            anchor: Parameters to stay close to, [r, P].
            out: Where to put the new models, [r, columns]. Default: a new tensor.

        Returns:
            New models [r, columns], new optimiser state, and the loss at every step [S, r] (NaN where a row had none).
        """

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.autocast)

    def _whole(self, outputs: T) -> T:
        """Return outputs in full precision, in which losses are computed."""
        if not self.autocast:
            return outputs
        return Embedded(*(o.float() for o in outputs)) if isinstance(outputs, Embedded) else outputs.float()


def draws_keyed(compute: F) -> F:
    """Let a backend's method enter ``self.draws.keyed`` where its module or objective draws, and only there."""

    @functools.wraps(compute)
    def settled(self: Backend, flat: Tensor, *args: Any, **options: Any) -> Any:
        objective = next((one for one in (*args, *options.values()) if isinstance(one, Objective)), None)
        kind = compute.__name__, options.get("key") is None, objective
        return self.draws.settle(kind, flat.device, lambda: compute(self, flat, *args, **options))

    return cast(F, settled)


def batch_groups(size: Tensor, together: bool, like: Tensor) -> list[tuple[slice | Tensor, int, Tensor | None]]:
    """Group the rows at work by batch length, or pad them to one length with weights.

    Args:
        size: Batch length of every row, [r], the longest first; 0 for a row at rest.
        together: Whether samples may be padded.
        like: For device and number type of the weights.

    Returns:
        For every group its rows, its batch length, and the weight of every sample [r, length], None where all are
        equal.
    """
    active = int((size > 0).sum())
    lengths = size[:active].unique().tolist()
    if len(lengths) == 1:
        return [(slice(0, active), lengths[0], None)]
    if together:
        width = lengths[-1]
        inside = torch.arange(width) < size[:active, None]
        return [(slice(0, active), width, (inside / size[:active, None].to(like.dtype)).to(like.device))]
    return [((size == length).nonzero().flatten().to(like.device), length, None) for length in lengths]


def used(
    params: Sequence[Tensor], grads: Sequence[Tensor | None], state: Mapping[str, Sequence[Tensor]]
) -> tuple[list[Tensor], list[Tensor], dict[str, list[Tensor]]]:
    """Return parameters, gradients and optimiser state of what the loss depends on.

    The others rest, as in ``torch.optim``, which skips parameters without a gradient: they do not even decay.
    """
    some = [n for n, grad in enumerate(grads) if grad is not None]
    kept = {slot: [values[n] for n in some] for slot, values in state.items()}
    return [params[n] for n in some], [grad for grad in grads if grad is not None], kept


def padding_by_type(module: nn.Module, spec: ParamSpec) -> str:
    """Return where batches may be padded as far as the types of layers tell; see `Backend`.

    Batch normalisation looks across the batch in training, and without running statistics in evaluation too. Whatever
    has buffers may average over the batch.
    """
    norms = [
        m
        for m in module.modules()
        if isinstance(m, nn.modules.batchnorm._NormBase) and not isinstance(m, nn.modules.instancenorm._InstanceNorm)
    ]
    if any(m.running_mean is None or m.running_var is None for m in norms):
        return "never"
    return "evaluation" if norms or "buffers" in spec.parts else "always"


def is_random(module: nn.Module, inputs: Tensor) -> bool:
    """Tell whether the module draws random numbers in training mode, judged by one forward pass of a copy, to latents.

    Shapes:
        inputs: [B, ...]; two samples or more, for batch normalisation.
    """
    with keyed_layers(_JUDGING):
        embeds = has_latents(module, inputs)
    with keyed_layers(0) as randomness, torch.no_grad():
        copy_module(module).train()(inputs, **embed_arguments(embeds))
    return randomness.draws > 0


def training_failure(module: nn.Module, inputs: Tensor, embeds: bool = False) -> str | None:
    """Return why a copy of a module cannot take inputs [B, ...] in training mode, None where it can.

    Args:
        module: The module.
        inputs: The inputs.
        embeds: Whether latents are asked for.
    """
    try:
        with keyed_layers(0), torch.no_grad():
            copy_module(module).train()(inputs, **embed_arguments(embeds))
    except (RuntimeError, ValueError, IndexError) as error:
        return str(error)
    return None


def keyed_layers(*keys: int) -> own_randomness:
    """Key randomness inside layers and losses (dropout) by integers, and leave PyTorch's global generators alone.

    It holds for whatever draws from the global generators, also for functions such as ``F.dropout`` that no list of
    layers shows.
    """
    return own_randomness(keyed_seed(_LAYER_STREAM, *keys) % 2**63)
