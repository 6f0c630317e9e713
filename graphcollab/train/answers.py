"""What a model's outputs say about new samples: classes, probabilities or values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphcollab.errors import InvalidValueError, RangeError, ShapeError, UnsupportedError

__all__ = ["Answers"]

Kind: TypeAlias = Literal["classes", "binary", "values"]

LOSSES: dict[Kind, tuple[object, ...]] = {  # of which it is known what outputs mean
    "classes": ("cross_entropy", F.cross_entropy, nn.CrossEntropyLoss, F.nll_loss, nn.NLLLoss),
    "binary": ("bce", F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss),
    "values": ("mse", F.mse_loss, nn.MSELoss, F.l1_loss, nn.L1Loss, F.huber_loss, nn.HuberLoss, nn.SmoothL1Loss),
}


@dataclass(frozen=True)
class Answers:
    """How outputs are read.

    Args:
        kind: ``"classes"``, logits of the classes [n, C, ...]; ``"binary"``, logits of class 1, [n, ...] or [n, 1]; or
            ``"values"``, the predictions themselves.
        logits: Whether the loss says that outputs are logits, so that probabilities can be told.
        classes: The classes' names. Without any, they are numbers.
    """

    kind: Kind
    logits: bool = True
    classes: tuple[str | int | float | bool, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what says nothing about outputs."""
        if self.kind not in LOSSES or not isinstance(self.logits, bool):
            raise InvalidValueError(
                "kind", f"expected outputs of the kind {', '.join(LOSSES)}, got {self.kind!r}", public=True
            )
        if not all(isinstance(name, str | int | float) for name in self.classes):
            raise InvalidValueError("classes", "a class has a name that is neither text nor a number")

    @classmethod
    def of(cls, loss: str | Callable[..., Any], targets: Tensor, outputs: Tensor, classes: tuple[Any, ...]) -> Answers:
        """Read off a loss, and where it is a function of the user's own off targets and outputs, what outputs mean."""
        for kind, known in LOSSES.items():
            if any(loss is one or loss == one or (isinstance(one, type) and isinstance(loss, one)) for one in known):
                return cls(kind, kind != "values", classes)
        if targets.is_floating_point():
            return cls("values", False)
        several = outputs.dim() > targets.dim() and outputs.shape[1] > 1
        return cls("classes" if several else "binary", False, classes)

    def predict(self, outputs: Tensor) -> np.ndarray:
        """Return a class per sample, by name where classes have names, or values."""
        if self.kind == "values":
            return _flat(outputs).numpy()
        if self.kind == "classes" and outputs.dim() < 2:
            raise ShapeError("outputs", f"expected an output for each class, [n, C], got {list(outputs.shape)}")
        found = (outputs.argmax(1) if self.kind == "classes" else (_flat(outputs) > 0).long()).numpy()
        if self.classes and found.size and found.max() >= len(self.classes):
            raise RangeError("outputs", f"the model chooses class {found.max()}, expected 0 to {len(self.classes) - 1}")
        return np.array(self.classes)[found] if self.classes else found

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """Return probabilities of the classes, [n, C, ...]; of several binary labels, that of each, [n, ...]."""
        if self.kind == "values":
            raise UnsupportedError("loss", "a regression has no classes, so no probabilities: use predict")
        if not self.logits:
            raise UnsupportedError(
                "loss",
                "the models were trained with a loss of your own, and nothing says whether their outputs are logits: "
                "use outputs(site, samples), and make probabilities of them as the loss does",
            )
        if self.kind == "classes":
            return outputs.softmax(1).numpy()
        one = torch.sigmoid(_flat(outputs))
        return (torch.stack([1 - one, one], 1) if one.dim() == 1 else one).numpy()


def _flat(outputs: Tensor) -> Tensor:
    """Return outputs [n, 1] as [n], and others as they are."""
    return outputs[:, 0] if outputs.dim() == 2 and outputs.shape[1] == 1 else outputs
