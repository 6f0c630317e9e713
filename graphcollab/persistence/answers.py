"""`Predicts`: predictions of every site's model for new samples, from a finished run or from saved models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphcollab._base.errors import (
    InvalidTypeError,
    NotFiniteError,
    RangeError,
    ShapeError,
    UnknownError,
    UnsupportedError,
)
from graphcollab._base.naming import Node, few, find_node
from graphcollab.data import Preparation
from graphcollab.data.losses import LOSSES, Kind, predicted_by
from graphcollab.data.samples import not_finite
from graphcollab.data.tasks import Tasks
from graphcollab.engine.guards import LookUps, OutsideError

OF_TORCH: dict[Kind, tuple[object, ...]] = {  # losses with known meaning of the outputs
    "classes": (F.cross_entropy, nn.CrossEntropyLoss, F.nll_loss, nn.NLLLoss),
    "binary": (F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss),
    "values": (F.mse_loss, nn.MSELoss, F.l1_loss, nn.L1Loss, F.huber_loss, nn.HuberLoss, nn.SmoothL1Loss),
}


@dataclass(frozen=True)
class Answers:
    """Meaning of outputs: logits of ``"classes"`` [n, C, ...] or ``"binary"`` [n, ...] or [n, 1], or ``"values"``.

    ``"rates"`` are multiples of ``scale``, with outputs as their logarithms. ``logits``: according to the loss, outputs
    are logits, so probabilities are defined. Without names in ``classes``, classes are numbers. Logits are divided by
    ``temperature``. The second of two classes is predicted if its probability exceeds ``threshold``.
    """

    kind: Kind
    logits: bool = True
    classes: tuple[str | int | float | bool, ...] = ()
    scale: float = 1.0
    temperature: float = 1.0
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and 0 < self.threshold < 1):
            told = f"got {self.temperature!r} and {self.threshold!r}"
            raise RangeError("threshold", f"a temperature is above 0, and a threshold between 0 and 1: {told}")

    @classmethod
    def of(
        cls,
        loss: str | Callable[..., Any],
        targets: Tensor,
        outputs: Tensor,
        classes: tuple[Any, ...],
        scale: float = 1.0,
    ) -> Answers:
        """Return the meaning of outputs, given by a loss or, for a custom function, by targets and outputs."""
        if isinstance(loss, str):
            return cls(LOSSES[loss].outputs, predicted_by(loss) == "classes", classes, scale)
        for kind, known in OF_TORCH.items():
            if any(loss is one or loss == one or (isinstance(one, type) and isinstance(loss, one)) for one in known):
                return cls(kind, kind in ("classes", "binary"), classes, scale)
        if targets.is_floating_point():
            return cls("values", False)
        several = outputs.dim() > targets.dim() and outputs.shape[1] > 1
        return cls("classes" if several else "binary", False, classes)

    def predict(self, outputs: Tensor) -> np.ndarray:
        """Return a class per sample, by name if classes have names, or values, or rates."""
        if self.kind in ("values", "rates"):
            return (self.scale * _flat(outputs).exp() if self.kind == "rates" else _flat(outputs)).numpy()
        if self.kind == "classes" and outputs.dim() < 2:
            raise ShapeError("outputs", f"expected an output for each class, [n, C], got {list(outputs.shape)}")
        if self.kind == "binary" or self.threshold != 0.5:
            margin = _flat(outputs) if self.kind == "binary" else outputs[:, 1] - outputs[:, 0]
            bar = self.temperature * math.log(self.threshold / (1 - self.threshold))
            found = (margin > bar).long().numpy()
        else:
            found = outputs.argmax(1).numpy()
        if self.classes and found.size and found.max() >= len(self.classes):
            raise RangeError("outputs", f"the model chooses class {found.max()}, expected 0 to {len(self.classes) - 1}")
        return np.array(self.classes)[found] if self.classes else found

    def probabilities(self, outputs: Tensor) -> np.ndarray:
        """Return probabilities of the classes, [n, C, ...]; for several binary labels, that of each, [n, ...]."""
        if self.kind in ("values", "rates"):
            raise UnsupportedError("loss", "a regression has no classes, so no probabilities: use predict")
        if not self.logits:
            raise UnsupportedError(
                "loss",
                "of a loss of your own, outputs may be no logits: make probabilities of outputs(...)",
            )
        if self.kind == "classes":
            return (outputs / self.temperature).softmax(1).numpy()
        one = torch.sigmoid(_flat(outputs) / self.temperature)
        return (torch.stack([1 - one, one], 1) if one.dim() == 1 else one).numpy()


def _flat(outputs: Tensor) -> Tensor:
    return outputs[:, 0] if outputs.dim() == 2 and outputs.shape[1] == 1 else outputs


@dataclass(frozen=True)
class Reading:
    """How samples of sites are read, with inputs of ``shape`` and ``dtype``, and (``answers``) how outputs are read."""

    names: tuple[str, ...]
    preparation: Preparation | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    answers: Callable[[Tensor], Answers]
    shared: bool = False

    @classmethod
    def of(cls, tasks: Tasks) -> Reading:
        """Return how samples of the given tasks are read."""
        pool, prepared = tasks.pools[tasks.splits["train"].pool], tasks.preparation
        classes = () if prepared is None else prepared.classes
        own = lambda outputs: Answers.of(tasks.loss, pool.targets, outputs, classes, tasks.scale)  # noqa: E731
        return cls(tasks.names, prepared, tasks.input_shape, pool.inputs.dtype, own)

    def name(self, site: Node | None) -> str | None:
        """Return a site's name, or that of the model of all sites for None; raise an error for unknown sites."""
        if site is None and self.shared:
            return None
        try:
            return self.names[find_node(cast(Node, site), self.names, "site")]
        except UnknownError as error:
            if self.shared:
                error.args = (f"{error}; for another site give None: the model of all sites together answers then",)
            raise

    def samples(self, site: Node | None, samples: Any) -> Tensor:
        """Return a site's samples in the form that the models read."""
        name, shape, dtype = self.name(site), self.shape, self.dtype
        expected = f"[n, {', '.join(map(str, shape))}]" if shape else "[n]"
        rows = isinstance(samples, list | tuple) and any(isinstance(row, Mapping) for row in samples)
        if rows or not isinstance(samples, Tensor | np.ndarray | list | tuple):
            if self.preparation is None:
                raise InvalidTypeError(
                    "samples",
                    f"expected an array of shape {expected}, got a {type(samples).__name__}{' of dicts' * rows}: the "
                    "tasks of these models had no preparation, which would turn tables into numbers",
                )
            samples = self.preparation.apply(samples, name)
        try:  # copied, since torch warns of read-only arrays
            read = torch.as_tensor(samples if isinstance(samples, Tensor) else np.array(samples, order="C")).cpu()
        except (TypeError, ValueError) as error:
            raise InvalidTypeError("samples", f"expected an array of numbers of shape {expected}: {error}") from error
        if tuple(read.shape[1:]) != shape or not read.dim():
            hint = "; for one sample give sample[None]" if tuple(read.shape) == shape else ""
            if self.preparation is not None and not hint:
                hint = f". Give a table, or an array with a column for each of {few(self.preparation.features)}"
            raise ShapeError("samples", f"expected samples of shape {expected}, got {list(read.shape)}{hint}")
        if read.is_floating_point() and not dtype.is_floating_point:
            raise ShapeError("samples", f"expected whole numbers ({dtype}), as in training, got {read.dtype}")
        if len(bad := not_finite(read)):
            raise NotFiniteError(
                "samples", f"sample {int(bad[0])} has a number that is not finite: fill it in, or leave the sample out"
            )
        return read.to(dtype, copy=True)  # models may work in place


