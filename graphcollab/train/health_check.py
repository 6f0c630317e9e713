"""`HealthCheck`: warns when collaboration goes wrong in ways that mean values over nodes do not show."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.method import last_graph
from graphcollab.settings import Count, NonNegative, Share, checked
from graphcollab.train.callbacks import Callback
from graphcollab.train.history import Finding, History

__all__ = ["HealthCheck"]

NEVER, DEATH = "never sampled", "cluster death"
NOISE = 3.0  # standard deviations from one evaluation to the next that a loss must exceed; small groups are noisy


class HealthCheck(Callback):
    """Warn once of nodes that are never sampled, and of clusters that die; keep both in ``history.findings``.

    Both are described in *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning
    Strategies* (Hagander & Ihre-Thomason, Lund University, 2024), sections 4.4 and 4.2.

    **Never sampled**: nobody else has listened to a node in the first ``after`` rounds. Its data then help nobody, and
    where peers are found by two-step estimates it stays so.

    **Cluster death**: a few nodes of a cluster listen to another one, and those who rightly listen to them are dragged
    along. A group of nodes is said to die when in ``patience`` evaluations in a row (a) merging made its models worse
    on validation data, by more than ``margin``, and (b) the merged models were worse than the group's best mean over as
    many evaluations before, by more than ``drop`` and by more than values fluctuate from one evaluation to the next.
    (a) alone is usual where peers are drawn at random, (b) alone may be overfitting; if more than ``ruin`` is lost, (b)
    is enough, since models that are ruined are not made worse by merging. It is looked for only where `WatchMerging` is
    a callback of the run too. Nodes at rest do not count.

    The state is in the history, so a resumed run finds what an uninterrupted one finds.

    Args:
        cluster: The true cluster of each node, such as ``tasks.cluster``, [K]: each is a group. Default: every node is
            a group of its own, and a warning needs at least ``share`` of all nodes, and two, at the same time.
        after: Rounds after which nodes should have been sampled.
        patience: Evaluations in a row.
        margin: How much merging may hurt, relative to the group's best value so far.
        drop: How much may be lost, relative to it.
        ruin: How much may be lost, relative to it, whether or not merging makes it worse still: once models are ruined,
            it may not.
        share: Share of the nodes that makes a warning where no clusters are known.

    Example:
        >>> history = History(("a", "b"))
        >>> for best, merged in [(0.8, 0.8)] * 5 + [(0.7, 0.5)] * 5:
        ...     both = {"val_metric_before": torch.full((2,), best), "val_metric_after": torch.full((2,), merged)}
        ...     history.add(len(history) + 1, 0.0, both)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     HealthCheck(torch.tensor([0, 0])).on_evaluate(Data(), history)
        >>> [(finding.round, finding.kind, finding.nodes) for finding in history.findings]
        [(10, 'cluster death', (0, 1))]
    """

    @checked
    def __init__(
        self,
        cluster: Tensor | None = None,
        *,
        after: Count = 10,
        patience: Count = 5,
        margin: NonNegative = 0.02,
        drop: NonNegative = 0.1,
        ruin: NonNegative = 0.25,
        share: Share = 0.1,
    ) -> None:
        self.cluster = None if cluster is None else torch.as_tensor(cluster).cpu()
        self.after, self.patience, self.margin, self.drop, self.share = after, patience, margin, drop, share
        self.ruin = ruin
        self.streak: _Streak | None = None

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Forget other runs, and what was found at an evaluation that the history has no more.

        Raises:
            ValueError: If the clusters are not for this run's nodes.
        """
        self.streak = None
        if self.cluster is not None and self.cluster.shape != (len(history.names),):
            expected = f"one cluster for each of {len(history.names)} nodes"
            raise ValueError(f"HealthCheck expected {expected}, got shape {list(self.cluster.shape)}")
        history.findings[:] = [f for f in history.findings if f.kind != DEATH or f.round in history.rounds]

    def on_round(self, data: Data, history: History) -> None:
        """Note who was listened to, and see once whether somebody never was."""
        edge_index, edge_weight = last_graph(data)
        sender, receiver = edge_index.cpu()
        now = torch.zeros(data.num_nodes, dtype=torch.int64)
        now[sender[(sender != receiver) & (edge_weight.cpu() > 0)]] = 1
        history.heard = now if history.heard is None else history.heard + now
        history.watched += 1
        if history.watched != self.after or not bool(history.heard.any()):  # nobody listens at all: no peers are meant
            return
        nodes = ((history.heard == 0) & ~data.isolated.cpu()).nonzero().flatten().tolist()
        if nodes:
            text = (
                f"nobody listened to {_who(nodes, history)} in {self.after} rounds: what they learn helps nobody else. "
                "Sample more peers a round; explore more, in DAC by unknown='zero'; or find peers by PENS or PANM first"
            )
            _report(Finding(data.round, NEVER, tuple(nodes), text), history)

    def on_evaluate(self, data: Data, history: History) -> None:
        """See whether merging keeps hurting a group that was better before."""
        if not {"val_metric_before", "val_metric_after"} <= history.values.keys():
            return
        if self.streak is None:
            label = torch.arange(len(history.names)) if self.cluster is None else self.cluster
            self.streak = _Streak(label.unique(return_inverse=True)[1], self.patience, history.higher_is_better)
        streak, group = self.streak, self.streak.group
        for round_ in streak.take(history):
            dying = streak.dying(self.margin, self.drop, self.ruin)
            if self.cluster is None:
                few = int(dying.sum()) < max(2.0, self.share * len(dying))
                found = [] if few else [dying.nonzero().flatten().tolist()]
            else:
                found = [(group == one).nonzero().flatten().tolist() for one in dying.nonzero().flatten()]
            known = [finding.nodes for finding in history.findings if finding.kind == DEATH]
            for nodes in found:
                if tuple(nodes) not in known and not (known and self.cluster is None):
                    text = self._death(nodes, streak, history)
                    _report(Finding(round_, DEATH, tuple(nodes), text), history)

    def _death(self, nodes: list[int], streak: _Streak, history: History) -> str:
        of = streak.group[nodes].unique()
        before, after = (streak.sign * float(v[-1][of].nanmean()) for v in (streak.before, streak.after))
        best = streak.sign * float(streak.best[of].nanmean())
        who = _who(nodes, history)
        if self.cluster is not None:
            who = f"cluster {self.cluster[nodes[0]].item()} of {who}"
        return (
            f"{who}: merged models are worse than the {best:.4g} once reached, {self.patience} evaluations in a row "
            f"(validation {history.metric} is now {before:.4g} before and {after:.4g} after merging). Probably some "
            "nodes listen to another cluster and pass on what they hear. Give less weight to dissimilar models (as "
            "merge='similarity' does), lower the temperature tau, or let nodes know more peers before they choose"
        )


