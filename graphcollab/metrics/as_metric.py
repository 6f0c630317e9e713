"""From names and functions to metrics."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from graphcollab.metrics.accuracy import Accuracy
from graphcollab.metrics.auc import AUC
from graphcollab.metrics.metric import Metric
from graphcollab.metrics.regression import mae, mse
from graphcollab.metrics.user_metric import UserMetric
from graphcollab.settings import checked

__all__ = ["METRICS", "as_metric"]

METRICS: dict[str, Metric] = {metric.name: metric for metric in (Accuracy(), AUC(), mae, mse)}
"""The metrics that have a name."""


AnyMetric: TypeAlias = Annotated[str | Metric | Callable[..., Any], "a name, a Metric or a function"]


@checked
def as_metric(metric: AnyMetric, higher_is_better: bool | None = None) -> Metric:
    """Return the metric that a name or a function stands for.

    Args:
        metric: A name from ``METRICS``, a :class:`~graphcollab.metrics.Metric`, or a function
            ``fn(outputs [n, ...], targets [n, ...]) -> float`` for the samples of one node.
        higher_is_better: Whether a larger value is a better one. Needed with a function, and only there.

    Raises:
        ValueError: If the name is unknown (the message names the nearest), or ``higher_is_better`` is missing with a
            function, or contradicts a metric that knows.

    Example:
        >>> as_metric("mse").higher_is_better
        False
        >>> as_metric("acuracy")
        Traceback (most recent call last):
            ...
        ValueError: unknown metric 'acuracy'; did you mean 'accuracy'? Known: accuracy, auc, mae, mse
    """
    if isinstance(metric, str):
        metric = _by_name(metric)
    if isinstance(metric, Metric):
        if higher_is_better not in (None, metric.higher_is_better):
            raise ValueError(
                f"metric {metric.name} has higher_is_better={metric.higher_is_better}; leave the argument out"
            )
        return metric
    name = getattr(metric, "__name__", type(metric).__name__)
    if higher_is_better is None:
        raise ValueError(f"metric {name} is a function: say higher_is_better=True or False")
    return UserMetric(name, higher_is_better, metric)


def _by_name(name: str) -> Metric:
    if name in METRICS:
        return METRICS[name]
    nearest = difflib.get_close_matches(name.lower(), METRICS, n=1, cutoff=0.0)[0]
    raise ValueError(f"unknown metric {name!r}; did you mean {nearest!r}? Known: {', '.join(sorted(METRICS))}")
