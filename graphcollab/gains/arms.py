"""Ways to train on one split, and their runs: alone, together, in pairs, all but one, and methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphcollab.checks import own_filter
from graphcollab.control.guard import OR_ISOLATE
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.env import Env
from graphcollab.gains.layout import Layout
from graphcollab.method import Method
from graphcollab.methods import fedavg
from graphcollab.metrics import Metric
from graphcollab.metrics.scores import score_all
from graphcollab.naming import numbered
from graphcollab.phases import Phases
from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.tasks._sites import name_ids
from graphcollab.train import Callback, Result, WatchMetrics, run
from graphcollab.train.start import Model

__all__ = [
    "Arm",
    "Measured",
    "Runs",
    "averaging",
    "lrs_of",
    "nodes_of",
    "runs_of",
    "scores_of",
    "table_of",
    "usual_losses",
]

Runs = list[tuple[float, Result]]


@dataclass(frozen=True)
class Measured:
    """What models are tested by: M metrics on H splits.

    Args:
        metrics: Metrics, the tasks' own first.
        splits: Names of splits, ``"test"`` first.
    """

    metrics: tuple[Metric, ...]
    splits: tuple[str, ...]

    @property
    def columns(self) -> list[list[str]]:
        """Names under which a history has them, [M][H]."""
        own = {("test", self.metrics[0].name): "test_metric"}
        return [
            [own.get((split, metric.name), f"{split}_{metric.name}") for split in self.splits]
            for metric in self.metrics
        ]

    @property
    def callbacks(self) -> list[WatchMetrics]:
        """New observers that keep what no evaluation keeps by itself."""
        more, others = self.metrics[1:], self.splits[1:]
        return [*([WatchMetrics(more)] if more else []), *([WatchMetrics(self.metrics, others)] if others else [])]


@dataclass(frozen=True)
class Arm:
    """A way to train on one split: validation losses and test metrics at every evaluation, for every step size.

    Args:
        lrs: Step sizes.
        loss: Validation losses of its nodes, [S, T, n].
        score: Test metrics of them, [M, H, S, T, n].
        usual: What losses are held against, [n]: the median that the site has when it trains alone.
        constant: Validation losses [n] and test metrics [M, H, n] of constants in their place, if known.
    """

    lrs: Sequence[float]
    loss: Tensor
    score: Tensor
    usual: Tensor
    constant: tuple[Tensor, Tensor] | None = None

    def choose(self) -> tuple[Tensor, tuple[int, int] | None]:
        """Return the scores [M, H, n] with the step size, and at the evaluation, that do best on validation samples.

        Return, too, which they are; None if constants do better than all of them. One choice is made for all nodes,
        also for sites that train alone: with few validation samples, choices of single sites are worse. Each has the
        same say, whatever the size of its losses: the mean of l / (l + usual) is least. Losses below 0 are averaged as
        they are.
        """
        mean = self._regret(self.loss)
        s, t = divmod(int(mean.argmin()), mean.shape[1])
        if self.constant is not None and float(self._regret(self.constant[0])) <= float(mean[s, t]):
            return self.constant[1], None
        return self.score[:, :, s, t], (s, t)

    def _regret(self, loss: Tensor) -> Tensor:
        """Return a mean over nodes that is the smaller the better, [...] of losses [..., n]."""
        if bool((self.loss < 0).any()):
            return loss.nan_to_num(torch.inf).mean(-1)
        share = torch.where(loss > 0, loss / (loss + self.usual), 0)  # 0 of losses that are 0
        return share.nan_to_num(1.0).mean(-1)  # 1 of losses that are not finite


def averaging(
    tasks: Tasks,
    layout: Layout,
    model: Model,
    work: Mapping[str, Any],
    lrs: Sequence[float],
    measured: Measured,
    settings: Mapping[str, Any],
    tick: Callable[[], object],
) -> dict[str, Arm]:
    """Return all that federated averaging answers: alone, together, pairs, all but one, and outside."""
    sites = [f"site {name}" for name in tasks.names] if numbered(tasks.names) else tasks.names
    names, outside = layout.names(sites), _Outside(*layout.outside(), layout.alone, measured)
    splits = {name: split.select(layout.site) for name, split in tasks.splits.items()}
    ids = name_ids(layout.names(tasks.names))
    ids[layout.alone] = tasks.ids  # alone they meet the same batches as in methods
    told = None if tasks.told is None else tasks.told[layout.site]
    copies = replace(tasks, splits=splits, names=names, node_id=ids, cluster=None, told=told)
    make = partial(fedavg, **work)
    runs = runs_of(
        lambda lr: make(lr=lr), lrs, measured, tick, copies, model, layout.edge_index, callbacks=[outside], **settings
    )
    loss, score = table_of(runs, "val_loss"), scores_of(runs, measured)
    usual = usual_losses(loss[..., layout.alone])
    places = {"alone": layout.alone, "together": layout.together}
    places |= {name: nodes_of(layout, name) for name in ("pairs", "without")}
    arms = {
        name: Arm(lrs_of(runs), loss[..., nodes], score[..., nodes], usual[layout.site[nodes]])
        for name, nodes in places.items()
        if len(nodes)
    }
    if len(outside.sites):  # a site that takes no part chooses nothing
        arms["outside"] = replace(arms["without"], score=scores_of(runs, measured, OUTSIDE)[..., outside.sites])
    return arms


def usual_losses(loss: Tensor) -> Tensor:
    """Return the median of every node's losses [S, T, n] over settings and evaluations, [n]."""
    return loss.flatten(0, 1).nan_to_num(torch.inf).median(0).values


