"""`Trial`: the results of one run in `compare`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from graphcollab._base.findings import Finding
from graphcollab.analysis.metrics import METRICS
from graphcollab.analysis.shared_samples import Samples
from graphcollab.train.findings import learned
from graphcollab.train.identity import identify_models
from graphcollab.train.result import Result

SHARES = tuple(name for name, metric in METRICS.items() if metric.is_share)
MOST_KEPT = 100  # maximum number of nodes for which weights are kept
METRIC_COLUMNS = ("mean", "worst10", "worst20", "std")
COLUMNS = (*METRIC_COLUMNS, "bytes_per_node", "seconds")


@dataclass(frozen=True)
class Trial:
    """One method with one setting on one seed.

    Args:
        method: Name of the method.
        seed: Seed of tasks and run.
        setting: Values chosen from the grid.
        validation: Mean validation metric of the returned models; NaN without one, or if a node diverged.
        summary: Test metric over nodes, bytes and seconds; ``nodes`` is the number of nodes in the mean.
        curve: Rounds and mean test metric at every evaluation.
        per_node: Test metric of every node's returned model; NaN for nodes without one.
        test_loss: Mean test loss of the returned models.
        seconds: Seconds since the start at every evaluation.
        sent: Bytes sent by a node until every evaluation, mean over nodes.
        messages: Messages sent by all nodes together until every evaluation.
        prepared: Number of these messages that prepared the nodes' tables, before the first round.
        local_steps: Local steps of a node that participated in all rounds, mean over nodes. Additional training to
            evaluate models or to compute weights is not counted.
        round_steps: Local steps of a round, the last or the next one, whichever has more.
        models: Number of models that a node trains in such steps: its own and additional ones (personal, references).
        failure: The error, if the trial failed; all its numbers are NaN then.
        findings: Problems with nodes or weights found in the run.
        tasks: Fingerprint of nodes and samples; empty if unknown.
        architectures: Fingerprint of the nodes' models without their parameter values; empty if unknown.
        samples: Identity of the samples, independent of their partition; None if unknown.
        weights: Weights between nodes in the last round, [K, K], receivers in rows, if they were learned and there are
            at most 100 nodes; else None.
        tested: Number of test samples of every node whose metric is in the mean, by name.
        kept: Number of rounds after which the returned models were kept.
    """

    method: str
    seed: int
    setting: Mapping[str, Any]
    validation: float
    summary: Mapping[str, float]
    curve: tuple[list[int], list[float]] = field(repr=False, default=((), ()))  # type: ignore[assignment]
    per_node: tuple[float, ...] = field(repr=False, default=())
    test_loss: float = field(repr=False, default=math.nan)
    seconds: tuple[float, ...] = field(repr=False, default=())
    sent: tuple[float, ...] = field(repr=False, default=())
    messages: tuple[float, ...] = field(repr=False, default=())
    prepared: int = field(repr=False, default=0)
    local_steps: float = field(repr=False, default=math.nan)
    round_steps: float = field(repr=False, default=math.nan)
    models: float = field(repr=False, default=math.nan)
    failure: str = ""
    findings: tuple[Finding, ...] = field(repr=False, default=())
    tasks: str = field(repr=False, default="")
    architectures: str = field(repr=False, default="")
    samples: Samples | None = field(repr=False, default=None)
    weights: Tensor | None = field(repr=False, default=None, compare=False)
    tested: Mapping[str, int] = field(repr=False, default_factory=dict)
    kept: float = field(repr=False, default=math.nan)

    @property
    def rounds(self) -> float:
        """Number of rounds; NaN if unknown."""
        return self.curve[0][-1] if len(self.curve[0]) else math.nan

    @property
    def isolated(self) -> int:
        """Number of nodes that were isolated because they diverged."""
        return int(self.summary.get("isolated", 0))

    @property
    def found(self) -> set[str]:
        """Codes of the findings."""
        return {finding.code for finding in self.findings}

    @classmethod
    def from_result(cls, method: str, seed: int, setting: Mapping[str, Any], result: Result, **known: Any) -> Trial:
        """Make a trial from a run and the ``known`` facts about its tasks."""
        history, summary = result.history, result.summary()

        def final(name: str) -> float:
            return history.mean(name)[history.returned] if name in history.values else math.nan

        def steps(rounds: int, start: int = 0) -> float:
            return float(result.method.local_steps(result.tasks.sizes("train"), rounds, start).mean())

        played = history.rounds[-1]
        per_node = tuple(history.final("test_metric").tolist())
        sizes = zip(result.tasks.names, result.tasks.sizes("test").tolist(), per_node, strict=True)
        return cls(
            method,
            seed,
            setting,
            validation=final("val_metric"),
            summary=history.summary(summary["of"]) | summary,
            curve=(list(history.rounds), history.mean("test_metric")),
            per_node=per_node,
            test_loss=final("test_loss"),
            seconds=tuple(history.seconds),
            sent=tuple(history.mean("bytes_sent")),
            messages=tuple(history.table("messages_sent").sum(1).tolist()),
            prepared=result.tasks.num_nodes * (told.floats_per_site > 0) if (told := result.tasks.preparation) else 0,
            local_steps=steps(played),
            round_steps=max(steps(played, max(played - 1, 0)), steps(played + 1, played)),
            models=result.method.models_trained,
            findings=tuple(history.findings),
            architectures=identify_models(result.modules, result.data.x),
            weights=_learned_weights(result),
            tested={name: size for name, size, value in sizes if not math.isnan(value)},
            kept=history.rounds[history.returned],
            **known,
        )


def _learned_weights(result: Result) -> Tensor | None:
    """Return the weights between nodes, [K, K], if they were learned and there are not too many nodes."""
    count, last = result.tasks.num_nodes, result.method.last(result.data.round)
    if count > MOST_KEPT or not last.exchange.along_edges or not learned(result.method, last):
        return None
    return result.graph().matrix()
