"""Checks of models before the first round: their outputs, and what training changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab._base.checks import issue
from graphcollab._base.errors import ContractError, InvalidTypeError
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.scores import judging, refuse_broadcasting
from graphcollab.data.tasks import Tasks
from graphcollab.engine.check_loss import check_loss
from graphcollab.engine.guards import FrozenWeightsError, unwritten
from graphcollab.engine.losses import objective_of
from graphcollab.engine.modules import copy_module
from graphcollab.engine.objective import Context
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.stack import ParamSpec
from graphcollab.persistence.answers import Answers

_SUM = 1e-4  # tolerance of sums of probabilities around 1
_LARGER = 100.0  # factor of the inputs that takes logits far beyond 0 and 1


def check_outputs(tasks: Tasks, modules: Sequence[nn.Module], metric: Metric | None = None) -> None:
    """Run samples of every split through every architecture and check its outputs against labels, loss and metric."""
    objective = objective_of(tasks)
    if objective.embeds:
        raise ContractError(
            "loss",
            "the tasks' loss judges outputs and cannot read latents: give this one to the method, Fit(objective=...)",
        )
    for module in modules:
        if (check := getattr(module, "check_tasks", None)) is not None:
            check(tasks)
        judged, kind = copy_module(module).eval(), type(module).__name__
        for name, split in tasks.splits.items():
            if len(split.index) == 0:
                continue
            pool = tasks.pools[split.pool]
            labels = pool.targets[split.index]
            other = (labels != labels[0]).reshape(len(labels), -1).any(1).int().argmax()  # some metrics need two labels
            pair = torch.stack([torch.zeros_like(other), other if other > 0 else other + min(1, len(labels) - 1)])
            inputs, targets = pool.inputs[split.index[pair.cpu()]], labels[pair]
            outputs = _outputs(judged, inputs, "take", f" ({name})")
            if not isinstance(outputs, Tensor):
                returned = type(outputs).__name__
                raise InvalidTypeError("model", f"expected a model that returns a tensor, {kind} returns a {returned}")
            context = Context(None, dict(module.named_parameters()))
            check_loss(objective, (outputs, targets), labels, context, kind, name, tasks.weighted)
            if metric is not None:
                refuse_broadcasting(metric, outputs, labels, kind)
                ones = torch.ones(1, len(targets), device=targets.device) if tasks.weighted else None
                ends = torch.stack([labels.flatten().argmin(), labels.flatten().argmax()]) // labels[0].numel()
                for some in (targets, labels[ends]) if metric.of_classes else (targets,):
                    judging(metric, objective)(outputs[None], some[None], weight=ones)
            if name == "train":
                _warn_of_squashed(judged, inputs, targets, outputs, tasks)
                _check_training(module, inputs)


def _outputs(module: nn.Module, inputs: Tensor, what: str, where: str = "") -> Any:
    kind = type(module).__name__
    try:
        with keyed_layers(0), torch.no_grad(), unwritten(module):
            return module(inputs.clone())
    except FrozenWeightsError:
        raise
    except (RuntimeError, ValueError, IndexError) as error:
        shape = tuple(inputs.shape[1:])
        raise ContractError("model", f"{kind} cannot {what} inputs of shape {shape}{where}: {error}") from error


def _check_training(module: nn.Module, inputs: Tensor) -> None:
    """Check that a module can be trained, and that training changes nothing that nodes would share."""
    trained, kind = copy_module(module).train(), type(module).__name__
    _outputs(trained, inputs, "be trained on")
    own, after = set(ParamSpec.from_module(module).names), dict(trained.named_buffers())
    for name, before in module.named_buffers():
        if name not in own and not torch.equal(before, after[name]):
            raise ContractError(
                "model",
                f"buffer {name!r} of {kind} ({before.dtype}) changes in training: make it persistent, float and finite",
            )


def _warn_of_squashed(module: nn.Module, inputs: Tensor, targets: Tensor, outputs: Tensor, tasks: Tasks) -> None:
    """Warn if outputs for some inputs are probabilities although the loss converts outputs to probabilities itself.

    With several classes, outputs are flagged if they are in [0, 1] and sum to 1. A single output must stay in [0, 1]
    when inputs are scaled up, and differ between samples; for integer inputs, the last layer must be a Sigmoid.
    """
    meant = Answers.of(tasks.loss, targets, outputs, ())
    if not meant.logits or not _within(outputs):
        return
    last = [layer for layer in module.modules() if not [*layer.children()]][-1]
    if meant.kind == "classes":
        squashed, function = outputs.shape[1] > 1 and bool(((outputs.sum(1) - 1).abs() < _SUM).all()), "softmax"
    else:
        squashed, function = isinstance(last, nn.Sigmoid) or _stays_within(module, inputs), "sigmoid"
    if squashed:
        name = type(last).__name__
        which = f"the {name} at its end" if name.lower() == function else f"the {function} that makes them"
        loss = tasks.loss if isinstance(tasks.loss, str) else getattr(tasks.loss, "__name__", type(tasks.loss).__name__)
        issue(
            "conflict",
            "loss",
            f"outputs of {type(module).__name__} are probabilities already, and the loss {loss} takes them for logits, "
            f"of which it makes probabilities itself: leave out {which}, or it learns badly and metrics are wrong",
        )


def _stays_within(module: nn.Module, inputs: Tensor) -> bool:
    """Return whether outputs stay in [0, 1] for large inputs and are not all equal."""
    if not inputs.is_floating_point():
        return False
    with keyed_layers(0), torch.no_grad():
        outputs = copy_module(module).eval()(torch.cat([inputs, _LARGER * inputs, -_LARGER * inputs]))
    return _within(outputs) and bool(outputs.max() > outputs.min())


def _within(outputs: Tensor) -> bool:
    return outputs.is_floating_point() and bool(((outputs >= 0) & (outputs <= 1)).all())
