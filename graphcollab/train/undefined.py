"""Nodes for which the metric is not defined, named once for all that was evaluated."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from graphcollab.checks import issue
from graphcollab.metrics import Metric
from graphcollab.metrics.scores import not_defined
from graphcollab.tasks import Tasks
from graphcollab.train.history import History

__all__ = ["Undefined", "told_by_table"]


@dataclass
class Undefined:
    """Nodes that have samples of a split but no value of the metric, in one history or several.

    Args:
        nodes: Such nodes by split, in any history.
        left: Over how many nodes means are, by split; the fewest in any history.
    """

    nodes: dict[str, dict[str, None]] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)

    def add(self, history: History) -> None:
        """Take note of a history's last evaluation."""
        for split in ("val", "test"):
            if found := history.undefined(split):
                left = int((~history.last(f"{split}_metric").isnan()).sum())
                self.nodes.setdefault(split, {}).update(dict.fromkeys(found))
                self.left[split] = min(left, self.left.get(split, left))

    def warn(self, metric: Metric, count: int, told: Collection[str] = ()) -> bool:
        """Name them all in one warning, unless there are none but those that were ``told`` of before; say whether."""
        known = {split: ([*nodes], self.left[split]) for split, nodes in self.nodes.items()}
        new = any(node not in told for nodes in self.nodes.values() for node in nodes)
        if new:
            issue("quality", f"metric {metric.name!r}", not_defined(metric, known, count))
        return new


def told_by_table(tasks: Tasks) -> list[str]:
    """Return the sites of which `Tasks.from_frame` has warned: rows of one class alone, with AUC as metric."""
    return [site for one in tasks.findings if one.code == "one-class" for site in one.numbers["sites"]]
