"""`Comparison`, the result of `compare`: trials side by side, with paired statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

import torch

from graphcollab._base.errors import DuplicateError, MismatchError, MissingError
from graphcollab._base.naming import ByName, few
from graphcollab.analysis.baseline import BASELINES
from graphcollab.analysis.final import Final, Play, needed, with_all_rows
from graphcollab.analysis.metrics import paired_difference
from graphcollab.analysis.metrics.statistics import PairedDifference
from graphcollab.analysis.metrics.weight_spread import weight_agreement
from graphcollab.analysis.shared_samples import Over, correction
from graphcollab.analysis.trial import COLUMNS, METRIC_COLUMNS, SHARES, Trial
from graphcollab.data.tasks import Tasks
from graphcollab.train.findings import EVEN_KINDS
from graphcollab.train.result import Result


@dataclass(frozen=True)
class Comparison:
    """All trials, and for every method the trials with the setting chosen on validation data.

    Args:
        trials: All trials.
        chosen: Trials with the chosen setting by method, one per seed.
        higher_is_better: Whether higher values of the metric are better.
        results: Result of every method with its chosen setting, from the last seed on which it did not fail; methods
            that failed on all seeds are omitted.
        metric: Name of the metric.
        again: Functions that run every method's chosen setting on other tasks (`final`); dropped by pickling.
    """

    trials: Sequence[Trial]
    chosen: Mapping[str, Sequence[Trial]]
    higher_is_better: bool
    results: Mapping[str, Result] = field(repr=False, default_factory=dict)
    metric: str = "accuracy"
    again: Mapping[str, Play] = field(repr=False, default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "again": {}}

    def __post_init__(self) -> None:
        object.__setattr__(self, "chosen", ByName(self.chosen))
        object.__setattr__(self, "results", ByName(self.results))

    @classmethod
    def join(cls, parts: Sequence[Comparison]) -> Comparison:
        """Combine comparisons of different methods on the same seeds, or of the same methods on different seeds.

        Metrics and, on each seed, tasks must be the same. Each comparison used the budget, model and grids of its own
        call: a note below tables states where these differ. A ``budget`` given as a number of local steps is the same
        in all calls.
        """
        metrics = sorted({part.metric for part in parts})
        if len(metrics) != 1:
            raise MismatchError("comparisons", f"comparisons to join must have one metric, got {metrics}")
        chosen: dict[str, list[Trial]] = {}
        for part in parts:
            for name, trials in part.chosen.items():
                there = chosen.setdefault(name, [])
                known = {trial.seed for trial in there} if name in BASELINES else set()
                there += [trial for trial in trials if trial.seed not in known]
        _require_same_tasks(chosen)
        every = [trial for part in parts for trial in part.trials]
        results = {name: result for part in parts for name, result in part.results.items()}
        again = {name: play for part in parts for name, play in part.again.items()}
        return cls(every, chosen, parts[0].higher_is_better, results, metrics[0], again)

    @property
    def share(self) -> bool:
        """Whether the metric is a proportion, which tables show in percent."""
        return self.metric in SHARES

    def better(self, column: str) -> bool:
        """Return whether higher values of a column are better."""
        return self.higher_is_better and column in METRIC_COLUMNS and column != "std"

    def values(self, method: str, column: str = "mean") -> list[float]:
        """Return a column of a method's chosen trials, one value per seed."""
        return [trial.summary[column] for trial in self.chosen[method]]

    def correction(self, over: Over = None) -> tuple[float, str]:
        """Return the ratio by which `paired` corrects intervals, 0 without correction, and an explanation."""
        trials = next(iter(self.chosen.values()))
        return correction([(trial.tasks, trial.samples) for trial in trials], over)

    def paired(
        self, method: str, reference: str, column: str = "mean", confidence: float = 0.95, over: Over = None
    ) -> PairedDifference:
        """Return the paired difference of two methods over seeds, with its confidence interval.

        Seeds that split the same samples are not independent: an ordinary t-test reports differences that do not exist.
        Therefore, variances are corrected by the number of test samples per training sample (`corrected_differences`)
        if every node has the same samples on all seeds, as with resplits. If seeds partition the samples among nodes
        anew, the ratio is multiplied by the share of the samples that a seed uses (our extension: the paper covers
        resplits only). A method that failed on a seed is rejected, since the remaining seeds would be a biased
        selection.

        Args:
            method: Name of the first method.
            reference: Name of the method to subtract.
            column: See `values`.
            confidence: Confidence level of the interval.
            over: ``"samples"``: the interval covers the variation over other samples, as above. ``"seeds"``: it covers
                the variation over other seeds, such as other partitions of the same samples; nothing is corrected, and
                the variation over samples is ignored. Default: ``"samples"`` if seeds are known to share their samples
                and do not all have the same split.
        """
        for name in (method, reference):
            for trial in self.failed(name):
                raise MissingError(
                    f"method {name!r}", f"{name!r} failed on seed {trial.seed} ({trial.failure}): leave it out"
                )
        ratio, _ = self.correction(over)
        return paired_difference(self.values(method, column), self.values(reference, column), confidence, ratio)

    def agreement(self, method: str) -> float:
        """Return the agreement of the weights that a method learned on all seeds (`weight_agreement`).

        NaN if it learned none, or if nodes do not have the same samples on all seeds, since they then have different
        nodes to learn from. Seeds with uniform weights are excluded; NaN if fewer than two seeds remain.
        """
        trials = self.chosen[method]
        weights = [trial.weights for trial in trials if trial.weights is not None]
        nodes = {None if trial.samples is None else trial.samples.of_nodes for trial in trials}
        if len(weights) < len(trials) or len(nodes) > 1 or None in nodes:
            return math.nan
        told = [one for one, trial in zip(weights, trials, strict=True) if trial.found.isdisjoint(EVEN_KINDS)]
        return weight_agreement(torch.stack(told)) if len(told) > 1 else math.nan

    def __repr__(self) -> str:
        seeds = dict.fromkeys(trial.seed for trials in self.chosen.values() for trial in trials)
        means = {name: mean(self.values(name)) for name in self.chosen}
        told = ", ".join(f"{name}={'failed' if self.failed(name) else f'{one:.4g}'}" for name, one in means.items())
        return f"Comparison(mean test {self.metric} on seeds {few([*map(str, seeds)])}: {told})"

    def tested_on_fewer_than(self, least: int) -> list[str]:
        """Return the names of nodes with fewer test samples that are included in a mean of the chosen trials."""
        tested = [trial.tested for trials in self.chosen.values() for trial in trials]
        return list(dict.fromkeys(name for one in tested for name, size in one.items() if size < least))

    def failed(self, method: str) -> list[Trial]:
        """Return a method's chosen trials that failed; with any of these, its means are undefined."""
        return [trial for trial in self.chosen[method] if trial.failure]

    def undefined(self, method: str, reference: str, column: str = "mean") -> int:
        """Return the number of seeds without a paired difference, since a method or its reference has no value."""
        pairs = zip(self.values(method, column), self.values(reference, column), strict=True)
        return sum(math.isnan(one) or math.isnan(other) for one, other in pairs)

    def improved(self, method: str, reference: str = "local") -> list[float]:
        """Return the share of nodes for which a method is better than a reference on the same seed, one per seed.

        A node is improved if the test metric of its model is strictly better; an isolated node is not. Nodes for which
        the reference has no metric are excluded. The share is NaN on seeds on which either method failed. Trials
        without per-node metrics raise a ValueError.
        """
        for name in (method, reference):
            if not all(trial.per_node or trial.failure for trial in self.chosen[name]):
                raise MissingError(
                    "per_node", f"the trials of {name!r} do not hold each node's metric: give them `per_node`"
                )

        def share(one: Trial, other: Trial) -> float:
            if one.failure or other.failure:
                return math.nan
            own, others = torch.tensor([one.per_node, other.per_node], dtype=torch.float64)  # [K] each
            better = own > others if self.higher_is_better else own < others
            return float(better[~others.isnan()].double().mean())

        return [share(*pair) for pair in zip(self.chosen[method], self.chosen[reference], strict=True)]

    def final(self, method: str, tasks: Tasks | None = None, **known: Any) -> Final:
        """Fit a method again with its chosen setting and model to all samples, to obtain models for deployment.

        The number of rounds is the median over seeds of the best round. A method that needs validation samples, such as
        one that learns weights on them, keeps those of the last seed for that purpose and trains on all other samples.
        The models' quality is known only from the comparison, whose models were trained on fewer samples; no samples
        are held out to test the final models.

        Args:
            method: The method's name.
            tasks: All samples, for training, such as those of a table with ``val_fraction=0, test_fraction=0``, which
                are standardized by all rows. Default: those of the last seed, pooled per node, with that seed's
                preparation.
            known: Additional fields of `Final`.
        """
        result, trials = self.results[method], [one for one in self.chosen[method] if not one.failure]
        if method not in self.again:
            raise MissingError("comparison", "a comparison that was pickled does not know how to train: compare again")
        tasks = with_all_rows(result.tasks, needed(result.method)) if tasks is None else tasks
        rounds, setting = round(median(trial.kept for trial in trials)), dict(trials[-1].setting)
        test = torch.tensor([trial.per_node for trial in trials], dtype=torch.float64)
        own: dict[str, Any] = {"metric": self.metric, "test": test, "setting": setting}
        return Final.fit(self.again[method], tasks, rounds, **own, **known)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return for every method the mean over seeds of every column, its spread, the setting and the values.

        ``failed`` counts the seeds on which the method failed; means are then undefined (NaN). ``nodes`` is the number
        of nodes in the means, the minimum over seeds, out of ``of_nodes``; both are NaN if the trials do not contain
        them. ``rounds``, ``local_steps`` and ``models`` are the resources used, see `Trial`. ``isolated`` is the number
        of nodes isolated because they diverged, the maximum over seeds. ``findings`` has the number of seeds with a
        problem (`Finding`), by kind.
        """
        out: dict[str, dict[str, Any]] = {}
        for name, trials in self.chosen.items():
            row: dict[str, Any] = {c: sum(self.values(name, c)) / len(trials) for c in COLUMNS}
            spread = torch.tensor(self.values(name), dtype=torch.float64)
            row["mean_std_over_seeds"] = float(spread.std()) if len(trials) > 1 else math.nan
            row["failed"] = len(self.failed(name))
            counts = [(t.summary["nodes"], t.summary["ignored"]) for t in trials if "ignored" in t.summary]
            row["nodes"], row["of_nodes"] = min(((n, n + i) for n, i in counts), default=(math.nan, math.nan))
            for key in ("rounds", "local_steps", "models"):
                row[key] = sum(getattr(trial, key) for trial in trials) / len(trials)
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


def _require_same_tasks(chosen: Mapping[str, Sequence[Trial]]) -> None:
    seeds = {name: [trial.seed for trial in trials] for name, trials in chosen.items()}
    first, *others = seeds
    for name, own in seeds.items():
        if len(set(own)) < len(own):
            raise DuplicateError("comparisons", f"{name!r} was run more than once on a seed, got {own}: rename methods")
    for name in others:
        if seeds[name] != seeds[first]:
            raise MismatchError(
                "seeds", f"all must have the same seeds, got {seeds[first]} of {first!r} and {seeds[name]} of {name!r}"
            )
        for one, other in zip(chosen[first], chosen[name], strict=True):
            if one.tasks and other.tasks and one.tasks != other.tasks:
                raise MismatchError(
                    "tasks", f"{first!r} and {name!r} must have the same nodes and samples on seed {one.seed}"
                )
