"""`HealthCheck`: warns when collaboration goes wrong in ways that mean values over nodes do not show."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.checks import issue
from graphcollab.errors import ShapeError
from graphcollab.method import last_graph
from graphcollab.settings import Count, checked
from graphcollab.train.callbacks import Callback
from graphcollab.train.history import Finding, History

NEVER, DEATH = "never sampled", "cluster death"
MARGIN, DROP, RUIN = 0.02, 0.1, 0.25  # shares of a group's best value
SHARE = 0.1  # of the nodes, which make a warning where no clusters are known
NOISE = 3.0  # standard deviations from one evaluation to the next that a loss must exceed; small groups are noisy


class HealthCheck(Callback):
    """Warn once of nodes that are never sampled, and of clusters that die; keep both in ``history.findings``.

    Both are described in *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning
    Strategies* (Hagander & Ihre-Thomason, Lund University, 2024), sections 4.4 and 4.2.

    **Never sampled**: nobody else has listened to a node in the first ``after`` rounds. Its data then help nobody, and
    where peers are found by two-step estimates it stays so.

    **Cluster death**: a few nodes of a cluster listen to another one, and those who rightly listen to them are dragged
    along. A group of nodes is said to die when in ``patience`` evaluations in a row (a) merging made its models worse
    on validation data, by more than 2 %, and (b) the merged models were worse than the group's best mean over as
    many evaluations before, by more than 10 % and by more than values fluctuate from one evaluation to the next.
    (a) alone is usual where peers are drawn at random, (b) alone may be overfitting; if more than 25 % is lost, (b)
    is enough, since models that are ruined are not made worse by merging. It is looked for only where `WatchMerging` is
    a callback of the run too. Nodes at rest do not count.

    The state is in the history, so a resumed run finds what an uninterrupted one finds.

    Args:
        cluster: The true cluster of each node, such as ``tasks.cluster``, [K]: each is a group. Default: every node is
            a group of its own, and a warning needs at least a tenth of all nodes, and two, at the same time.
        after: Rounds after which nodes should have been sampled.
        patience: Evaluations in a row.
    """

    @checked
    def __init__(
        self,
        cluster: Tensor | None = None,
        *,
        after: Count = 10,
        patience: Count = 5,
    ) -> None:
        self.cluster = None if cluster is None else torch.as_tensor(cluster).cpu()
        self.after, self.patience = after, patience
        self._forget()

    def _forget(self) -> None:
        self._read = 0  # evaluations; of the last ones the mean over each group [G], larger is better
        lengths = {"before": self.patience, "after": 4 * self.patience}
        self._merging = {when: deque[Tensor](maxlen=length) for when, length in lengths.items()}
        self._best = torch.tensor(-torch.inf, dtype=torch.float64)  # of means over as many evaluations before them, [G]

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        self._forget()
        if self.cluster is not None and self.cluster.shape != (len(history.names),):
            expected = f"one cluster for each of {len(history.names)} nodes"
            raise ShapeError("cluster", f"HealthCheck expected {expected}, got shape {list(self.cluster.shape)}")
        history.findings[:] = [f for f in history.findings if f.kind != DEATH or f.round in history.rounds]

    def on_round(self, data: Data, history: History) -> None:
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
            _report(Finding(data.round, NEVER, _named(nodes, history), text), history)

    def on_evaluate(self, data: Data, history: History) -> None:
        if not {"val_metric_before", "val_metric_after"} <= history.values.keys():
            return
        label = torch.arange(len(history.names)) if self.cluster is None else self.cluster
        group = label.unique(return_inverse=True)[1]
        read, self._read = self._read, len(history)
        for t in range(read, len(history)):
            self._take(history, t, group)
            dying = self._dying()
            if self.cluster is None:
                few = int(dying.sum()) < max(2.0, SHARE * len(dying))
                found = [] if few else [dying.nonzero().flatten().tolist()]
            else:
                found = [(group == one).nonzero().flatten().tolist() for one in dying.nonzero().flatten()]
            known = [finding.nodes for finding in history.findings if finding.kind == DEATH]
            for nodes in found:
                who = _named(nodes, history)
                if who not in known and not (known and self.cluster is None):
                    text = self._death(nodes, group[nodes].unique(), history)
                    _report(Finding(history.rounds[t], DEATH, who, text), history)

    def _take(self, history: History, t: int, group: Tensor) -> None:
        """Read an evaluation: the mean over each group's nodes at work; NaN where there is none."""
        now = {when: history.values[f"val_metric_{when}"][t] for when in self._merging}
        worked = ~now["before"].isnan() & ~now["after"].isnan()
        losses = history.values.get("val_loss_before")
        if losses is not None and t:  # of nodes at rest the values of their last round are repeated
            worked &= losses[t] != losses[t - 1]
        sign = 1 if history.higher_is_better else -1
        count = torch.bincount(group[worked], minlength=int(group.max()) + 1)
        for when, values in now.items():
            total = torch.zeros(len(count), dtype=torch.float64).index_add(0, group[worked], values[worked])
            self._merging[when].append(sign * total / count)
        after = self._merging["after"]
        if len(after) >= 2 * self.patience:
            self._best = torch.fmax(self._best, torch.stack([*after][-2 * self.patience : -self.patience]).mean(0))

    def _dying(self) -> Tensor:
        """Tell of every group whether all its last evaluations show harm and loss, [G]; unknown values show none."""
        before, after = (torch.stack([*means]) for means in self._merging.values())
        if len(after) < 2 * self.patience:
            return torch.zeros(after.shape[1], dtype=torch.bool)
        scale, last = self._best.abs(), after[-self.patience :]
        # the median hides the one step of a fall; 1.05 makes of it the standard deviation of a single normal value
        noise = 1.05 * after.diff(dim=0).abs().nanmedian(0).values
        harm = last < before - MARGIN * scale
        loss, ruined = (last < self._best - torch.fmax(share * scale, NOISE * noise) for share in (DROP, RUIN))
        return ((harm & loss).all(0) | ruined.all(0)) & self._best.isfinite()

    def _death(self, nodes: list[int], groups: Tensor, history: History) -> str:
        sign, last = 1 if history.higher_is_better else -1, (means[-1] for means in self._merging.values())
        best, before, after = (sign * float(means[groups].nanmean()) for means in (self._best, *last))
        who = _who(nodes, history)
        if self.cluster is not None:
            who = f"cluster {self.cluster[nodes[0]].item()} of {who}"
        return (
            f"{who}: merged models are worse than the {best:.4g} once reached, {self.patience} evaluations in a row "
            f"(validation {history.metric} is now {before:.4g} before and {after:.4g} after merging). Probably some "
            "nodes listen to another cluster and pass on what they hear. Give less weight to dissimilar models (as "
            "merge='similarity' does), lower the temperature tau, or let nodes know more peers before they choose"
        )


def _named(nodes: list[int], history: History) -> tuple[str, ...]:
    return tuple(history.names[node] for node in nodes)


def _who(nodes: list[int], history: History) -> str:
    shown = ", ".join(repr(history.names[node]) for node in nodes[:3]) + (", …" if len(nodes) > 3 else "")
    return f"{len(nodes)} node{'s' if len(nodes) > 1 else ''} ({shown})"


def _report(finding: Finding, history: History) -> None:
    history.findings.append(finding)
    issue("quality", "nodes", finding.text)
