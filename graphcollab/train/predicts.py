"""`Predicts`: what every site's model says about new samples, of a run that has ended or of models that were saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphcollab.engine.look_ups import LookUps, OutsideError
from graphcollab.errors import InvalidTypeError, NotFiniteError, RangeError, ShapeError
from graphcollab.naming import Node, few, find_node
from graphcollab.tasks import Preparation, Tasks
from graphcollab.tasks.samples import not_finite
from graphcollab.train.answers import Answers

__all__ = ["Predicts", "Reading"]


@dataclass(frozen=True)
class Reading:
    """How samples of sites are read, and outputs for them.

    Args:
        names: The sites.
        preparation: What turns rows of a table into inputs, if the tasks had one.
        shape: Shape of one sample's inputs.
        dtype: Their number type.
        answers: Function from outputs to how they are read.
    """

    names: tuple[str, ...]
    preparation: Preparation | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    answers: Callable[[Tensor], Answers]

    @classmethod
    def of(cls, tasks: Tasks) -> Reading:
        """Return how samples are read as those of tasks."""
        pool, prepared = tasks.pools[tasks.splits["train"].pool], tasks.preparation
        classes = () if prepared is None else prepared.classes
        own = lambda outputs: Answers.of(tasks.loss, pool.targets, outputs, classes)  # noqa: E731
        return cls(tasks.names, prepared, tasks.input_shape, pool.inputs.dtype, own)

    def require_one(self, site: Node, samples: Any) -> None:
        """Check that one site is named, and samples are given with it; else a TypeError says how to ask."""
        if samples is None:
            raise InvalidTypeError(
                "samples",
                f"a site and its samples are needed, as in predict({self.names[0]!r}, samples): every site has a model "
                f"of its own. The sites are {few(self.names)}",
            )
        try:
            find_node(site, self.names, "site")
        except TypeError as error:
            column = "site" if self.preparation is None else self.preparation.node
            raise InvalidTypeError(
                "site",
                f"{error}. Ask site by site: {{name: models.predict(name, rows) for name, rows in "
                f"frame.groupby({column!r})}}",
            ) from None

    def name(self, site: Node) -> str:
        """Return a site's name."""
        return self.names[find_node(site, self.names, "site")]

    def samples(self, site: Node, samples: Any) -> Tensor:
        """Return a site's samples as the models read them."""
        shape, dtype = self.shape, self.dtype
        expected = f"[n, {', '.join(map(str, shape))}]" if shape else "[n]"
        rows = isinstance(samples, list | tuple) and any(isinstance(row, Mapping) for row in samples)
        if rows or not isinstance(samples, Tensor | np.ndarray | list | tuple):
            if self.preparation is None:
                raise InvalidTypeError(
                    "samples",
                    f"expected an array of shape {expected}, got a {type(samples).__name__}{' of dicts' * rows}: the "
                    "tasks of these models had no preparation, which would turn tables into numbers",
                )
            samples = self.preparation.apply(samples, self.name(site))
        try:
            own = (
                samples if isinstance(samples, Tensor) else np.array(samples, order="C")
            )  # torch warns of read-only ones
            read = torch.as_tensor(own).cpu()
        except (TypeError, ValueError) as error:
            hint = "" if self.preparation is None else ". Rows of a table are given as a table, with their columns"
            raise InvalidTypeError(
                "samples", f"expected an array of numbers of shape {expected}: {error}{hint}"
            ) from error
        if tuple(read.shape[1:]) != shape or not read.dim():
            hint = "; for one sample give sample[None]" if tuple(read.shape) == shape else ""
            if self.preparation is not None and not hint:
                hint = (
                    f". An array must be prepared, with a column for each of {few(self.preparation.features)}; a table "
                    "with its columns by name is taken as it is"
                )
            raise ShapeError(
                "samples", f"expected samples of shape {expected}, got {list(read.shape)}{hint}", public=True
            )
        if read.is_floating_point() and not dtype.is_floating_point:
            raise ShapeError(
                "samples", f"expected whole numbers ({dtype}), as in training, got {read.dtype}", public=True
            )
        bad = not_finite(read)
        if len(bad):
            raise NotFiniteError(
                "samples",
                f"sample {int(bad[0])} has a number that is not finite, for which no model has an answer: "
                "fill it in, or leave the sample out",
                public=True,
            )
        return read.to(dtype, copy=True)  # models may work in place


class Predicts(ABC):
    """What can predict by every site's model."""

    @abstractmethod
    def model(self, site: Node) -> nn.Module:
        """Return a site's model."""

    @abstractmethod
    def _reading(self) -> Reading:
        """Return how samples of sites are read."""

    def outputs(self, site: Node, samples: Any = None) -> Tensor:
        """Return what a site's model returns for samples; see `predict`."""
        reading = self._reading()
        reading.require_one(site, samples)
        module = self.model(site)
        inputs = reading.samples(site, samples).to(next(module.parameters()).device)
        with torch.no_grad(), LookUps():
            try:
                return torch.as_tensor(module(inputs))
            except OutsideError as error:
                raise RangeError(
                    "samples",
                    f"a sample of site {reading.name(site)!r} leads to id {error.found}, and an embedding of the model "
                    f"has ids 0 to {error.size - 1}: leave out what it was not trained with",
                ) from error

    def predict(self, site: Node, samples: Any = None) -> np.ndarray:
        """Predict by a site's model.

        Args:
            site: The site, by name or position; where all names are whole numbers, a number is a name.
            samples: An array or tensor [n, ...] as the models were trained with; or, where the tasks had a preparation,
                what it reads, such as a frame with the same columns, or a list of rows as dicts. Needed.

        Returns:
            A class per sample, by the name that it had in the data if it had one, else as a number; or with targets
            that are real numbers the predicted values, in the units of the table if it was one.

        Raises:
            KeyError: If there is no such site.
            TypeError: If the site or its samples are not given, or several sites at once.
            ValueError: If samples are not of the shape that the models read, hold numbers that are not finite, or lead
                to ids that an embedding has not.
        """
        outputs, reading = self.outputs(site, samples).cpu(), self._reading()
        answers = reading.answers(outputs)
        if answers.kind == "values" and reading.preparation is not None:
            outputs = reading.preparation.restore(outputs, reading.name(site))
        return answers.predict(outputs)

    def predict_proba(self, site: Node, samples: Any = None) -> np.ndarray:
        """Return the probability of every class by a site's model, [n, C], in the order of ``classes``.

        Raises:
            ValueError: As `predict`, and where outputs are no logits of classes: in a regression, or after training
                with a loss of the user's own (see `outputs`).
        """
        outputs = self.outputs(site, samples).cpu()
        return self._reading().answers(outputs).probabilities(outputs)
