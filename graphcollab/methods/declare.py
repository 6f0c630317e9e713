"""Declaration of methods: the training arguments, their documentation and checks, and a few shared constructors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, get_args, get_type_hints

from graphcollab._base.documentation import documented, entries
from graphcollab._base.errors import ConflictError, InvalidTypeError
from graphcollab._base.naming import few
from graphcollab._base.settings import Buffers, Count, Incomplete, Momentum, NonNegative, Share, checked
from graphcollab.components import EarlyStopping, Exchange, Fit, PeerWeights, ThroughServer, sample_nodes
from graphcollab.components.judge import Judge
from graphcollab.engine.optimizer import RowOptimizer, as_row_optimizer
from graphcollab.methods.method import Method

__all__ = [
    "Gossip",
    "Serving",
    "Training",
    "averaged",
    "fit",
    "gossip",
    "make_optimizer",
    "method",
    "patient",
    "peer_method",
]

P = ParamSpec("P")
R = TypeVar("R")

Optimizer: TypeAlias = Literal["sgd", "adam", "adamw"] | RowOptimizer
Weights: TypeAlias = Literal["counts", "uniform"]
BETAS = {"betas": (0.5, 0.999)}  # Adam's betas in methods whose authors use these


class Training(TypedDict, total=False):
    """Arguments of local training, in order. A method without ``epochs`` has no ``steps`` either."""

    lr: NonNegative
    epochs: Count | None  # None only if that is the default
    steps: Count | None
    batch_size: Count
    optimizer: Optimizer
    momentum: Momentum
    weight_decay: NonNegative


class Serving(Training, total=False):
    """Arguments of methods that average through a server: those of training first, and these after a method's own."""

    fraction: Share
    weights: Weights
    incomplete: Incomplete
    part: str
    buffers: Buffers


class Gossip(Training, total=False):
    """Arguments of methods that average along edges, in the same way."""

    patience: Count | None
    part: str
    buffers: Buffers


OF_OPTIMIZER = ("lr", "momentum", "weight_decay")
USUAL = {
    "steps": None,
    "optimizer": "sgd",
    "momentum": 0.0,
    "weight_decay": 0.0,
    "fraction": 1.0,
    "weights": "counts",
    "incomplete": "refuse",
    "patience": None,
}

SHARED = {
    "lr": "Step size.",
    "epochs": "Passes over a node's samples per round.",
    "steps": "Local steps per round, instead of ``epochs``.",
    "batch_size": "Samples per step.",
    "optimizer": (
        '``"sgd"``, ``"adam"`` or ``"adamw"``, with the settings given here, or an optimizer object such as\n'
        "``SGD(lr=0.1, momentum=0.9)``, which brings its own. Its state starts afresh in every round."
    ),
    "momentum": "Momentum of SGD.",
    "weight_decay": "Coefficient of the L2 penalty.",
    "mixer_weight_decay": "Weight decay of that Adam (the paper's 0.01).",
    "decoupled": "Decouple that weight decay (AdamW).",
    "drop_round": "T_0: after the round of this index every node drops its weakest neighbors. None: never.",
    "drop_fraction": "Share of a node's neighbors that is dropped (the paper's 90 %).",
    "drop_count": "K_0, a number of neighbors instead.",
    "variant": "Which form of eq. 2, see `l2c`.",
    "metric": "What is measured of peers, by name (see `as_similarity`) or as a `Similarity`.",
    "samples": "Peers that a node meets in a round.",
    "explore_rounds": "T_1, rounds of the first stage.",
    "fraction": "Share of the nodes at work in a round (client sampling).",
    "weights": '``"counts"``: nodes count by their training samples; ``"uniform"``: all nodes count alike.',
    "incomplete": 'Where connected nodes may not all hear each other: ``"refuse"``, or ``"average"`` all the same.',
    "patience": (
        "Rounds without a better validation loss after which a node stops; nodes are then judged by their best\n"
        "models. None: nobody stops, and nodes are judged by their last models."
    ),
    "part": (
        'Part of the model that is shared; the rest is the node\'s own. ``"slopes"``: all but the bias of the output\n'
        "layer."
    ),
    "buffers": '``"keep"``: running statistics stay with their node; ``"average"``: they are averaged with the models.',
}
"""Documentation of arguments that several methods share, unless a method documents them itself."""


