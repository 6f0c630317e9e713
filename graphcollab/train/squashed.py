"""Models whose outputs are probabilities already, where the loss reads them as logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphcollab.checks import issue
from graphcollab.engine.modules import copy_module
from graphcollab.engine.randomness import keyed_layers
from graphcollab.tasks import Tasks
from graphcollab.train.answers import Answers

__all__ = ["warn_of_squashed"]

_SUM = 1e-4  # how far from 1 probabilities may sum to
_LARGER = 100.0  # times the inputs, logits are far beyond 0 and 1


def warn_of_squashed(module: nn.Module, inputs: Tensor, targets: Tensor, outputs: Tensor, tasks: Tasks) -> None:
    """Warn where outputs for some inputs are probabilities, and the loss makes some of them once more.

    Of several classes they are from 0 to 1 and sum to 1. A single one must stay from 0 to 1 where inputs are made
    larger, and differ between samples; where inputs are whole numbers, a Sigmoid must be the last layer.
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
    """Tell whether outputs stay from 0 to 1 for large inputs, and are not all the same."""
    if not inputs.is_floating_point():
        return False
    with keyed_layers(0), torch.no_grad():
        outputs = copy_module(module).eval()(torch.cat([inputs, _LARGER * inputs, -_LARGER * inputs]))
    return _within(outputs) and bool(outputs.max() > outputs.min())


def _within(outputs: Tensor) -> bool:
    return outputs.is_floating_point() and bool(((outputs >= 0) & (outputs <= 1)).all())
