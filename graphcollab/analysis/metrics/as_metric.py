"""Metrics by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from graphcollab._base.errors import MissingError
from graphcollab._base.settings import checked, look_up
from graphcollab.analysis.metrics import classification, errors, probabilities
from graphcollab.analysis.metrics.metric import Metric

FAMILIES = (classification, errors, probabilities)
_FOUND = [value for family in FAMILIES for value in vars(family).values() if isinstance(value, Metric)]
METRICS: dict[str, Metric] = {metric.name: metric for metric in sorted(_FOUND, key=lambda metric: metric.name)}
"""The metrics with a name: all that the files of metrics define. An added one is available by its name everywhere."""

AnyMetric: TypeAlias = Annotated[str | Metric | Callable[..., Any], "a name, a Metric or a function"]


@checked
def as_metric(metric: AnyMetric) -> Metric:
    """Return the metric for a name or a function, such as ``tasks.metric``.

    Args:
        metric: A name from ``METRICS``, a `Metric`, or a function ``(outputs [n, ...], targets [n, ...]) -> number``
            for the samples of one node, with an attribute ``higher_is_better`` (else a ValueError). If its attribute
            ``weighted`` is True, it also receives the samples' weights [n].
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return look_up("metric", metric, METRICS)
    name = getattr(metric, "__name__", type(metric).__name__)
    higher_is_better = getattr(metric, "higher_is_better", None)
    if higher_is_better is None:
        raise MissingError(
            "higher_is_better", f"metric {name} must say whether larger is better: set its attribute higher_is_better"
        )
    return Metric.per_node(name, bool(higher_is_better), metric, bool(getattr(metric, "weighted", False)))
