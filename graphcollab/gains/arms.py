"""Ways to train on one split, and their runs: alone, together, in pairs, all but one, and methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.checks import own_filter
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.gains.layout import Layout
from graphcollab.method import Method, last_graph
from graphcollab.methods import fedavg
from graphcollab.metrics import as_metric, score_rows
from graphcollab.metrics.edges import pair_weights
from graphcollab.phases import Phases
from graphcollab.tasks import Tasks
from graphcollab.train import Callback, Result, run
from graphcollab.train.start import Model
from graphcollab.typing import Env

__all__ = ["Arm", "Runs", "arm_of", "averaging", "learned_weights", "nodes_of", "runs_of"]

Runs = list[tuple[float, Result]]


@dataclass(frozen=True)
class Arm:
    """A way to train on one split: validation losses and test metrics at every evaluation, for every step size.

    Args:
        lrs: Step sizes.
        loss: Validation losses of its nodes, [S, T, n].
        score: Test metrics of them, [S, T, n].
        constant: Validation losses and test metrics of constants in their place, [n] each, if known.
    """

    lrs: Sequence[float]
    loss: Tensor
    score: Tensor
    constant: tuple[Tensor, Tensor] | None = None

    def choose(self) -> tuple[Tensor, tuple[int, int] | None]:
        """Return the scores [n] with the step size, and at the evaluation, whose mean validation loss is smallest.

        Return, too, which they are; None if constants do better than all of them.
        """
        mean = self.loss.nan_to_num(torch.inf).mean(2)
        s, t = divmod(int(mean.argmin()), mean.shape[1])
        if self.constant is not None and float(self.constant[0].mean()) <= float(mean[s, t]):
            return self.constant[1], None
        return self.score[s, t], (s, t)


def averaging(
    tasks: Tasks,
    layout: Layout,
    model: Model,
    work: Mapping[str, Any],
    lrs: Sequence[float],
    every: int,
    settings: Mapping[str, Any],
    bar: Any,
) -> dict[str, Arm]:
    """Return all that federated averaging answers: alone, together, pairs, all but one, and outside."""
    names = tuple(f"{tasks.names[site]} #{n}" for n, site in enumerate(layout.site.tolist()))
    splits = {name: split.select(layout.site) for name, split in tasks.splits.items()}
    copies = replace(tasks, splits=splits, names=names, node_id=torch.arange(len(names)), cluster=None)
    outside = _Outside(*layout.outside(), layout.alone, every, settings["rounds"])
    make = partial(fedavg, **work)
    runs = runs_of(lambda lr: make(lr=lr), lrs, bar, copies, model, layout.edge_index, callbacks=[outside], **settings)
    whole = arm_of(runs, "val_loss", "test_metric")
    places = {"alone": layout.alone, "together": layout.together}
    places |= {name: nodes_of(layout, name) for name in ("pairs", "without")}
    arms = {name: Arm(whole.lrs, whole.loss[..., nodes], whole.score[..., nodes]) for name, nodes in places.items()}
    left = layout.outside()[0]
    if len(left):
        strangers = arm_of(runs, "outside_loss", "outside_metric")
        inside = arms["without"].loss.mean(2, keepdim=True)  # a site that takes no part chooses nothing
        arms["outside"] = Arm(whole.lrs, inside, strangers.score[..., left])
    return {name: arm for name, arm in arms.items() if arm.score.shape[2]}


def nodes_of(layout: Layout, name: str) -> Tensor:
    """Return the nodes of pairs, or of groups of all but one, that are there."""
    table: Tensor = getattr(layout, name)
    return table[table >= 0]


def runs_of(
    make: Callable[[float], Method | Phases], lrs: Sequence[float], bar: Any, *args: Any, **settings: Any
) -> Runs:
    """Run a method with several step sizes; those with which a model diverges are left out, unless all are."""
    done: Runs = []
    failure: NonFiniteLossError | None = None
    for lr in lrs:
        try:
            with own_filter("ignore"):  # what runs have to say is kept, and told once
                done.append((lr, run(make(lr), *args, **settings)))
        except NonFiniteLossError as error:
            failure = error
        bar.update(1)
    if not done and failure is not None:
        failure.add_note(f"so it is with all step sizes, {list(lrs)}: give benefit smaller ones, lrs=...")
        raise failure
    return done


def arm_of(runs: Runs, loss: str, score: str) -> Arm:
    """Return what histories have of losses and scores, under these names."""
    losses, scores = (torch.stack([one.history.table(name) for _, one in runs]) for name in (loss, score))
    return Arm([lr for lr, _ in runs], losses, scores)


def learned_weights(result: Result) -> Tensor:
    """Return what every site gave every other in the last round, [K, K], receivers in rows."""
    edges, weight = last_graph(result.data)
    return pair_weights(edges, weight, result.tasks.num_nodes).cpu().double()


class _Outside(Callback):
    """Test models of all sites but one at that one, which has had no part in them."""

    def __init__(self, sites: Tensor, models: Tensor, nodes: Tensor, every: int, rounds: int) -> None:
        self.sites, self.models, self.nodes, self.every, self.rounds = sites, models, nodes, every, rounds
        self.found: dict[str, Tensor] = {}

    def after_learning(self, method: Method, data: Data, env: Env) -> None:
        played = data.round + 1
        if len(self.sites) and (played % self.every == 0 or played == self.rounds):
            rows = Rows(data.x, self.nodes[self.sites], self.models)
            found = score_rows(env.engine, rows, "test", as_metric(env.engine.tasks.metric))
            for name, values in zip(("outside_loss", "outside_metric"), found, strict=True):
                whole = torch.full((data.num_nodes,), torch.nan, dtype=torch.float64)
                self.found[name] = whole.index_copy(0, self.sites, values.double())

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.found)
