"""Training on one split of the samples, and the recorded results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab._base.naming import numbered
from graphcollab.analysis.arms import OUTSIDE, Arm, Make, Measured, Outside, Runs, Setting
from graphcollab.analysis.baseline import Baseline, baseline_scores
from graphcollab.analysis.constants import constants
from graphcollab.analysis.evidence import Choice
from graphcollab.analysis.layout import Layout
from graphcollab.data._sites import name_ids
from graphcollab.data.losses import predicted_by
from graphcollab.data.tasks import Tasks
from graphcollab.methods import fedavg
from graphcollab.train.start import Model, build_modules, for_tasks

PROPER = ("log_loss", "brier")
"""Classification metrics for which constants may replace models if no other metrics are used: by loss, constants often
beat models with a higher accuracy, and training alone would look worse than it is."""


@dataclass
class Played:
    """The results of one split: test metrics of arms and baselines, [M, H, n], choices, findings and weights."""

    scores: dict[str, Tensor] = field(default_factory=dict)
    picked: dict[str, Choice | None] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """The training on every split, with settings that can be sent to another process; ``work``: epochs and batch size.

    Every arm uses the best of ``models``, by name if there are several, and every method the best of its ``points``.
    """

    layout: Layout
    models: Mapping[str, Model]
    methods: Mapping[str, Make]
    points: Mapping[str, Sequence[Setting]]
    work: Mapping[str, Any]
    lrs: Sequence[float]
    measured: Measured
    settings: Mapping[str, Any]
    baseline: Baseline = None

    def play(self, given: tuple[Tasks, int], tick: Callable[[], object] = lambda: None) -> Played:
        """Train every arm on a split, given with its seed, and choose by validation data."""
        split, seed = given
        models = {name: for_tasks(model, split) for name, model in self.models.items()}
        settings = {**self.settings, "seed": seed}

        def played_by(make: Make, points: Sequence[Setting], *given: Any) -> Runs:
            return Runs.play(partial(make, **self.work), models, points, self.measured, tick, *given, **settings)

        arms = self._averaging(split, partial(played_by, fedavg, [{"lr": lr} for lr in self.lrs]))
        usual = arms["alone"].usual()
        runs = {name: played_by(make, self.points[name], split) for name, make in self.methods.items()}
        arms |= {name: many.arm() for name, many in runs.items()}
        module = build_modules(next(iter(models.values())), seed)[0]
        flat = constants(split, self.measured.metrics, self.measured.splits, output_shape(module, split))
        judged = predicted_by(split.loss) in ("amounts", "counts") or all(
            one.name in PROPER for one in self.measured.metrics
        )
        played = Played()
        if flat is not None:
            played.scores["constant"] = flat[1]
        if self.baseline is not None:
            played.scores |= baseline_scores(split, self.measured.metrics, self.measured.splits)
        for name, arm in arms.items():
            sites = self._sites("without" if name == "outside" else name)
            if flat is not None and judged and name != "outside":
                arm = replace(arm, constant=(flat[0][sites], flat[1][..., sites]))
            played.scores[name], at = arm.choose(usual[sites])
            played.picked[name] = None
            if at is not None:
                rounds = min((at[1] + 1) * self.settings["evaluate_every"], self.settings["rounds"])
                played.picked[name] = Choice(*arm.settings[at[0]], rounds)
            if name in runs:
                last = runs[name].results[0 if at is None else at[0]]
                played.findings[name] = ", ".join(found.code for found in last.history.findings)
                if last.method.last(last.data.round).exchange.along_edges:
                    played.weights[name] = last.graph().matrix()
        return played

    def _averaging(self, tasks: Tasks, play: Callable[..., Runs]) -> dict[str, Arm]:
        """Return all arms trained by federated averaging: alone, together, pairs, all but one, and outside."""
        layout = self.layout
        sites = [f"site {name}" for name in tasks.names] if numbered(tasks.names) else tasks.names
        outside = Outside(*layout.outside(), layout.alone, self.measured)
        splits = {name: split.select(layout.site) for name, split in tasks.splits.items()}
        ids = name_ids(layout.names(tasks.names))
        ids[layout.alone] = tasks.ids  # alone, sites see the same batches as in methods
        told = None if tasks.told is None else tasks.told[layout.site]
        more: dict[str, Any] = {"names": layout.names(sites), "node_id": ids, "cluster": None, "told": told}
        runs = play(replace(tasks, splits=splits, **more), layout.edge_index, [outside])
        every = runs.arm()
        nodes = {name: layout.nodes(name) for name in ("alone", "together", "pairs", "without")}
        arms = {name: every.select(some) for name, some in nodes.items() if len(some)}
        if len(outside.sites):  # a site that does not participate chooses nothing
            arms["outside"] = replace(arms["without"], score=runs.scores(OUTSIDE)[..., outside.sites])
        return arms

    def _sites(self, arm: str) -> Tensor:
        """Return the sites whose models an arm trains, [n]."""
        return self.layout.site[self.layout.nodes(arm if arm in ("pairs", "without") else "alone")]


@torch.no_grad()
def output_shape(module: nn.Module, tasks: Tasks) -> tuple[int, ...]:
    """Return the shape of a model's output for one sample."""
    split = tasks.splits["train"]
    inputs = tasks.pools[split.pool].inputs[split.here[:1]]
    return tuple(module.eval()(inputs.to(next(module.parameters()).device)).shape[1:])
