"""MAPL: different models that learn from each other's class prototypes, and from whom to learn."""

from __future__ import annotations

from graphcollab.local import (
    Adam,
    Augment,
    Fit,
    ImageAugment,
    Objective,
    PrototypeContrast,
    PrototypeUniformity,
    SupervisedContrast,
    Views,
)
from graphcollab.method import Method
from graphcollab.nn import ClassifierSimilarity, Exchange, Uniform
from graphcollab.phases import Phases
from graphcollab.transforms import Threshold, WithSelfLoops

__all__ = ["mapl"]

NOTHING = 1e-12  # weights below are zero but for rounding


def mapl(
    epochs: int = 1,
    lr: float = 1e-4,
    weight_decay: float = 0.0,
    batch_size: int = 64,
    warmup: int = 100,
    temperature: float = 0.1,
    contrast: float = 1.0,
    prototype: float = 1.0,
    uniformity: float = 1.0,
    graph: ClassifierSimilarity | None = None,
    drop: bool = True,
    augment: Augment | None = ImageAugment(),  # noqa: B008
    part: str = "prototypes",
    buffers: str = "keep",
    published: bool = False,
) -> Method | Phases:
    r"""MAPL: models of any architecture, tied by shared class prototypes along a graph learned from their classifiers.

    `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ (Mukherjee et al., 2024),
    algorithm 3.
    """
    objective: Objective | None = None
    for weight, term in (
        (contrast, SupervisedContrast(temperature)),
        (prototype, PrototypeContrast(temperature)),
        (uniformity, PrototypeUniformity()),
    ):
        if weight:
            one = term if weight == 1 else weight * term
            objective = one if objective is None else objective + one
    local = Fit(
        epochs=epochs,
        batch_size=batch_size,
        optimizer=Adam(lr=lr, betas=(0.5, 0.999), weight_decay=weight_decay),
        objective=objective,
        views=Views(augment, 2),
    )
    first = Method(
        "mapl+" if "backbone" in part.split("+") or part == "all" else "mapl",
        local=local,
        weigh=Uniform(),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
    learning = first.replace(weigh=graph or ClassifierSimilarity())
    if drop:
        learning = learning.replace(rewire=Threshold(NOTHING))
    return Phases(first, warmup, learning) if warmup else learning
