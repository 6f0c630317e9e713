"""What the row primitives return, and what they go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.stack import ParamSpec, Stacks

__all__ = ["BatchGradient", "FitState", "Fitted", "Outputs"]


@dataclass(frozen=True)
class FitState:
    """The optimiser's state of R rows.

    Args:
        slots: By slot, zero in the columns of buffers; position r is row r.
        step: Optimiser steps taken, [R].
    """

    slots: Mapping[str, Stacks]
    step: Tensor


@dataclass(frozen=True)
class Fitted:
    """What `Engine.fit` returns for R rows.

    Args:
        models: New models; position r is row r.
        loss: Mean training loss over a row's steps, [R].
        bad_step: First step whose loss was not finite, [R]; -1 where all were. It is the number of steps where all
            losses were finite but the last step left a model that is not.
        state: The optimiser's state.
    """

    models: Stacks
    loss: Tensor
    bad_step: Tensor
    state: FitState


@dataclass(frozen=True)
class BatchGradient:
    """What `Engine.batch_gradient` returns for R rows.

    Args:
        loss: Loss on the batch, [R].
        gradient: Its gradient, [R, P_part].
        buffers: What models hold behind their parameters (running statistics) after the pass, [R, columns - P]; None
            where rows are of several architectures.
    """

    loss: Tensor
    gradient: Tensor
    buffers: Tensor | None


@dataclass(frozen=True)
class Outputs:
    """Outputs of some rows on a split, padded to the longest of them.

    Args:
        rows: Which rows, [r].
        outputs: [r, n, ...].
        targets: [r, n, ...].
        sizes: How many of them are real samples, the first ones, [r].
        params: The rows' parameters by name, [r, ...] each.
        spec: The rows' architecture.
        latent: [r, n, d_z], if asked for.
        projection: [r, n, d_p], if asked for.
    """

    rows: Tensor
    outputs: Tensor
    targets: Tensor
    sizes: Tensor
    params: Mapping[str, Tensor]
    spec: ParamSpec
    latent: Tensor | None = None
    projection: Tensor | None = None

    @cached_property
    def mask(self) -> Tensor:
        """True for real samples, [r, n]."""
        return beside(torch.arange(self.outputs.shape[1]) < self.sizes[:, None], self.outputs)