def nodes_of(layout: Layout, name: str) -> Tensor:
    """Return the nodes of pairs, or of groups of all but one, that are there."""
    table: Tensor = getattr(layout, name)
    return table[table >= 0]


def runs_of(
    make: Callable[[float], Method | Phases],
    lrs: Sequence[float],
    measured: Measured,
    tick: Callable[[], object],
    *args: Any,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Runs:
    """Run a method with several step sizes; those with which a model diverges are left out, unless all are."""
    done: Runs = []
    failure: NonFiniteLossError | None = None
    for lr in lrs:
        try:
            with own_filter("ignore"):  # what runs have to say is kept, and told once
                done.append((lr, run(make(lr), *args, callbacks=[*callbacks, *measured.callbacks], **settings)))
        except NonFiniteLossError as error:
            failure = error
        tick()
    if not done and failure is not None:
        failure.args = (str(failure).replace(OR_ISOLATE, ""),)  # a benefit is of all sites
        failure.add_note(f"so it is with all step sizes, {list(lrs)}: give benefit smaller ones, lrs=...")
        raise failure
    return done


def lrs_of(runs: Runs) -> list[float]:
    """Return the step sizes with which models did not diverge."""
    return [lr for lr, _ in runs]


def table_of(runs: Runs, name: str) -> Tensor:
    """Return what histories have under a name, [S, T, n]."""
    return torch.stack([one.history.table(name) for _, one in runs])


def scores_of(runs: Runs, measured: Measured, prefix: str = "") -> Tensor:
    """Return what histories have of test metrics, under these names with a prefix, [M, H, S, T, n]."""
    return torch.stack([torch.stack([table_of(runs, prefix + name) for name in some]) for some in measured.columns])


OUTSIDE = "outside "


class _Outside(Callback):
    """Test models of all sites but one at that one, which has had no part in them."""

    def __init__(self, sites: Tensor, models: Tensor, nodes: Tensor, measured: Measured) -> None:
        self.sites, self.models, self.nodes, self.measured = sites, models, nodes, measured
        self.found: dict[str, Tensor] = {}

    def before_evaluate(self, models: Stacks, env: Env) -> None:
        if not len(self.sites):
            return
        rows = Rows(models, self.nodes[self.sites], self.models)

        def scored(some: Rows) -> Tensor:
            values = [score_all(env.engine, some, split, self.measured.metrics)[1] for split in self.measured.splits]
            return torch.stack(values).movedim(-1, 0).double()  # [r, H, M]

        scores = env.plane.at_data(rows, scored, to="public")
        for m, names in enumerate(self.measured.columns):
            for h, name in enumerate(names):
                whole = torch.full((env.engine.tasks.num_nodes,), torch.nan, dtype=torch.float64)
                self.found[OUTSIDE + name] = whole.index_copy(0, self.sites, scores[:, h, m])

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.found)