class _Streak:
    """The last evaluations of every group, larger values better, and the best mean over as many before them."""

    def __init__(self, group: Tensor, patience: int, higher_is_better: bool) -> None:
        self.group, self.patience, self.sign = group, patience, 1 if higher_is_better else -1
        self.size = int(group.max()) + 1
        self.taken, self.last_loss = 0, None
        self.before: deque[Tensor] = deque(maxlen=patience)
        self.after: deque[Tensor] = deque(maxlen=4 * patience)
        self.best = torch.full((self.size,), -torch.inf, dtype=torch.float64)

    def take(self, history: History) -> Iterator[int]:
        """Read the evaluations that were not read yet, and yield their rounds."""
        before, after = (history.values[f"val_metric_{when}"] for when in ("before", "after"))
        losses = history.values.get("val_loss_before")
        for t in range(self.taken, len(before)):
            worked = ~before[t].isnan() & ~after[t].isnan()
            if losses is not None and t:  # of nodes at rest the values of their last round are repeated
                worked &= losses[t] != losses[t - 1]
            self.before.append(self._means(before[t], worked))
            self.after.append(self._means(after[t], worked))
            self.taken = t + 1
            if len(self.after) >= 2 * self.patience:
                earlier = torch.stack([*self.after][-2 * self.patience : -self.patience]).mean(0)
                self.best = torch.fmax(self.best, earlier)
            yield history.rounds[t + len(history.rounds) - len(before)]

    def dying(self, margin: float, drop: float, ruin: float) -> Tensor:
        """Tell of every group whether all its last evaluations show harm and loss, [G]; unknown values show none."""
        if len(self.after) < 2 * self.patience:
            return torch.zeros(self.size, dtype=torch.bool)
        before, after = torch.stack([*self.before]), torch.stack([*self.after])
        scale = self.best.abs()
        # the median hides the one step of a fall; 1.05 makes of it the standard deviation of a single normal value
        noise = 1.05 * after.diff(dim=0).abs().nanmedian(0).values
        harm = after[-self.patience :] < before - margin * scale
        loss, ruined = (
            after[-self.patience :] < self.best - torch.fmax(share * scale, NOISE * noise) for share in (drop, ruin)
        )
        return ((harm & loss).all(0) | ruined.all(0)) & self.best.isfinite()

    def _means(self, values: Tensor, worked: Tensor) -> Tensor:
        """Return the mean over each group's nodes at work, [G]; NaN where there is none."""
        total = torch.zeros(self.size, dtype=torch.float64).index_add(0, self.group[worked], values[worked])
        return self.sign * total / torch.bincount(self.group[worked], minlength=self.size)


def _who(nodes: list[int], history: History) -> str:
    shown = ", ".join(repr(history.names[node]) for node in nodes[:3]) + (", …" if len(nodes) > 3 else "")
    return f"{len(nodes)} node{'s' if len(nodes) > 1 else ''} ({shown})"


def _report(finding: Finding, history: History) -> None:
    history.findings.append(finding)
    warnings.warn(finding.text, RuntimeWarning, stacklevel=4)
