"""The performance of each node's model on the node's own data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.errors import ContractError, InvalidTypeError, ShapeError

IGNORED = -100
"""The target that classification metrics ignore, the default of PyTorch's classification losses."""


@dataclass(frozen=True)
class Metric:
    """The performance of each node's model on the node's own data.

    A metric is called with the outputs of all rows at once. Rows may have unequal numbers of samples: they are padded,
    and ``mask`` marks the real ones. The values in the padding never change the result. A row without samples gives
    NaN.

    Samples may have weights, which are nonnegative and of which only ratios matter; those of weight 0 are ignored, like
    padding. All metrics of this package are weighted means, or computed from weighted means.

    Args:
        name: Name in tables and histories.
        higher_is_better: Whether higher values are better.
        measure: Function that returns the value of each row, given outputs, targets and mask with the same R and n.
            `Metric.per_node` makes it from a function for the samples of one node.
        undefined: Condition under which a node with samples has no value, for messages.
        weighted: Whether ``measure`` also accepts the samples' weights, as its fourth argument: 0 in the padding, and 1
            for all other samples if they have no weights. Other metrics are for unweighted samples only.
        losses: The named losses that it fits; a named metric is rejected with any other. Default: all.
        is_share: Whether it is a share, from 0 to 1, which tables show in percent.
        unit: Power of the targets' unit, 0 for none.
        title: Name in sentences. Default: the name.
        explanation: What it measures, in half a sentence for people who do not know it.

    Shapes:
        outputs: [R, n, ...], the outputs of R rows on n samples each.
        targets: [R, n, ...].
        mask: [R, n], bool. Default: all samples are real.
        weight: [R, n]. Default: equal weights. ``measure`` receives float64.
        Output: [R], float64.

    Example:
        >>> def share(outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        ...     return row_mean(outputs > targets, mask)
        >>> Metric("share", True, share)(torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 2.0]]))
        tensor([0.5000], dtype=torch.float64)
    """

    name: str
    higher_is_better: bool
    measure: Callable[..., Tensor] = field(repr=False)
    undefined: str = ""
    weighted: bool = False
    losses: tuple[str, ...] = ()
    is_share: bool = False
    unit: int = 0
    title: str = ""
    explanation: str = ""

    @property
    def of_classes(self) -> bool:
        """Whether it is only for predicted classes or their probabilities."""
        return "cross_entropy" in self.losses

    @classmethod
    def per_node(
        cls, name: str, higher_is_better: bool, function: Callable[..., Any], weighted: bool = False
    ) -> Metric:
        """Make a metric from ``function(outputs [n, ...], targets [n, ...]) -> number``, given one node's real samples.

        If ``weighted``, the function also receives the samples' weights, [n], as a third argument.

        It is called once per node, so it costs K calls, but not for nodes without samples, whose value is NaN. It must
        return a number or a tensor with one element; otherwise the metric raises a ``TypeError``.

        Example:
            >>> largest = Metric.per_node("largest error", False, lambda out, targets: (out - targets).abs().max())
            >>> largest(torch.tensor([[1.0, 5.0]]), torch.zeros(1, 2), torch.tensor([[True, False]]))
            tensor([1.], dtype=torch.float64)
        """
        return cls(name, higher_is_better, partial(_each_node, name, function), weighted=weighted)

    def leaving_out(self, target: int | None) -> Metric:
        """Return a metric that ignores the target that the loss ignores; unchanged if it is not for classes."""
        if target is None or target == IGNORED or not self.of_classes:
            return self
        return replace(self, measure=lambda o, t, *rest: self.measure(o, t.masked_fill(t == target, IGNORED), *rest))

    def reading(self, link: Callable[[Tensor], Tensor] | None) -> Metric:
        """Return a metric that applies a link function to the outputs first; unchanged if it is not for real values."""
        if link is None or self.of_classes or "poisson" not in self.losses:
            return self
        return replace(self, measure=lambda outputs, *rest: self.measure(link(outputs), *rest))

    def __call__(
        self, outputs: Tensor, targets: Tensor, mask: Tensor | None = None, weight: Tensor | None = None
    ) -> Tensor:
        """Return the value of each row; raise a ValueError if there are weights and the metric does not accept them."""
        if mask is None:
            mask = targets.new_ones(targets.shape[:2]).bool()
        if not outputs.shape[:2] == targets.shape[:2] == mask.shape:
            raise ShapeError(
                "outputs",
                f"{self.name}: outputs, targets and mask must agree in R and n, got {list(outputs.shape)}, "
                f"{list(targets.shape)} and {list(mask.shape)}",
            )
        mask = mask.bool()
        if weight is not None:
            self._check_weight(weight, mask)
            mask = mask & (weight > 0)
        if not self.weighted:
            return self.measure(outputs.detach(), targets, mask)
        weight = mask.double() if weight is None else weight.double().where(mask, 0.0)
        return self.measure(outputs.detach(), targets, mask, weight)

    def _check_weight(self, weight: Tensor, mask: Tensor) -> None:
        if not self.weighted:
            raise ContractError(
                f"metric {self.name!r}",
                f"the samples have weights, and the metric {self.name} takes none: set weighted=True if it does",
            )
        if weight.shape != mask.shape:
            raise ShapeError("weight", f"{self.name}: weights must be {list(mask.shape)}, got {list(weight.shape)}")


def _each_node(
    name: str,
    function: Callable[..., Any],
    outputs: Tensor,
    targets: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
) -> Tensor:
    found = torch.full((len(mask),), torch.nan, dtype=torch.float64, device=outputs.device)
    given = (outputs, targets) if weight is None else (outputs, targets, weight)
    for row in mask.any(1).nonzero().flatten().tolist():
        value = function(*(values[row][mask[row]] for values in given))
        try:
            found[row] = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidTypeError(
                f"metric {name!r}",
                f"metric {name}: expected one number for row {row}, got {type(value).__name__}: {error}",
            ) from error
    return found


def row_mean(values: Tensor, weight: Tensor, counted: Tensor | None = None) -> Tensor:
    """Return the mean of values [R, n, ...] over samples and all further dimensions, [R], float64; NaN if empty.

    Sample weights [R, n] are 0 in the padding, or the mask of real samples; ``counted`` [R, n, ...] marks the values
    that count.
    """
    values, weight = values.double(), weight.double()
    share = torch.ones_like(weight)  # [R, n]: share of a sample's values that count
    if counted is not None:
        values, share = values.where(counted, 0.0), counted.double()
    # [R, n]
    values, share = (part.flatten(2).mean(dim=2) if part.dim() > 2 else part for part in (values, share))
    return (values.where(weight > 0, 0.0) * weight).sum(dim=1) / (share * weight).sum(dim=1)