def method(*pieces: type, **defaults: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Turn a function into the function of a method: check its arguments (`checked`) and document them.

    Each argument is documented by the function's docstring, the pieces named here, settings of the same name, or
    ``SHARED``; a TypeError is raised if none of them does. ``**given: Unpack[Serving]`` expands to the arguments of
    `Serving`, and likewise `Training` and `Gossip`, with the defaults given here or in ``USUAL``. Without a default for
    ``epochs`` or ``steps``, the method takes neither. With an optimizer object, no optimizer settings may be given.
    """
    if defaults.get("epochs") and defaults.get("steps"):
        raise InvalidTypeError("steps", f"a method has epochs or steps by default, got both: {defaults}")
    if "steps" in defaults:
        defaults.setdefault("epochs", None)
    known, shared = {**USUAL, **defaults}, dict(SHARED)
    for piece in pieces:
        own = {name: text for name, text in entries(piece).items() if name not in Training.__annotations__}
        shared |= {name: text for name, text in own.items() if name not in ("part", "buffers")}
    left_out = () if "epochs" in defaults else ("epochs", "steps")

    def make(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        *own, last = signature.parameters.values()
        expanded: dict[str, Any] = {}
        if last.kind is last.VAR_KEYWORD:
            (taken,) = get_args(get_type_hints(function)[last.name])
            kinds = get_type_hints(taken, include_extras=True)
            said = {name: hint.__forward_arg__ for name, hint in taken.__annotations__.items()}
            if defaults.get("epochs"):
                kinds["epochs"], said["epochs"] = Count, "Count"
            if lacking := [name for name in kinds if name not in (*known, *left_out)]:
                raise InvalidTypeError(
                    "defaults", f"{function.__name__} takes **{last.name}: give @method a default of {few(lacking)}"
                )
            expanded = {name: known[name] for name in kinds if name not in left_out}
            parameters = [
                last.replace(name=name, kind=last.KEYWORD_ONLY, default=default, annotation=said[name])
                for name, default in expanded.items()
            ]
            first = [one for one in parameters if one.name in Training.__annotations__]
            function.__dict__["__signature__"] = signature.replace(parameters=[*first, *own, *parameters[len(first) :]])
            del function.__annotations__[last.name]  # some methods take fewer arguments
            function.__annotations__ |= {name: kinds[name] for name in expanded}
        check = checked(function)

        @functools.wraps(check)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            optimizer, given = kwargs.get("optimizer"), [name for name in OF_OPTIMIZER if name in kwargs]
            if given and isinstance(optimizer, RowOptimizer):
                raise ConflictError(
                    "optimizer",
                    f"the optimizer brings its own {' and '.join(given)}: give them to it, got "
                    f"optimizer={optimizer!r}, {', '.join(f'{name}={kwargs[name]!r}' for name in given)}",
                )
            if "momentum" in given and isinstance(optimizer, str) and optimizer != "sgd" and kwargs["momentum"]:
                raise ConflictError(
                    "momentum", f"momentum is a setting of SGD: leave it out, got it with optimizer={optimizer!r}"
                )
            if kwargs.get("epochs") is not None and "steps" in expanded:
                kwargs.setdefault("steps", None)  # replaces a default of steps
            for name, default in expanded.items():
                kwargs.setdefault(name, default)
            return check(*args, **kwargs)

        wrapper.__doc__ = documented(function, shared)
        return wrapper

    return make


def make_optimizer(training: Training, adam: Mapping[str, Any] | None = None) -> RowOptimizer:
    """Return a method's optimizer: the given object, or the one of that name; ``adam`` holds more settings of Adam."""
    optimizer = training["optimizer"]
    own = {"momentum": training["momentum"]} if isinstance(optimizer, str) and optimizer == "sgd" else adam or {}
    return as_row_optimizer(optimizer, lr=training["lr"], weight_decay=training["weight_decay"], **own)


def fit(training: Training, adam: Mapping[str, Any] | None = None, **more: Any) -> Fit:
    """Return the local training of a method; ``adam`` holds more settings of Adam, ``more`` further ones of `Fit`."""
    epochs, steps, batch_size = training["epochs"] or 1, training["steps"], training["batch_size"]
    return Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=make_optimizer(training, adam), **more)


def averaged(given: Serving) -> dict[str, Any]:
    """Return the slots of a method whose nodes take the average of a server."""
    route = ThroughServer(given["weights"], incomplete=given["incomplete"])
    exchange = Exchange(part=given["part"], buffers=given["buffers"], route=route)
    return {"exchange": exchange, "rewire": sample_nodes(given["fraction"])}


def gossip(name: str, weigh: PeerWeights, given: Gossip, **slots: Any) -> Method:
    """Return a method that trains and takes a weighted mean of the models that it has met, until ``patience`` ends."""
    return patient(peer_method(name, fit(given), weigh, given["part"], given["buffers"], **slots), given["patience"])


def peer_method(name: str, local: Fit, weigh: PeerWeights, part: str, buffers: Buffers, **slots: Any) -> Method:
    """Return a method that trains, weighs the models of other nodes, and takes their weighted mean."""
    metric: Any = weigh.metric
    if metric is not None and "buffers" in metric.agrees:  # it compares models as they are mixed
        metric = replace(metric, buffers=buffers)
    weigh = replace(weigh, metric=metric, part=part, buffers=buffers)
    return Method(name, local=local, weigh=weigh, exchange=Exchange("zero", "x", part, buffers=buffers), **slots)


def patient(method: Method, patience: int | None) -> Method:
    """Stop nodes after ``patience`` rounds without a better validation loss; None leaves the method unchanged."""
    return method if patience is None else method.replace(stop=EarlyStopping(patience), judge=Judge(field="best_x"))