class Predicts(ABC):
    """Base of objects that predict by every site's model."""

    @abstractmethod
    def model(self, site: Any) -> nn.Module:
        """Return a site's model."""

    @abstractmethod
    def _reading(self) -> Reading:
        """Return how samples of sites are read."""

    def outputs(self, site: Node | None, samples: Any) -> Tensor:
        """Return the raw outputs of a site's model for samples; see `predict`."""
        reading = self._reading()
        inputs, module = reading.samples(site, samples), self.model(site)
        inputs = inputs.to(next(module.parameters()).device)
        with torch.no_grad(), LookUps():
            try:
                return torch.as_tensor(module(inputs))
            except OutsideError as error:
                raise RangeError(
                    "samples",
                    f"a sample of site {reading.name(site)!r} leads to id {error.found}, and an embedding of the model "
                    f"has ids 0 to {error.size - 1}: leave out what it was not trained with",
                ) from error

    def predict(self, site: Node | None, samples: Any) -> np.ndarray:
        """Predict with a site's model.

        Args:
            site: The site, by name or position; if all names are whole numbers, a number is a name. None: any other
                site, with the model of all sites together, if one was saved (`Models.has_shared`).
            samples: An array or tensor [n, ...] like the training inputs; or, if the tasks had a preparation, its
                input, such as a frame with the same columns, or a list of rows as dicts.

        Returns:
            A class per sample, by its name in the data if it had one, else as a number. With real-valued targets, the
            predicted values, in the units of the table if there was one; with ``loss="poisson"``, the predicted rates,
            which are mean counts; and with ``"cox"``, the logarithm of the hazard ratio, of which only differences
            between samples of one site are meaningful.

        Raises:
            KeyError: If there is no such site.
            TypeError: If several sites are given at once.
            ValueError: If samples do not have the shape that the models read, contain non-finite numbers, or lead to
                ids that an embedding does not have.
        """
        outputs, reading = self.outputs(site, samples).cpu(), self._reading()
        answers = reading.answers(outputs)
        if answers.kind == "values" and reading.preparation is not None:
            outputs = reading.preparation.restore(outputs, reading.name(site))
        return answers.predict(outputs)

    def predict_proba(self, site: Node | None, samples: Any) -> np.ndarray:
        """Return the probability of every class by a site's model, [n, C], in the order of ``classes``.

        Raises:
            ValueError: As in `predict`, and if outputs are not logits of classes: in a regression, or after training
                with a custom loss (see `outputs`).
        """
        outputs = self.outputs(site, samples).cpu()
        return self._reading().answers(outputs).probabilities(outputs)
