"""Checks of user-defined losses and metrics: that they treat samples one by one, and have no trainable parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import ContractError, ShapeError
from graphcollab.engine.modules import leaves
from graphcollab.engine.objective import Context, Objective, Sum, require_weighted
from graphcollab.engine.randomness import keyed_layers

FEW = 4  # samples with equal targets, and with different ones
MOVES = 1, 2, 3


def check_loss(
    objective: Objective,
    few: tuple[Tensor, Tensor],
    labels: Tensor,
    context: Context,
    model: str,
    split: str,
    weighted: bool,
) -> None:
    """Check an objective on outputs and targets of a few samples, [B, ...] each, whose split has labels [N, ...].

    It rejects labels that do not fit the outputs, terms that broadcast or have parameters, which would not be trained,
    and, if samples have weights, an objective that ignores them.
    """
    outputs, targets = few
    objective.check(outputs, labels, model, split)
    own = {id(value) for value in context.params.values()}
    for term in objective.terms if isinstance(objective, Sum) else (objective,):
        refuse_broadcast(partial(_judge, term, context), repr(term), outputs, labels, model)
        with torch.enable_grad():
            loss = term(outputs.clone(), targets.clone(), context)
        for leaf in leaves(loss):
            if id(leaf) not in own:
                raise ContractError(
                    "loss",
                    f"{term!r} has a parameter of shape {[*leaf.shape]}, which nobody trains: make it one of the model",
                )
    if weighted:
        require_weighted(objective, outputs, targets, context)


def _judge(term: Objective, context: Context, outputs: Tensor, targets: Tensor) -> Tensor:
    return term(outputs, targets, context)


def refuse_broadcast(
    judge: Callable[[Tensor, Tensor], Any], name: str, outputs: Tensor, targets: Tensor, model: str = "the model"
) -> None:
    """Reject a loss or a metric that broadcasts outputs such as [B, 1] and targets such as [B] to [B, B].

    With broadcasting, it does not matter which sample has which target, but it does after reshaping to equal shapes.
    Losses that compare samples on purpose, such as rankings, depend on it in both cases, and those that compare
    distributions in neither.
    """
    own, given = outputs.shape[1:], targets.shape[1:]
    if own.numel() != given.numel() or (own == given and own.numel() > 1):
        return
    other = (targets != targets[:1]).reshape(len(targets), -1).any(1)
    few = targets[torch.cat([(~other).nonzero().flatten()[:FEW], other.nonzero().flatten()[:FEW]])]
    spread = torch.linspace(0.1, 0.9, few.numel(), device=outputs.device)
    for values in (few, spread):  # as close to targets as models get, and values with a valid logarithm
        said = values.to(outputs.dtype).reshape(-1, *own)
        if _minds(judge, said, few) is not False:
            continue
        alike = [_minds(judge, said.reshape(few.shape), few), _minds(judge, said, few.reshape(said.shape))]
        if own == given:  # a single number, which a loss may reshape on one side only
            shape = (len(few),) if own else (len(few), 1)
            alike = [_minds(judge, said.reshape(shape), few.reshape(shape))]
        if any(alike) and False not in alike:
            made, wanted = (f"[{', '.join(map(str, ('B', *shape)))}]" for shape in (own, given))
            raise ShapeError(
                "outputs",
                f"{name} broadcasts outputs {made} of {model} and targets {wanted}: return outputs of their shape",
            )


def _minds(judge: Callable[[Tensor, Tensor], Any], outputs: Tensor, targets: Tensor) -> bool | None:
    """Return whether it matters which sample has which target; None if these shapes are not accepted."""

    def value(targets: Tensor) -> Tensor:
        with keyed_layers(0):
            found = torch.as_tensor(judge(outputs.clone(), targets.clone()))
        return found.double().cpu().flatten().sort().values  # also with one value per sample

    try:
        with own_filter("ignore"), torch.no_grad():
            first, *moved = (value(targets.roll(by, 0)) for by in (0, *MOVES))
            return not all(torch.allclose(first, one, 1e-4, 1e-6, equal_nan=True) for one in moved)
    except Exception:
        return None
