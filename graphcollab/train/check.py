"""Checks of tasks against models before any training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphcollab.checks import warn
from graphcollab.engine import Context, as_objective
from graphcollab.engine.modules import copy_module
from graphcollab.engine.randomness import keyed_layers
from graphcollab.method import Method
from graphcollab.metrics import Metric
from graphcollab.phases import Phases
from graphcollab.stack import ParamSpec
from graphcollab.tasks import Tasks
from graphcollab.train.history import History

__all__ = ["check_device", "check_outputs", "warn_of_phases", "warn_of_undefined"]


def warn_of_phases(method: Method | Phases, rounds: int) -> None:
    """Say so where a run ends before all phases of a method have begun."""
    while isinstance(method, Phases):
        if rounds <= method.until:
            warn(
                f"{method.next.name} begins in round {method.until}, counted from 0, and the run ends after {rounds}: "
                "this phase is never played; ask for more rounds, or let it begin earlier",
                UserWarning,
            )
            return
        method = method.next


def warn_of_undefined(history: History, metric: Metric, told: set[str]) -> None:
    """Say, once per run, which nodes have no value of the metric although they have samples.

    Args:
        history: Its last evaluation is looked at.
        metric: The metric.
        told: The nodes that have been named; the new ones are added.
    """
    found = {split: history.undefined(split) for split in ("val", "test")}
    new = sorted({name for names in found.values() for name in names} - told, key=history.names.index)
    if not new or told:
        return
    told.update(new)
    shown = ", ".join(new[:5]) + (", …" if len(new) > 5 else "")
    splits = ", ".join(split for split, names in found.items() if names)
    most = max(map(len, found.values()))
    warn(
        f"{metric.name} is not defined for {len(new)} of {len(history.names)} nodes ({shown}; split {splits})"
        f"{': ' + metric.undefined if metric.undefined else ''}. They are left out of means, which are over "
        f"{len(history.names) - most} of {len(history.names)} nodes; summaries and tables say so"
    )


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
    """Run samples of every split through every architecture and check its outputs against labels, loss and metric.

    Raises:
        ValueError: If a module cannot take the samples or be trained on them, labels lie outside its outputs, or the
            loss or the metric cannot judge them.
        TypeError: If a module returns anything but one tensor.
    """
    objective = as_objective(tasks.loss)
    if objective.embeds:
        raise ValueError(
            "the tasks' loss judges outputs, by which models are evaluated too, and cannot read latents: give such an "
            "objective to the local update, Fit(objective=...)"
        )
    for module in modules:
        judged, kind = copy_module(module).eval(), type(module).__name__
        for name, split in tasks.splits.items():
            if len(split.index) == 0:
                continue
            labels = tasks.pools[split.pool].targets[split.index]
            pair = _pair(labels)
            inputs, targets = tasks.pools[split.pool].inputs[split.index[pair]], labels[pair]
            outputs = _outputs(judged, inputs, name)
            objective.check(outputs, labels, kind, name)
            objective(outputs.clone(), targets.clone(), Context(None, dict(module.named_parameters())))
            if metric is not None:
                metric(outputs[None], targets[None])
            if name == "train":
                _check_training(module, inputs.clone())


def _pair(labels: Tensor) -> Tensor:
    """Return the places of two samples, with different labels if there are such: some metrics need that."""
    other = (labels != labels[0]).reshape(len(labels), -1).any(1).int().argmax()
    return torch.stack([torch.zeros_like(other), other if other > 0 else other + min(1, len(labels) - 1)])


def _outputs(module: nn.Module, inputs: Tensor, split: str) -> Tensor:
    """Return a module's outputs for some samples of a split."""
    kind = type(module).__name__
    try:
        with keyed_layers(0), torch.no_grad():
            outputs = module(inputs.clone())
    except (RuntimeError, ValueError, IndexError) as error:
        own = next(module.parameters()).dtype
        hint = ""
        if inputs.is_floating_point() and own != inputs.dtype:
            hint = (
                f"; its numbers are {own}, the samples' {inputs.dtype}: convert the module, for example by "
                "module.float() (autocast=True computes in bfloat16)"
            )
        shape = tuple(inputs.shape[1:])
        raise ValueError(f"{kind} cannot take inputs of shape {shape} ({split}): {error}{hint}") from error
    if not isinstance(outputs, Tensor):
        raise TypeError(
            f"a model must return one tensor [B, ...], {kind} returns a {type(outputs).__name__}: wrap it in a module "
            "that picks the outputs that the loss needs"
        )
    return outputs


def _check_training(module: nn.Module, inputs: Tensor) -> None:
    """Check that a module can be trained, and that nothing changes then that nodes would share."""
    trained, kind = copy_module(module).train(), type(module).__name__
    try:
        with keyed_layers(0), torch.no_grad():
            trained(inputs)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(f"{kind} cannot be trained on inputs of shape {tuple(inputs.shape[1:])}: {error}") from error
    own = set(ParamSpec.from_module(module).names)
    after = dict(trained.named_buffers())
    for name, before in module.named_buffers():
        if name not in own and not torch.equal(before, after[name]):
            raise ValueError(
                f"buffer {name!r} of {kind} ({before.dtype}) changes in training, but only floating-point buffers that "
                "start finite are kept for every node: make it one"
            )
