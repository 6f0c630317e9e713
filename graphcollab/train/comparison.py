"""What `compare` keeps of every run, and returns: trials side by side, with paired statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from graphcollab.metrics import PairedDifference, paired_difference
from graphcollab.train.result import Finding, Result

__all__ = ["COLUMNS", "METRIC_COLUMNS", "SHARES", "Comparison", "Trial"]

SHARES = ("accuracy", "auc")
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
        failure: What went wrong, if the trial failed; all its numbers are NaN then.
        findings: What the run found wrong with nodes or with weights.
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
    failure: str = ""
    findings: tuple[Finding, ...] = field(repr=False, default=())

    @property
    def isolated(self) -> int:
        """How many nodes were left behind since they diverged."""
        return int(self.summary.get("isolated", 0))

    @property
    def found(self) -> set[str]:
        """Kinds of what was found wrong."""
        return {finding.kind for finding in self.findings}

    @classmethod
    def from_result(cls, method: str, seed: int, setting: Mapping[str, Any], result: Result) -> Trial:
        """Return what is kept of a run."""
        history = result.history

        def final(name: str) -> float:
            return history.mean(name)[history.returned] if name in history.values else math.nan

        return cls(
            method,
            seed,
            setting,
            validation=final("val_metric"),
            summary=result.summary(),
            curve=(list(history.rounds), history.mean("test_metric")),
            per_node=tuple(history.final("test_metric").tolist()),
            test_loss=final("test_loss"),
            seconds=tuple(history.seconds),
            sent=tuple(history.mean("bytes_sent")),
            messages=tuple(history.table("messages_sent").sum(1).tolist()),
            findings=tuple(history.findings),
        )

    def reached(self, target: float, higher_is_better: bool = True) -> tuple[int, float, float] | None:
        """Return when the mean test metric was first as good as a target, or None where it never was.

        That is rounds played, seconds since the start, and bytes that a node had sent, mean over nodes (the last two
        NaN where they were not kept), at the first evaluation at which it is so: nothing is interpolated.
        """
        rounds, values = self.curve
        for t, (round_, value) in enumerate(zip(rounds, values, strict=True)):
            if value >= target if higher_is_better else value <= target:
                seconds, sent = (kept[t] if kept else math.nan for kept in (self.seconds, self.sent))
                return round_, seconds, sent
        return None

    def within(self, budget: float, unit: str = "messages") -> tuple[int, float] | None:
        """Return round and mean test metric of the last evaluation before which a budget was kept; None if of none.

        The budget is what all nodes together may send, in ``"messages"`` or ``"bytes"``. As in `reached`, nothing is
        interpolated. A ValueError says so where it was not kept how much was sent.
        """
        sent = self.total(unit)
        if not sent:
            raise ValueError(
                f"a trial of {self.method!r} does not hold how many {unit} its nodes sent: make it by a run"
            )
        kept = [t for t, total in enumerate(sent) if total <= budget * (1 + 1e-12)]  # a mean times K is rounded
        rounds, values = self.curve
        return (rounds[kept[-1]], values[kept[-1]]) if kept else None

    def total(self, unit: str = "messages") -> list[float]:
        """Return how many messages or bytes all nodes had sent at every evaluation; empty where it was not kept."""
        if unit not in ("messages", "bytes"):
            raise ValueError(f"unit must be 'messages' or 'bytes', got {unit!r}")
        return list(self.messages) if unit == "messages" else [len(self.per_node) * mean for mean in self.sent]


@dataclass(frozen=True)
class Comparison:
    """All trials, and of every method those with the setting chosen on validation data.

    Args:
        trials: Every trial that was run.
        chosen: For every method its trials with the chosen setting, one per seed.
        higher_is_better: Whether a larger metric is better.
        results: The result of every method with its chosen setting, of the last seed on which it did not fail; a
            method that failed on all of them is not among them.
        metric: Name of the metric.
    """

    trials: Sequence[Trial]
    chosen: Mapping[str, Sequence[Trial]]
    higher_is_better: bool
    results: Mapping[str, Result] = field(repr=False, default_factory=dict)
    metric: str = "accuracy"

    @classmethod
    def pool(cls, parts: Sequence[Comparison]) -> Comparison:
        """Join comparisons, at least one, of the same methods on different seeds: a setting may depend on the seed."""
        if not parts or len({tuple(part.chosen) for part in parts}) > 1:
            raise ValueError(f"comparisons to pool must have the same methods, got {[list(p.chosen) for p in parts]}")
        chosen = {name: [trial for part in parts for trial in part.chosen[name]] for name in parts[0].chosen}
        seeds = [trial.seed for trial in next(iter(chosen.values()))]
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"comparisons to pool must be on different seeds, got {seeds}")
        trials = [trial for part in parts for trial in part.trials]
        return cls(trials, chosen, parts[0].higher_is_better, parts[-1].results, parts[0].metric)

    @classmethod
    def from_results(cls, results: Mapping[str, Sequence[Result]]) -> Comparison:
        """Put runs made by `run` side by side, so that tables and figures of comparisons can be made of them.

        All methods must have been run on the same seeds, at least one, in the same order.
        """
        seeds = [[result.env.seed for result in many] for many in results.values()]
        if not seeds or not seeds[0] or any(other != seeds[0] for other in seeds):
            named = dict(zip(results, seeds, strict=True))
            raise ValueError(f"runs to compare must be on the same seeds, at least one, in the same order, got {named}")
        chosen = {
            name: [Trial.from_result(name, result.env.seed, {}, result) for result in many]
            for name, many in results.items()
        }
        last = {name: many[-1] for name, many in results.items()}
        history = next(iter(last.values())).history
        trials = [trial for many in chosen.values() for trial in many]
        return cls(trials, chosen, history.higher_is_better, last, history.metric)

    @property
    def share(self) -> bool:
        """Whether the metric is a share, which tables show in percent."""
        return self.metric in SHARES

    def better(self, column: str) -> bool:
        """Tell whether a larger value of a column is a better one."""
        return self.higher_is_better and column in METRIC_COLUMNS and column != "std"

    def values(self, method: str, column: str = "mean") -> list[float]:
        """Return a column of a method's chosen trials, one value per seed."""
        return [trial.summary[column] for trial in self.chosen[method]]

    def paired(self, method: str, reference: str, column: str = "mean", confidence: float = 0.95) -> PairedDifference:
        """Return the paired difference of two methods over seeds, with its confidence interval.

        A method that failed on a seed is refused: the others would be those on which it happened to work.
        """
        for name in (method, reference):
            for trial in self.failed(name):
                raise ValueError(
                    f"{name!r} failed on seed {trial.seed} ({trial.failure}), so there is no difference to pair: leave "
                    "the method out, or give it settings that work"
                )
        return paired_difference(self.values(method, column), self.values(reference, column), confidence)

    def failed(self, method: str) -> list[Trial]:
        """Return a method's chosen trials that failed: with them its means have no values."""
        return [trial for trial in self.chosen[method] if trial.failure]

    def undefined(self, method: str, reference: str, column: str = "mean") -> int:
        """Return on how many seeds a method or its reference has no value, so that there is no paired difference."""
        pairs = zip(self.values(method, column), self.values(reference, column), strict=True)
        return sum(math.isnan(one) or math.isnan(other) for one, other in pairs)

    def improved(self, method: str, reference: str = "local") -> list[float]:
        """Return which share of the nodes a method does better for than a reference on the same seed, one per seed.

        A node is improved if the test metric of its model is strictly better; a node that was left behind is not. Nodes
        for which the reference has no metric are left out. On a seed on which one of the two failed it is NaN. Trials
        that do not hold each node's metric are a ValueError.
        """
        for name in (method, reference):
            if name not in self.chosen:
                raise ValueError(f"there is no method {name!r} to compare with; there are {sorted(self.chosen)}")
            if not all(trial.per_node or trial.failure for trial in self.chosen[name]):
                raise ValueError(f"the trials of {name!r} do not hold each node's metric: give them `per_node`")

        def share(one: Trial, other: Trial) -> float:
            if one.failure or other.failure:
                return math.nan
            own, others = torch.tensor([one.per_node, other.per_node], dtype=torch.float64)  # [K] each
            better = own > others if self.higher_is_better else own < others
            return float(better[~others.isnan()].double().mean())

        return [share(*pair) for pair in zip(self.chosen[method], self.chosen[reference], strict=True)]

    def reached(self, method: str, target: float) -> list[tuple[int, float, float] | None]:
        """Return for every seed when a method was first as good as a target, a share if the metric is one.

        See `Trial.reached`.
        """
        if self.share and not 0 <= target <= 1:
            raise ValueError(f"{self.metric} is a share: the target must be in [0, 1], got {target}")
        return [trial.reached(target, self.higher_is_better) for trial in self.chosen[method]]

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return for every method the mean over seeds of every column, its spread, the setting and the values.

        ``failed`` counts the seeds on which the method failed; then means have no value (NaN). ``nodes`` is over how
        many nodes means are, the least on any seed, of ``of_nodes``; both are NaN where trials do not say. ``isolated``
        is how many nodes were left behind since they diverged, the most on any seed. ``findings`` says on how many
        seeds something was found wrong (`Finding`), by kind.
        """
        out: dict[str, dict[str, Any]] = {}
        for name, trials in self.chosen.items():
            row: dict[str, Any] = {c: sum(self.values(name, c)) / len(trials) for c in COLUMNS}
            spread = torch.tensor(self.values(name), dtype=torch.float64)
            row["mean_std_over_seeds"] = float(spread.std()) if len(trials) > 1 else math.nan
            row["failed"] = len(self.failed(name))
            counts = [(t.summary["nodes"], t.summary["ignored"]) for t in trials if "ignored" in t.summary]
            row["nodes"], row["of_nodes"] = min(((n, n + i) for n, i in counts), default=(math.nan, math.nan))
            row["isolated"] = max(trial.isolated for trial in trials)
            row["findings"] = dict(Counter(kind for trial in trials for kind in sorted(trial.found)))
            row["settings"] = [dict(trial.setting) for trial in trials]
            row["per_seed"] = [
                {"seed": trial.seed, "validation": trial.validation, **trial.summary}
                | ({"failure": trial.failure} if trial.failure else {})
                for trial in trials
            ]
            out[name] = row
        return out
