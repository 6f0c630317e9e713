"""What all method functions have in common: the training arguments, their documentation, and their checks."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

from graphcollab.engine import RowOptimizer, as_row_optimizer
from graphcollab.local import Fit
from graphcollab.settings import checked

__all__ = ["BETAS", "Optimizer", "Weights", "fit", "make_optimizer", "method"]

P = ParamSpec("P")
R = TypeVar("R")

Optimizer: TypeAlias = Literal["sgd", "adam", "adamw"] | RowOptimizer
Weights: TypeAlias = Literal["counts", "uniform"]
"""Nodes count by their training samples, or all alike."""

BETAS = {"betas": (0.5, 0.999)}
"""Adam's, where authors have these."""

SHARED = {
    "lr": "Step size.",
    "epochs": "Passes over a node's samples per round.",
    "steps": "Local steps per round, instead of ``epochs``.",
    "batch_size": "Samples per step.",
    "optimizer": (
        '``"sgd"``, ``"adam"`` or ``"adamw"``, with the settings given here, or an optimiser object such as\n'
        "``SGD(lr=0.1, momentum=0.9)``, which brings its own. Its state starts afresh in every round."
    ),
    "momentum": "Momentum of SGD.",
    "weight_decay": "Coefficient of the L2 penalty.",
    "fraction": "Share of the nodes at work in a round (client sampling).",
    "weights": '``"counts"``: nodes count by their training samples; ``"uniform"``: all nodes count alike.',
    "incomplete": (
        'What a server does where edges are given and connected nodes may not all hear each other: ``"refuse"``, or\n'
        '``"average"`` them all the same.'
    ),
    "patience": (
        "Rounds without a better validation loss after which a node stops; nodes are then judged by their best\n"
        "models. None: nobody stops, and nodes are judged by their last models."
    ),
    "part": "Part of the model that is shared; the rest is the node's own.",
    "buffers": '``"keep"``: running statistics stay with their node; ``"average"``: they are averaged with the models.',
}
"""What arguments mean that many methods have, unless a method documents them itself."""

OF_OPTIMIZER = ("lr", "momentum", "weight_decay")


def method(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function the function of a method: its arguments are checked, and those that many have are documented.

    Arguments are checked against their annotations (`graphcollab.settings.checked`). An optimiser object brings its own
    settings, so none may be given beside it.

    Raises:
        TypeError: If an argument is documented neither by the function nor in `SHARED`.
    """
    check = checked(function)

    @functools.wraps(check)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        optimizer, given = kwargs.get("optimizer"), [name for name in OF_OPTIMIZER if name in kwargs]
        if given and isinstance(optimizer, RowOptimizer):
            raise ValueError(
                f"the optimiser brings its own {' and '.join(given)}: give them to it, or name it by a string, got "
                f"optimizer={optimizer!r} and {', '.join(f'{name}={kwargs[name]!r}' for name in given)}"
            )
        if "momentum" in given and isinstance(optimizer, str) and optimizer != "sgd" and kwargs["momentum"]:
            raise ValueError(f"momentum is a setting of SGD: leave it out, got it with optimizer={optimizer!r}")
        return check(*args, **kwargs)

    wrapper.__doc__ = _documented(function)
    return wrapper


def make_optimizer(optimizer: Optimizer, lr: float, momentum: float, weight_decay: float, **adam: Any) -> RowOptimizer:
    """Return a method's optimiser: the one that is given, or the one of that name with the method's settings.

    Args:
        optimizer: An optimiser, or its name.
        lr: Step size.
        momentum: Momentum of SGD.
        weight_decay: Coefficient of the L2 penalty.
        adam: Further settings of Adam, if it is that.
    """
    own = {"momentum": momentum} if isinstance(optimizer, str) and optimizer == "sgd" else adam
    return as_row_optimizer(optimizer, lr=lr, weight_decay=weight_decay, **own)


def fit(
    lr: float,
    epochs: int,
    steps: int | None,
    batch_size: int,
    optimizer: Optimizer,
    momentum: float,
    weight_decay: float,
    adam: Mapping[str, Any] | None = None,
    **more: Any,
) -> Fit:
    """Return the local training of a method, from its training arguments in their common order.

    Args:
        lr: Step size.
        epochs: Passes over a node's samples.
        steps: Local steps instead.
        batch_size: Samples per step.
        optimizer: An optimiser, or its name.
        momentum: Momentum of SGD.
        weight_decay: Coefficient of the L2 penalty.
        adam: Further settings of Adam.
        more: Further settings of `Fit`.
    """
    update = make_optimizer(optimizer, lr, momentum, weight_decay, **(adam or {}))
    return Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=update, **more)


def _documented(function: Callable[..., Any]) -> str | None:
    """Return a docstring whose ``Args:`` lists all arguments, in the signature's order."""
    if not function.__doc__:  # python -OO
        return None
    about, *sections = re.split(r"\n\n(?=(?:Args|Raises|Example):\n)", inspect.cleandoc(function.__doc__))
    own = next((one for one in sections if one.startswith("Args:")), "")
    entries = {entry.split(":")[0].strip(): entry for entry in re.split(r"\n(?=    \w)", own)[1:]}
    listed = ["Args:"]
    for name in inspect.signature(function).parameters:
        if name not in entries and name not in SHARED:
            raise TypeError(f"{function.__name__} does not say what its argument {name} means: add it to Args")
        listed.append(entries.get(name) or f"    {name}: " + SHARED[name].replace("\n", "\n        "))
    others = [one for one in sections if one != own]
    return "\n\n".join([about, "\n".join(listed), *others]) + "\n"
