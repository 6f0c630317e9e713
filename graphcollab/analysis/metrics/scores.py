"""The loss and the metrics of every node's model on the node's own samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.device import beside
from graphcollab._base.errors import EmptyError, InvalidValueError, UnknownError
from graphcollab._base.naming import few
from graphcollab.analysis.metrics.as_metric import METRICS, as_metric
from graphcollab.analysis.metrics.metric import Metric
from graphcollab.comm.plane import Plane
from graphcollab.data.metric_fit import refuse_misfit
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Engine, Rows
from graphcollab.engine.check_loss import refuse_broadcast
from graphcollab.engine.losses import ignored_target, link_of
from graphcollab.engine.objective import Objective
from graphcollab.engine.stack import Stacks

AnyMetrics: TypeAlias = Annotated[
    str | Metric | Callable[..., Any] | Sequence[str | Metric | Callable[..., Any]] | None,
    "a metric (a name, a Metric or a function), several of them, or None for the tasks' own",
]


@dataclass(frozen=True)
class Scores:
    """Metrics of every node's model on the node's own samples of one split.

    Args:
        names: Names of the nodes.
        split: Name of the split.
        sizes: Number of samples of every node in the split, [K].
        loss: The task's loss, [K]; infinite if a model has diverged, NaN if a node has no samples.
        values: Values of every metric, [K], by name; NaN for nodes without a value.
        metrics: The metrics.
        member: Mask of the nodes that belong to the collaboration, [K]: means are over them. Default: all.
    """

    names: tuple[str, ...]
    split: str
    sizes: Tensor
    loss: Tensor = field(repr=False)
    values: Mapping[str, Tensor]
    metrics: tuple[Metric, ...] = field(repr=False)
    member: Tensor | None = field(repr=False, default=None)

    def __getitem__(self, metric: str) -> Tensor:
        """Return a metric of all nodes, [K]; a KeyError lists the available ones."""
        if metric not in self.values:
            raise UnknownError(
                f"metric {metric!r}", f"there are no scores of {metric!r}; there are some of {', '.join(self.values)}"
            )
        return self.values[metric]

    def mean(self, metric: str, weighted: bool = False) -> float:
        """Return a metric's mean over the members with a value: unweighted, or weighted by their samples.

        It is NaN if a member's model has diverged, since the mean of the others would be no valid result.
        """
        values, known = self[metric], self.counted(metric)
        if not bool(known.any()) or bool(torch.isinf(self.loss[self.members]).any()):
            return math.nan
        weight = self.sizes[known].double() if weighted else torch.ones(int(known.sum()), dtype=torch.float64)
        return float((weight * values[known]).sum() / weight.sum())

    def nodes(self, metric: str) -> int:
        """Return the number of nodes in a metric's mean."""
        return int(self.counted(metric).sum())

    def counted(self, metric: str) -> Tensor:
        """Return a mask of the nodes in a metric's mean, [K]."""
        return self.members & ~self[metric].isnan()

    @property
    def members(self) -> Tensor:
        """Mask of the nodes that belong to the collaboration, [K]."""
        return torch.ones_like(self.sizes, dtype=torch.bool) if self.member is None else self.member

    def undefined(self, metric: str) -> list[str]:
        """Return the names of nodes whose metric is undefined although they have samples."""
        missing = self[metric].isnan() & self.loss.isfinite()
        return [self.names[k] for k in missing.nonzero().flatten().tolist()]


def as_metrics(metrics: AnyMetrics, default: Any) -> tuple[Metric, ...]:
    """Return one or more metrics as a tuple; a ValueError if there are none, or if names are duplicate.

    The name of the default, which may be a user-defined metric, refers to the default.
    """
    own = None if default is None else as_metric(default)
    if metrics is None:
        metrics = own
    many: Any = [metrics] if isinstance(metrics, str | Metric) or callable(metrics) else metrics
    made = tuple(own if own is not None and one == own.name else as_metric(one) for one in many)
    names = [one.name for one in made]
    if not names or len(set(names)) < len(names):
        raise InvalidValueError("metrics", f"metrics must be one or more, each of another name, got {names}")
    return made


def refuse_metric(metric: Metric, tasks: Tasks, split: str = "train") -> None:
    """Reject a named metric that does not fit the loss and targets of tasks; see `refuse_misfit`."""
    if METRICS.get(metric.name) is metric:
        refuse_misfit(metric.name, tasks.loss, tasks.pools[tasks.splits[split].pool].targets)


def refuse_broadcasting(metric: Metric, outputs: Tensor, targets: Tensor, model: str = "the model") -> None:
    """Reject a user-defined metric that broadcasts outputs and targets of samples; see `refuse_broadcast`."""
    if METRICS.get(metric.name) is not metric:
        judge = lambda o, t: metric(o[None], t[None])  # noqa: E731
        refuse_broadcast(judge, f"the metric {metric.name}", outputs, targets, model)


