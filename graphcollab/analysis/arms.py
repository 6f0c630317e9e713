"""Ways to train on one split (arms), and their runs: alone, together, in pairs, all but one, and methods."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.checks import own_filter
from graphcollab._base.naming import setting
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.scores import score_all
from graphcollab.components import Env
from graphcollab.data.losses import predicted_by
from graphcollab.data.tasks import Tasks
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train import Callback, Result, WatchMetrics
from graphcollab.train.graph_input import Graph
from graphcollab.train.run import run
from graphcollab.train.start import Model

Make = Callable[..., Method | Phases]
Setting = Mapping[str, Any]

WILD = 10.0  # a validation loss is wild above this multiple of the usual loss at the site, and at the median site


@dataclass(frozen=True)
class Measured:
    """M test metrics, the tasks' own first, on H splits, ``"test"`` first."""

    metrics: tuple[Metric, ...]
    splits: tuple[str, ...]

    @property
    def columns(self) -> list[list[str]]:
        """Column names in a history, [M][H]."""
        own = {("test", self.metrics[0].name): "test_metric"}
        return [
            [own.get((split, metric.name), f"{split}_{metric.name}") for split in self.splits]
            for metric in self.metrics
        ]

    @property
    def callbacks(self) -> list[WatchMetrics]:
        """New observers that record metrics which evaluations do not record."""
        more, others = self.metrics[1:], self.splits[1:]
        return [*([WatchMetrics(more)] if more else []), *([WatchMetrics(self.metrics, others)] if others else [])]


@dataclass(frozen=True)
class Arm:
    """A way to train on one split: validation ``loss`` [S, T, n] and test ``score`` [M, H, S, T, n] of n nodes.

    S is the number of ``settings``, each the name of a model and a method's settings, and T the number of evaluations.
    ``constant``, if known, has validation losses [n] and test metrics [M, H, n] of constants. With ``classes``, losses
    have the same scale at all nodes.
    """

    settings: Sequence[tuple[str, Setting]]
    loss: Tensor
    score: Tensor
    constant: tuple[Tensor, Tensor] | None = None
    classes: bool = False

    def usual(self) -> Tensor:
        """Return the median over settings and evaluations of every node's validation loss, [n]."""
        return self.loss.flatten(0, 1).nan_to_num(torch.inf).median(0).values

    def choose(self, usual: Tensor) -> tuple[Tensor, tuple[int, int] | None]:
        """Return the scores [M, H, n] at the setting and evaluation with the best validation loss, and this choice.

        The choice is None if constants do better, also by mean loss. One choice is made for all nodes, since separate
        choices are worse with few validation samples: the smallest mean loss. For real targets, losses are divided by
        the usual loss at the site, or at the median site if that is larger, so that sites with other units have the
        same influence. Choices with fewer wild losses (`WILD`) come first. ``usual`` [n] is that of training alone.
        """
        mean, plain = regret(self.loss, usual, self.classes), self.loss.nan_to_num(torch.inf).mean(-1)  # [S, T]
        s, t = divmod(int(mean.argmin()), mean.shape[1])
        if self.constant is not None:
            flat, scores = self.constant
            if bool(regret(flat, usual, self.classes) <= mean[s, t]) and bool(flat.mean() <= plain[s, t]):
                return scores, None
        return self.score[:, :, s, t], (s, t)

    def select(self, nodes: Tensor) -> Arm:
        """Return the arm restricted to the given nodes."""
        return replace(self, loss=self.loss[..., nodes], score=self.score[..., nodes])


def regret(loss: Tensor, usual: Tensor, classes: bool) -> Tensor:
    """Return a mean over nodes of losses [..., n], [...], where smaller is better; see `Arm.choose`."""
    if classes or bool((loss < 0).any()):
        return loss.nan_to_num(torch.inf).mean(-1)
    times = torch.where(loss == 0, 0, loss / torch.maximum(usual, usual.median()))
    wild = ~(times <= WILD)  # includes non-finite losses
    return times.nan_to_num(WILD).clamp(max=WILD).mean(-1) + WILD * wild.sum(-1)


@dataclass(frozen=True)
class Runs:
    """Runs of one way to train, with the settings for which no model diverged."""

    settings: list[tuple[str, Setting]]
    results: list[Result]
    measured: Measured

    @classmethod
    def play(
        cls,
        make: Make,
        models: Mapping[str, Model],
        points: Sequence[Setting],
        measured: Measured,
        tick: Callable[[], object],
        tasks: Tasks,
        graph: Graph = None,
        callbacks: Sequence[Callback] = (),
        **settings: Any,
    ) -> Runs:
        """Run a method with every model and setting; raise an error if all of them diverge."""
        done, results = [], []
        failure: NonFiniteLossError | None = None
        for name, point in itertools.product(models, points):
            try:
                with own_filter("ignore"):  # findings of runs are kept and reported once
                    watch = [*callbacks, *measured.callbacks]
                    results.append(run(make(**point), tasks, models[name], graph, callbacks=watch, **settings))
                done.append((name, point))
            except NonFiniteLossError as error:
                failure = error
            tick()
        if not done and failure is not None:
            sizes = ", ".join(dict.fromkeys(f"{point['lr']:g}" for point in points))
            also = f" (as with all step sizes, {sizes}; smaller ones are given by {setting(lrs=...)})"
            raise NonFiniteLossError(failure.subject, getattr(failure, "reason", str(failure)) + also) from failure
        return cls(done, results, measured)

    def table(self, name: str) -> Tensor:
        """Return a column of the histories, [S, T, n]."""
        return torch.stack([one.history.table(name) for one in self.results])

    def scores(self, prefix: str = "") -> Tensor:
        """Return test metrics, [M, H, S, T, n], from history columns with a prefix."""
        columns = self.measured.columns
        return torch.stack([torch.stack([self.table(prefix + name) for name in some]) for some in columns])

    def arm(self) -> Arm:
        """Return the runs as an arm over all nodes."""
        classes = predicted_by(self.results[0].tasks.loss) == "classes"
        return Arm(self.settings, self.table("val_loss"), self.scores(), classes=classes)


OUTSIDE = "outside "


class Outside(Callback):
    """Test the models trained by all sites but one at the site that was left out."""

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

        scores = env.plane.evaluate_at(rows, scored, to="public")
        for m, names in enumerate(self.measured.columns):
            for h, name in enumerate(names):
                whole = torch.full((env.engine.tasks.num_nodes,), torch.nan, dtype=torch.float64)
                self.found[OUTSIDE + name] = whole.index_copy(0, self.sites, scores[:, h, m])

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.found)
