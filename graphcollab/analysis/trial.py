"""What `compare` keeps of every run."""

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
MOST_KEPT = 100  # nodes of which it is kept what they gave each other
METRIC_COLUMNS = ("mean", "worst10", "worst20", "std")
COLUMNS = (*METRIC_COLUMNS, "bytes_per_node", "seconds")


@dataclass(frozen=True)
class Trial:
    """One method with one setting on one seed.

    Args:
        method: Name of the method.
        seed: Seed of tasks and run.
        setting: What was chosen from the grid.
        validation: Mean validation metric of the returned models; NaN where there is none, or a node diverged.
        summary: Test metric over nodes, bytes and seconds; ``nodes`` says over how many the mean is.
        curve: Rounds and mean test metric at every evaluation.
        per_node: Test metric of every node's returned model; NaN where a node has none.
        test_loss: Mean test loss of the returned models.
        seconds: Seconds since the start at every evaluation.
        sent: Bytes that a node had sent at every evaluation, mean over nodes.
        messages: Messages that all nodes together had sent at every evaluation.
        prepared: How many of them prepared the nodes' tables, before the first round.
        local_steps: How many local steps a node has taken, mean over nodes, if it was there in all rounds. What a judge
            or a weigher trains besides is not counted.
        round_steps: How many of them are a round's, of the last or the next one, whichever takes more.
        models: How many models a node trained by such steps, its own and those beside it (personal ones, references).
        failure: What went wrong, if the trial failed; all its numbers are NaN then.
        findings: What the run found wrong with nodes or with weights.
        tasks: Fingerprint of nodes and samples; empty where it is not known.
        architectures: Fingerprint of the nodes' models without their parameters' values; empty where it is not known.
        samples: Which samples the tasks are made of, however they are dealt out; None where that is not known.
        weights: What nodes gave each other in the last round, [K, K], receivers in rows, where that was learned and
            there are no more than 100 nodes; else None.
        tested: On how many test samples every node is judged whose metric is in the mean, by the node's name.
        kept: After how many rounds models were as the returned ones are.
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
        """How many rounds were played; NaN where that is not known."""
        return self.curve[0][-1] if len(self.curve[0]) else math.nan

    @property
    def isolated(self) -> int:
        """How many nodes were left behind since they diverged."""
        return int(self.summary.get("isolated", 0))

    @property
    def found(self) -> set[str]:
        """Codes of what was found wrong."""
        return {finding.code for finding in self.findings}

    @classmethod
    def from_result(cls, method: str, seed: int, setting: Mapping[str, Any], result: Result, **known: Any) -> Trial:
        """Return what is kept of a run, and what is ``known`` of its tasks."""
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
    """Return what nodes gave each other, [K, K], where that was learned and they are not too many."""
    count, last = result.tasks.num_nodes, result.method.last(result.data.round)
    if count > MOST_KEPT or not last.exchange.along_edges or not learned(result.method, last):
        return None
    return result.graph().matrix()
