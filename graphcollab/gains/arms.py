"""Ways to train on one split, and their runs: alone, together, in pairs, all but one, and methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphcollab.checks import own_filter
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.gains.layout import Layout
from graphcollab.method import Method, last_graph
from graphcollab.methods import fedavg
from graphcollab.metrics import Metric
from graphcollab.metrics.edges import pair_weights
from graphcollab.metrics.scores import score_all
from graphcollab.phases import Phases
from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.train import Callback, Result, WatchMetrics, run
from graphcollab.train.start import Model
from graphcollab.typing import Env

__all__ = ["Arm", "Measured", "Runs", "arm_of", "averaging", "learned_weights", "nodes_of", "runs_of"]

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
        constant: Validation losses [n] and test metrics [M, H, n] of constants in their place, if known.
    """

    lrs: Sequence[float]
    loss: Tensor
    score: Tensor
    constant: tuple[Tensor, Tensor] | None = None

    def of(self, nodes: Tensor) -> Arm:
        """Return the arm of some of its nodes."""
        return replace(self, loss=self.loss[..., nodes], score=self.score[..., nodes])

    def choose(self) -> tuple[Tensor, tuple[int, int] | None]:
        """Return the scores [M, H, n] with the step size, and at the evaluation, whose mean validation loss is least.

        Return, too, which they are; None if constants do better than all of them.
        """
        mean = self.loss.nan_to_num(torch.inf).mean(2)
        s, t = divmod(int(mean.argmin()), mean.shape[1])
        if self.constant is not None and float(self.constant[0].mean()) <= float(mean[s, t]):
            return self.constant[1], None
        return self.score[:, :, s, t], (s, t)


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
    names = tuple(f"{tasks.names[site]} #{n}" for n, site in enumerate(layout.site.tolist()))
    splits = {name: split.select(layout.site) for name, split in tasks.splits.items()}
    copies = replace(tasks, splits=splits, names=names, node_id=torch.arange(len(names)), cluster=None)
    left, models = layout.outside()
    outside = _Outside(left, models, layout.alone, measured)
    make = partial(fedavg, **work)
    watched = {**settings, "callbacks": [*settings.get("callbacks", ()), outside]}
    runs = runs_of(lambda lr: make(lr=lr), lrs, measured, tick, copies, model, layout.edge_index, **watched)
    whole = arm_of(runs, measured)
    places = {"alone": layout.alone, "together": layout.together}
    places |= {name: nodes_of(layout, name) for name in ("pairs", "without")}
    arms = {name: whole.of(nodes) for name, nodes in places.items() if len(nodes)}
    if len(left):
        inside = arms["without"].loss.mean(2, keepdim=True)  # a site that takes no part chooses nothing
        arms["outside"] = replace(arm_of(runs, measured, OUTSIDE).of(left), loss=inside)
    return arms


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
        failure.add_note(f"so it is with all step sizes, {list(lrs)}: give benefit smaller ones, lrs=...")
        raise failure
    return done


def arm_of(runs: Runs, measured: Measured, prefix: str = "") -> Arm:
    """Return what histories have of validation losses, and of test metrics under these names with a prefix."""

    def table(name: str) -> Tensor:
        return torch.stack([one.history.table(name) for _, one in runs])

    scores = torch.stack([torch.stack([table(prefix + name) for name in some]) for some in measured.columns])
    return Arm([lr for lr, _ in runs], table("val_loss"), scores)


def learned_weights(result: Result) -> Tensor:
    """Return what every site gave every other in the last round, [K, K], receivers in rows."""
    edges, weight = last_graph(result.data)
    return pair_weights(edges, weight, result.tasks.num_nodes).cpu().double()


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
        scores = [score_all(env.engine, rows, split, self.measured.metrics)[1] for split in self.measured.splits]
        for m, names in enumerate(self.measured.columns):
            for h, name in enumerate(names):
                whole = torch.full((models.num_nodes,), torch.nan, dtype=torch.float64)
                self.found[OUTSIDE + name] = whole.index_copy(0, self.sites, scores[h][m].double())

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.found)
