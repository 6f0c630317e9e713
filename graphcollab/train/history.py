"""What happened in a run: values per node and round."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphcollab.files import write_whole
from graphcollab.metrics import summarize

__all__ = ["Finding", "History"]


@dataclass(frozen=True)
class Finding:
    """Something that went wrong with some nodes in a run, as `HealthCheck` found it.

    Args:
        round: Rounds played when it was found.
        kind: ``"never sampled"`` or ``"cluster death"``.
        nodes: The nodes, by position.
        text: What it means and what to do about it.
    """

    round: int
    kind: str
    nodes: tuple[int, ...]
    text: str


@dataclass
class History:
    """Values per node at every evaluated round, and the graph at the rounds asked for.

    Args:
        names: Names of the nodes.
        metric: Name of the task's metric.
        higher_is_better: Whether a larger value of it is better.
        rounds: Rounds played before each evaluation.
        seconds: Seconds since the start at each evaluation (not part of what a resumed run repeats).
        values: For every field [K] per evaluation: ``train_loss``, ``val_loss``, ``val_metric``, ``test_loss``,
            ``test_metric``, ``bytes_sent``, ``messages_sent``, and what callbacks observed (`Callback.values`).
        graphs: ``(edge_index, edge_weight)`` used in a round, by its number counted from 1.
        scores: ``(edge_index, similarity)`` measured in a round, by its number counted from 1.
        isolated: Nodes that were left behind because they diverged, with the round, counted from 1.
        isolated_because: What was found with each of them.
        findings: What `HealthCheck` found.
        watched: In how many rounds `HealthCheck` watched who listens to whom.
        heard: In how many of them somebody else listened to each node, [K].
        merging: Validation before and after merging in the last round, where `WatchMerging` looks on, [K] by name.
        returned: Which evaluation the returned models are of: the last, or with early stopping the best.

    Example:
        >>> history = History(("a", "b"))
        >>> history.add(1, 0.5, {"test_metric": torch.tensor([0.5, 1.0])})
        >>> history.last("test_metric").tolist()
        [0.5, 1.0]
    """

    names: tuple[str, ...]
    metric: str = "accuracy"
    higher_is_better: bool = True
    rounds: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    values: dict[str, list[Tensor]] = field(default_factory=dict)
    graphs: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    scores: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    isolated: dict[str, int] = field(default_factory=dict)
    isolated_because: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    watched: int = 0
    heard: Tensor | None = None
    merging: dict[str, Tensor] = field(default_factory=dict)
    returned: int = -1

    def add(self, round_: int, seconds: float, values: Mapping[str, Tensor]) -> None:
        """Append one evaluation; what was not evaluated before, or is not any more, has no values (NaN) there."""
        new = {name: value.detach().cpu().double() for name, value in values.items()}
        nothing = torch.full((len(self.names),), math.nan, dtype=torch.float64)
        for name in {**self.values, **new}:
            self.values.setdefault(name, [nothing] * len(self)).append(new.get(name, nothing))
        self.rounds.append(round_)
        self.seconds.append(seconds)

    def forget(self, round_: int) -> None:
        """Take a round's evaluation out again, if it is the last one there."""
        if self.rounds[-1:] == [round_]:
            self.rounds.pop()
            self.seconds.pop()
            for values in self.values.values():
                values.pop()

    def __len__(self) -> int:
        return len(self.rounds)

    def table(self, name: str) -> Tensor:
        """Return a field at all evaluations, [T, K].

        Raises:
            KeyError: If nothing of that name was recorded.
        """
        if name not in self.values:
            raise KeyError(f"the history has no {name!r}; it has {sorted(self.values)}")
        return torch.stack(self.values[name])

    def last(self, name: str) -> Tensor:
        """Return a field at the last evaluation, [K]."""
        return self.table(name)[-1]

    def final(self, name: str) -> Tensor:
        """Return a field at the evaluation that the returned models are of, [K]."""
        return self.table(name)[self.returned]

    def mean(self, name: str) -> list[float]:
        """Return a field's mean over nodes at every evaluation.

        Nodes without a value are left out (no samples, no member, a metric that is not defined), but a node that has
        diverged makes the mean of losses infinite and leaves that of metrics without a value (NaN).
        """
        means = self.table(name).nanmean(1)
        diverged = [any(self._diverged(name, t)) for t in range(len(means))]
        if name.endswith("metric"):
            means = means.masked_fill(torch.tensor(diverged, dtype=torch.bool), torch.nan)
        return list(means.tolist())

    def undefined(self, split: str) -> list[str]:
        """Return the nodes with samples of a split whose metric was not defined at the last evaluation, by name."""
        if f"{split}_metric" not in self.values or f"{split}_loss" not in self.values:
            return []
        loss, metric = self.last(f"{split}_loss"), self.last(f"{split}_metric")
        return [self.names[k] for k in (metric.isnan() & loss.isfinite()).nonzero().flatten().tolist()]

    def summary(self, name: str = "test_metric") -> dict[str, float]:
        """Return mean, worst 10 %, worst 20 % and standard deviation over nodes, of the returned models.

        ``nodes`` says over how many nodes that is, ``ignored`` how many have no value. Where nodes have diverged,
        ``diverged`` says how many, and the others are NaN: what the rest reach is no result of the run.
        """
        higher = self.higher_is_better and not name.endswith("loss")
        found = dict(summarize(self.final(name), higher))
        if diverged := sum(self._diverged(name, self.returned)):
            found |= dict.fromkeys(("mean", "worst10", "worst20", "std"), math.nan) | {"diverged": diverged}
        return found

    def _diverged(self, name: str, t: int) -> list[bool]:
        """Tell for every node whether it had diverged at an evaluation, by the loss that goes with a field."""
        losses = self.values.get(name.replace("metric", "loss"), []) if name.startswith(("val", "test")) else []
        return list(torch.isinf(losses[t]).tolist()) if losses else []

    def as_dict(self) -> dict[str, Any]:
        """Return everything but graphs and scores as plain values, for JSON; values that are not finite become None."""
        values = {name: [[_finite(v) for v in row.tolist()] for row in rows] for name, rows in self.values.items()}
        return {
            "nodes": list(self.names),
            "metric": self.metric,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "isolated": self.isolated,
            "isolated_because": self.isolated_because,
            "findings": [asdict(finding) for finding in self.findings],
            "values": values,
        }

    def to_json(self, path: str | Path) -> Path:
        """Write the history as JSON, whole or not at all."""
        return write_whole(path, json.dumps(self.as_dict(), allow_nan=False).encode())

    def to_csv(self, path: str | Path) -> Path:
        """Write one line per evaluation and node, whole or not at all."""
        fields = sorted(self.values)
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["round", "node", *fields])
        for t, round_ in enumerate(self.rounds):
            for k, name in enumerate(self.names):
                writer.writerow([round_, name, *(repr(float(self.values[f][t][k])) for f in fields)])
        return write_whole(path, table.getvalue().encode())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
