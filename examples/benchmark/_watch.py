"""Callbacks of reproductions: what merging does to models, which clusters die of it, what similarities could see."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.analysis.metrics import as_metric
from graphcollab.analysis.metrics.scores import score_rows
from graphcollab.components import Env, Similarity
from graphcollab.engine import Rows
from graphcollab.methods.method import Method
from graphcollab.persistence import History
from graphcollab.train import Callback

MERGING = tuple(f"val_{what}_{when}" for what in ("loss", "metric") for when in ("before", "after"))
MARGIN, DROP, RUIN = 0.02, 0.1, 0.25  # shares of a cluster's best value
NOISE = 3.0  # standard deviations from one evaluation to the next that a loss must exceed; small clusters are noisy


class WatchMerging(Callback):
    """Validate every node's model before and after merging, every round.

    Evaluations keep ``val_loss_before``, ``val_metric_before``, ``val_loss_after`` and ``val_metric_after`` of the last
    round in ``history.values``; nodes that do not train keep their values.
    """

    needs = ("val",)

    def on_start(self, data: Data, history: History, rounds: int) -> None:  # a resumed history has the last values
        nothing = torch.full((data.num_nodes,), torch.nan, dtype=torch.float64)
        self.now = {name: history.observed.get(name, nothing) for name in MERGING}
        self.whole = dict(self.now)

    def before_mixing(self, data: Data, env: Env) -> None:
        self._validate(data, env, "before")

    def after_mixing(self, data: Data, env: Env, method: Method) -> None:
        self._validate(data, env, "after")

    def on_round(self, data: Data, history: History) -> None:
        self.whole = dict(self.now)  # now that the round is whole
        history.observed.update(self.whole)

    def values(self) -> Mapping[str, Tensor]:
        return self.whole

    def _validate(self, data: Data, env: Env, when: str) -> None:
        if not bool(data.trains.any()):
            return
        nodes = env.plane.local(data.trains.nonzero().flatten())
        found = score_rows(env.engine, Rows.own(data.x, nodes), "val", as_metric(env.engine.tasks.metric))
        for what, value in zip(("loss", "metric"), found, strict=True):
            name = f"val_{what}_{when}"
            (self.now[name],) = env.plane.all_gather(
                env.plane.local_values(self.now[name].index_copy(0, nodes.cpu(), value.cpu()))
            )


class WatchDeaths(Callback):
    """Warn once of each cluster that dies, in a run that `WatchMerging` watches, too.

    It is described in *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning
    Strategies* (Hagander & Ihre-Thomason, Lund University, 2024), section 4.2: a few nodes of a cluster listen to
    another one, and those who rightly listen to them are dragged along. A cluster is said to die when in ``patience``
    evaluations in a row (a) merging made its models worse on validation data, by more than 2 %, and (b) the merged
    models were worse than the cluster's best mean over as many evaluations before, by more than 10 % and by more than
    values fluctuate from one evaluation to the next. (a) alone is usual where peers are drawn at random, (b) alone may
    be overfitting; if more than 25 % is lost, (b) is enough, since models that are ruined are not made worse by
    merging. Nodes at rest do not count. A resumed run finds what an uninterrupted one finds.

    Args:
        cluster: The true cluster of each node, such as ``tasks.cluster``, [K].
        patience: Evaluations in a row.

    Attributes:
        deaths: The round in which a cluster was found to die, by cluster.
    """

    everywhere = False

    def __init__(self, cluster: Tensor, patience: int = 5) -> None:
        self.cluster, self.patience = cluster.cpu(), patience
        self.names, self.group = self.cluster.unique(return_inverse=True)

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        self.deaths: dict[int, int] = {}
        self._read = 0  # evaluations; of the last ones the mean over each cluster [C], larger is better
        lengths = {"before": self.patience, "after": 4 * self.patience}
        self._merging = {when: deque[Tensor](maxlen=length) for when, length in lengths.items()}
        self._best = torch.tensor(-torch.inf, dtype=torch.float64)  # of means over as many evaluations before them, [C]

    def on_evaluate(self, data: Data, history: History) -> None:
        read, self._read = self._read, len(history)
        for t in range(read, len(history)):
            self._take(history, t)
            for one in self.names[self._dying()].tolist():
                if one not in self.deaths:
                    self.deaths[one] = history.rounds[t]
                    warnings.warn(f"round {history.rounds[t]}: cluster {one} dies", RuntimeWarning, 2)

    def _take(self, history: History, t: int) -> None:
        """Read an evaluation: the mean over each cluster's nodes at work; NaN where there is none."""
        now = {when: history.values[f"val_metric_{when}"][t] for when in self._merging}
        worked = ~now["before"].isnan() & ~now["after"].isnan()
        losses = history.values.get("val_loss_before")
        if losses is not None and t:  # of nodes at rest the values of their last round are repeated
            worked &= losses[t] != losses[t - 1]
        sign, group = 1 if history.higher_is_better else -1, self.group[worked]
        count = torch.bincount(group, minlength=len(self.names))
        for when, values in now.items():
            total = torch.zeros(len(count), dtype=torch.float64).index_add(0, group, values[worked])
            self._merging[when].append(sign * total / count)
        after = self._merging["after"]
        if len(after) >= 2 * self.patience:
            self._best = torch.fmax(self._best, torch.stack([*after][-2 * self.patience : -self.patience]).mean(0))

    def _dying(self) -> Tensor:
        """Tell of every cluster whether all its last evaluations show harm and loss, [C]; unknown values show none."""
        before, after = (torch.stack([*means]) for means in self._merging.values())
        if len(after) < 2 * self.patience:
            return torch.zeros(after.shape[1], dtype=torch.bool)
        scale, last = self._best.abs(), after[-self.patience :]
        # the median hides the one step of a fall; 1.05 makes of it the standard deviation of a single normal value
        noise = 1.05 * after.diff(dim=0).abs().nanmedian(0).values
        harm = last < before - MARGIN * scale
        loss, ruined = (last < self._best - torch.fmax(share * scale, NOISE * noise) for share in (DROP, RUIN))
        return ((harm & loss).all(0) | ruined.all(0)) & self._best.isfinite()


class ProbeSimilarity(Callback):
    """Measure the similarity of all nodes to all others in ``history.scores``, every round: what a metric could see.

    Nothing is charged, and no method makes use of it.

    Args:
        metric: What is measured, K² times.
    """

    def __init__(self, metric: Similarity) -> None:
        self.metric, self.needs = metric, metric.needs

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        self.found: tuple[Tensor, Tensor] | None = None

    def before_mixing(self, data: Data, env: Env) -> None:
        everyone = torch.arange(data.num_nodes)
        pairs = torch.cartesian_prod(everyone, everyone).T.flip(0)
        pairs = pairs[:, pairs[0] != pairs[1]]
        scores = self.metric.scores(data, env, pairs).cpu()
        self.found = pairs.cpu(), env.plane.broadcast(scores, pairs[1].cpu())

    def on_round(self, data: Data, history: History) -> None:
        if self.found is not None:
            history.scores[data.round], self.found = self.found, None
