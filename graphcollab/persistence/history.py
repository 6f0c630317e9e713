"""`History`: the values measured in a run, round by round."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from graphcollab._base.errors import UnknownError
from graphcollab._base.files import write_csv, write_whole
from graphcollab._base.findings import Finding
from graphcollab.analysis.metrics import METRICS
from graphcollab.analysis.metrics.statistics import summarize
from graphcollab.data.tasks import Tasks

MISSING = {  # values of a summary, the best first, and what is missing for better ones
    "test_metric": "",
    "val_metric": (
        "no node has test samples: give `test` to Tasks.from_samples, or take tasks.hold_out(0.2, into='test')"
    ),
    "train_loss": (
        "no node has test or validation samples: give `test` and `val` to Tasks.from_samples, or take "
        "tasks.hold_out(0.2, into='test') and hold_out(0.2) of that"
    ),
}


def in_deviations(tasks: Tasks, metrics: Iterable[str]) -> str:
    """Return a note that errors are in standard deviations, and their size, if targets were standardized."""
    told = tasks.preparation
    aim = None if told is None else told.target
    named = [name for name in metrics if name in METRICS and METRICS[name].unit]
    if told is None or aim is None or aim.categories is not None or set(aim.deviation) == {1.0} or not named:
        return ""
    one = f" (one is {aim.deviation[0]:.4g})" if not told.sites else " of every node's own"
    powers = {METRICS[name].unit for name in named}
    squared = "squared " if powers == {2} else ""
    also = ", mse in squared ones" if 2 in powers and not squared else ""
    return (
        f"{' and '.join(named)}: targets were standardized, so errors are in {squared}standard deviations of "
        f"{aim.name!r}{one}{also}"
    )


@dataclass
class History:
    """Values per node at every evaluated round, and the graph at the requested rounds.

    Args:
        names: Names of the nodes.
        metric: Name of the task's metric.
        higher_is_better: Whether larger values of the metric are better.
        rounds: Rounds played before each evaluation.
        seconds: Seconds since the start at each evaluation (not reproduced by a resumed run).
        values: For every field [K] per evaluation: ``train_loss``, ``val_loss``, ``val_metric``, ``test_loss``,
            ``test_metric``, ``bytes_sent``, ``messages_sent``, and the values of callbacks (`Callback.values`).
        graphs: ``(edge_index, edge_weight)`` used in a round, by its number counted from 1.
        scores: ``(edge_index, similarity)`` measured in a round, by its number counted from 1.
        isolated: Nodes that were isolated because they diverged, with the round, counted from 1.
        isolated_because: The reason for each of them.
        refused: Nodes treated as away because their rows were implausible as models, with the rounds, from 1.
        findings: Problems found with nodes or weights, by code; ``numbers`` has the ``round`` and the names of the
            ``nodes``. Every run checks at its end for uninformative weights, ``"own model only"``, ``"one model
            only"``, ``"uniform weights"`` or, without a warning, ``"still equal weights"``, and for losses more than
            ten times those of the initial model and of outputs of zero, ``"diverged"``.
        observed: State of callbacks from the last round for a resumed run, [K] by name. Between sites it stays at each
            site, and so do evaluations of the same name.
        returned: Evaluation of the returned models: the last, or with early stopping the best.
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
    refused: dict[str, list[int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    observed: dict[str, Tensor] = field(default_factory=dict)
    returned: int = -1

    def add(self, round_: int, seconds: float, values: Mapping[str, Tensor]) -> None:
        """Append one evaluation; fields not evaluated before, or no longer evaluated, have no values (NaN) there."""
        new = {name: value.detach().cpu().double() for name, value in values.items()}
        nothing = torch.full((len(self.names),), math.nan, dtype=torch.float64)
        for name in {**self.values, **new}:
            self.values.setdefault(name, [nothing] * len(self)).append(new.get(name, nothing))
        self.rounds.append(round_)
        self.seconds.append(seconds)

    def forget(self, round_: int) -> None:
        """Remove a round's evaluation, if it is the last one."""
        if self.rounds[-1:] == [round_]:
            self.rounds.pop()
            self.seconds.pop()
            for values in self.values.values():
                values.pop()

    def __len__(self) -> int:
        return len(self.rounds)

    def __repr__(self) -> str:
        what = next((name for name in MISSING if name in self.values), "")
        named = what.replace("metric", self.metric).replace("_", " ")
        reached = "nothing evaluated"
        if what:
            found = self.summary(what)
            over = f" ({found['nodes']:g} of {len(self.names)} nodes)" if found["ignored"] else ""
            reached = f"mean {named} {found['mean']:.4g}{over}"
        return f"History({len(self.names)} nodes, round {[0, *self.rounds][-1]}; {reached})"

    def table(self, name: str) -> Tensor:
        """Return a field at all evaluations, [T, K]; a KeyError lists the recorded fields."""
        if name not in self.values:
            raise UnknownError("name", f"the history has no {name!r}; it has {sorted(self.values)}")
        return torch.stack(self.values[name])

    def last(self, name: str) -> Tensor:
        """Return a field at the last evaluation, [K]."""
        return self.table(name)[-1]

    def final(self, name: str) -> Tensor:
        """Return a field at the evaluation of the returned models, [K]."""
        return self.table(name)[self.returned]

    def mean(self, name: str) -> list[float]:
        """Return a field's mean over nodes at every evaluation.

        Nodes without a value are left out (no samples, not a member, an undefined metric), but a diverged node makes
        the mean of losses infinite and that of metrics undefined (NaN).
        """
        means: list[float] = self.table(name).nanmean(1).tolist()
        spoilt = name.endswith("metric")
        return [math.nan if spoilt and self._diverged(name, t) else mean for t, mean in enumerate(means)]

    def undefined(self, split: str) -> list[str]:
        """Return the nodes with samples of a split and an undefined metric at the last evaluation, by name."""
        if f"{split}_metric" not in self.values or f"{split}_loss" not in self.values:
            return []
        loss, metric = self.last(f"{split}_loss"), self.last(f"{split}_metric")
        return [self.names[k] for k in (metric.isnan() & loss.isfinite()).nonzero().flatten().tolist()]

    def summary(self, name: str = "test_metric") -> dict[str, float]:
        """Return mean, worst 10 %, worst 20 % and standard deviation over nodes, of the returned models.

        The worst 10 % and 20 % are rounded up to whole nodes: with ten nodes or fewer the worst 10 % is the worst node.
        ``nodes`` is the number of nodes with a value, ``ignored`` the number without. If nodes have diverged,
        ``diverged`` is their number, and the other values are NaN: results of the remaining nodes are not a result of
        the run.
        """
        higher = self.higher_is_better and not name.endswith("loss")
        found = dict(summarize(self.final(name), higher))
        if diverged := self._diverged(name, self.returned):
            found |= dict.fromkeys(("mean", "worst10", "worst20", "std"), math.nan) | {"diverged": diverged}
        return found

    def _diverged(self, name: str, t: int) -> int:
        """Return the number of nodes that had diverged at an evaluation, by the loss that goes with a field."""
        losses = self.values.get(name.replace("metric", "loss"), []) if name.startswith(("val", "test")) else []
        return int(torch.isinf(losses[t]).sum()) if losses else 0

    def to_json(self, path: str | Path) -> Path:
        """Write everything but graphs and scores as JSON, atomically; values that are not finite are null."""

        def plain(row: Tensor) -> list[float | None]:
            return [value if math.isfinite(value) else None for value in row.tolist()]

        told: dict[str, object] = {"nodes": list(self.names)}
        for name in ("metric", "rounds", "seconds", "isolated", "isolated_because", "refused"):
            told[name] = getattr(self, name)
        told["findings"] = [asdict(finding) for finding in self.findings]
        told["values"] = {name: list(map(plain, rows)) for name, rows in self.values.items()}
        return write_whole(path, json.dumps(told, allow_nan=False).encode())

    def to_csv(self, path: str | Path) -> Path:
        """Write one line per evaluation and node, atomically."""
        fields = sorted(self.values)
        rows = (
            [round_, *row]
            for t, round_ in enumerate(self.rounds)
            for row in zip(self.names, *(self.values[name][t].tolist() for name in fields), strict=True)
        )
        return write_csv(path, ["round", "node", *fields], rows)