def score_nodes(
    engine: Engine,
    models: Stacks,
    split: str,
    metrics: Sequence[Metric],
    told: Mapping[str, Collection[str]] | None = None,
    plane: Plane | None = None,
    member: Tensor | None = None,
    joined: Tensor | None = None,
) -> Scores:
    """Return the metrics of every node's model, from one pass of predictions; warn of undefined ones.

    Raises a ValueError if no node has samples in the split, or a metric does not fit loss and targets. ``told`` has, by
    metric name, the nodes for which an undefined value has already been reported. A ``plane`` provides the values of
    nodes in other processes. ``member`` nodes [K] belong to the collaboration, and nodes that never ``joined`` [K] have
    no scores; default: all.
    """
    tasks = engine.tasks
    sizes = tasks.sizes(split)
    if int(sizes.sum()) == 0:
        raise EmptyError(f"split {split!r}", f"no node has {split!r} samples; the splits are {', '.join(tasks.splits)}")
    for metric in metrics:
        refuse_metric(metric, tasks, split)
    loss, values = score_all(engine, Rows.own(models), split, metrics)
    if plane is not None:
        loss, by_node = plane.all_gather(loss, values.T.contiguous())
        values = by_node.T  # [M, K]
    if joined is not None:
        loss, values = (scored.masked_fill(~joined, torch.nan) for scored in (loss, values))
    by_name = {metric.name: value for metric, value in zip(metrics, values, strict=True)}
    scores = Scores(tasks.names, split, sizes, loss, by_name, tuple(metrics), member)
    for metric in metrics:
        nodes = scores.undefined(metric.name)
        if not {*nodes} <= {*(told or {}).get(metric.name, ())}:
            text = not_defined(metric, {split: (nodes, scores.nodes(metric.name))}, len(tasks.names))
            issue("quality", f"metric {metric.name!r}", text)
    return scores


def not_defined(metric: Metric, found: Mapping[str, tuple[Sequence[str], int]], count: int) -> str:
    """Return the message about sites, of ``count``, that have samples but no value of a metric.

    For every split, ``found`` has these sites, at least one, and the number of sites in its mean.
    """
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}  # splits that share a message
    for split, (nodes, left) in found.items():
        alike.setdefault((tuple(nodes), left), []).append(split)
    told = [f"{len(nodes)} of {count} sites ({few(nodes)}; split {', '.join(s)})" for (nodes, _), s in alike.items()]
    several = len(alike) > 1
    over = [f"{left} of {count} sites" + f" (split {', '.join(s)})" * several for (_, left), s in alike.items()]
    return (
        f"{metric.name} is not defined for {' and '.join(told)}{': ' + metric.undefined if metric.undefined else ''}. "
        f"They are left out of means, which are over {' and '.join(over)}; summaries and tables say so"
    )


def score_rows(engine: Engine, rows: Rows, split: str, metric: Metric) -> tuple[Tensor, Tensor]:
    """Return loss and metric of every row on a split of its node's data, [R] each, float64.

    They are NaN if the node has no such samples. A model with a non-finite loss or prediction has diverged: its loss is
    infinite and its metric NaN.
    """
    loss, values = score_all(engine, rows, split, (metric,))
    return loss, values[0]


def judging(metric: Metric, objective: Objective) -> Metric:
    """Adapt a metric to the outputs that an objective trains: to its ignored target and its link function."""
    return metric.leaving_out(ignored_target(objective)).reading(link_of(objective))


def score_all(engine: Engine, rows: Rows, split: str, metrics: Sequence[Metric]) -> tuple[Tensor, Tensor]:
    """Return the loss [R] and several metrics [M, R] of every row, from one pass of predictions; see `score_rows`."""
    found = torch.full((1 + len(metrics), len(rows)), torch.nan, dtype=torch.float64, device=rows.source.device)
    for chunk in engine.predict(rows, split):
        for metric in metrics:
            refuse_broadcasting(metric, chunk.outputs[0], chunk.targets[0][chunk.mask[0]])
        losses = engine.losses_of(chunk).double()
        finite = torch.isfinite(chunk.outputs).reshape(*chunk.mask.shape, -1).all(2)
        diverged = chunk.mask.any(1) & ~((finite | ~chunk.mask).all(1) & torch.isfinite(losses))
        judged = chunk.outputs, chunk.targets, chunk.mask, chunk.weight
        values = [judging(metric, engine.objective)(*judged).to(found) for metric in metrics]
        told = torch.stack(
            [losses.masked_fill(diverged, torch.inf), *(v.masked_fill(diverged, torch.nan) for v in values)]
        )
        found[:, beside(chunk.rows, found)] = told
    loss, *scores = found.cpu()
    return loss, torch.stack(scores)
