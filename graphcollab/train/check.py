"""Checks of tasks against models before any training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from graphcollab.local import CrossEntropy, as_objective
from graphcollab.tasks import Tasks

__all__ = ["check_outputs"]


def check_outputs(tasks: Tasks, modules: Sequence[nn.Module]) -> None:
    """Run one sample through every architecture and check labels against its outputs.

    Raises:
        ValueError: If a module cannot take the samples, or labels lie outside its outputs.
    """
    split = tasks.splits["train"]
    pool = tasks.pools[split.pool]
    for module in modules:
        mode = module.training
        try:
            with torch.no_grad():
                outputs = module.eval()(pool.inputs[split.index[:1]])
        except (RuntimeError, ValueError, IndexError) as error:
            raise ValueError(
                f"{type(module).__name__} cannot take inputs of shape {tuple(pool.inputs.shape[1:])}: {error}"
            ) from error
        finally:
            module.train(mode)
        if not isinstance(as_objective(tasks.loss), CrossEntropy):
            continue
        for name, owned in tasks.splits.items():
            labels = tasks.pools[owned.pool].targets
            if labels.is_floating_point() or labels.dim() != 1:
                raise ValueError(
                    f"cross-entropy needs one whole-number label per sample, targets of split {name!r} are "
                    f"{labels.dtype} of shape {tuple(labels.shape)}: for regression use loss='mse'"
                )
            used = labels[owned.index]
            if len(used) and not 0 <= int(used.min()) <= int(used.max()) < outputs.shape[-1]:
                raise ValueError(
                    f"split {name!r} has labels from {int(used.min())} to {int(used.max())}, "
                    f"{type(module).__name__} has outputs for 0 to {outputs.shape[-1] - 1}"
                )
