"""Checks of tasks against models before any training."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphcollab.local import Context, CrossEntropy, as_objective
from graphcollab.method import Method, Phases
from graphcollab.metrics import Metric
from graphcollab.tasks import Tasks

__all__ = ["check_counts", "check_device", "check_outputs", "check_settings"]


def check_settings(method: object, tasks: object, stops_early: bool, on_nonfinite: str) -> None:
    """Check what is to be run.

    Raises:
        TypeError: If the method or the tasks are something else.
        ValueError: If a setting is unknown, or a node has no validation samples where they are needed.
    """
    if not isinstance(method, Method | Phases):
        hint = f": call it, as in {method.__name__}()" if inspect.isfunction(method) else ""
        raise TypeError(f"expected a Method or Phases, got {type(method).__name__}{hint}")
    if not isinstance(tasks, Tasks):
        raise TypeError(f"expected Tasks, got {type(tasks).__name__}: make them by Tasks.from_samples or shard_tasks")
    if on_nonfinite not in ("stop", "isolate"):
        raise ValueError(f"on_nonfinite must be 'stop' or 'isolate', got {on_nonfinite!r}")
    if stops_early:
        tasks.require("val", "early stopping needs")


def check_counts(**counts: int | None) -> None:
    """Check that what is given are whole numbers of at least 1.

    Raises:
        ValueError: If one is not; it is named.
    """
    for name, value in counts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_device(device: torch.device | str) -> torch.device:
    """Return a device that can be computed on.

    Raises:
        ValueError: If there is no such device here.
    """
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        known = ["'cpu'", *(f"'cuda:{k}'" for k in range(torch.cuda.device_count()))]
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used ({reason}); this machine has {', '.join(known)}") from error
    return found


def check_outputs(tasks: Tasks, modules: Sequence[nn.Module], metric: Metric | None = None) -> None:
    """Run samples through every architecture and check its outputs against labels, loss and metric.

    Raises:
        ValueError: If a module cannot take the samples, labels lie outside its outputs, or the loss or the metric
            cannot judge them.
    """
    split = tasks.splits["train"]
    pool = tasks.pools[split.pool]
    for module in modules:
        try:
            with torch.no_grad():
                outputs = copy.deepcopy(module).eval()(pool.inputs[split.index[:1]])
        except (RuntimeError, ValueError, IndexError) as error:
            raise ValueError(
                f"{type(module).__name__} cannot take inputs of shape {tuple(pool.inputs.shape[1:])}: {error}"
            ) from error
        if isinstance(objective := as_objective(tasks.loss), CrossEntropy):
            _check_labels(tasks, module, outputs)
        objective(outputs, pool.targets[split.index[:1]], Context(None, dict(module.named_parameters())))
        if metric is not None:
            metric(outputs[None], pool.targets[split.index[:1]][None])


def _check_labels(tasks: Tasks, module: nn.Module, outputs: Tensor) -> None:
    """Check that labels are classes of the outputs [1, C]."""
    if outputs.dim() != 2:
        raise ValueError(
            f"cross-entropy needs one output per class, [B, C], {type(module).__name__} has outputs of shape "
            f"{tuple(outputs.shape)}: for binary labels with one output use loss='bce'"
        )
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
