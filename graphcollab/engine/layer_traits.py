"""What a module's layers do, as far as their types or one forward pass tell."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from graphcollab.engine.copy_module import copy_module
from graphcollab.engine.latents import embed_arguments, has_latents
from graphcollab.engine.randomness import keyed_layers
from graphcollab.stack import ParamSpec

__all__ = ["Padding", "is_random", "padding_by_type", "training_failure"]

Padding: TypeAlias = Literal["never", "evaluation", "always"]
"""Where batches of unequal length may be padded to one."""

_TRIED = 1  # key of the trial


def padding_by_type(module: nn.Module, spec: ParamSpec) -> Padding:
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
    with keyed_layers(_TRIED):
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
