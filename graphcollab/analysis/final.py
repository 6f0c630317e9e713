"""`Final`: models fitted to all rows with the choices of a comparison, and a shared one for sites without a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.naming import few
from graphcollab.analysis.arms import regret
from graphcollab.analysis.trial import SHARES
from graphcollab.components import Exchange, Fit, ThroughServer
from graphcollab.data.losses import predicted_by
from graphcollab.data.samples import Pool, Split
from graphcollab.data.tasks import Tasks
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.persistence.save_models import save_models
from graphcollab.train.result import Result

Play = Callable[..., Result]
"""Runs tasks for some rounds with the chosen settings, or with another ``method`` without a graph."""


@dataclass(frozen=True)
class Final:
    """Models fitted to all rows, with none held out to test them: scores are of similar models fitted to fewer rows.

    Args:
        result: The run on all rows.
        shared: Parameters of one model for all sites, for sites without their own, [P]; None if there is none.
        metric: The metric of the comparison.
        test: Test metric of every site by similar models of fewer rows, on S splits, [S, K].
        constant: Test metric of a constant, likewise, if known.
        flat: Description of the constant.
        setting: The chosen settings.
        misfits: Sites whose models are worse than a constant on the samples they were fitted to.
        geometric: Whether means over splits are geometric, as for errors in a benefit.
    """

    result: Result
    shared: Tensor | None = field(repr=False)
    metric: str
    test: Tensor = field(repr=False)
    constant: Tensor | None = field(default=None, repr=False)
    flat: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict)
    misfits: Sequence[str] = ()
    geometric: bool = False

    @classmethod
    def fit(cls, play: Play, tasks: Tasks, rounds: int, **known: Any) -> Final:
        """Fit models to the training samples of tasks, and one for all sites by the same steps with averaging.

        The last round's models may be poor: models are kept from the round, in the second half of training, with the
        smallest loss on training samples, or on the validation samples if the method needs them. Nodes that diverge
        keep their last good model.
        """
        if "val" not in tasks.splits or not int(tasks.sizes("val").sum()):
            tasks = replace(tasks, splits={**tasks.splits, "val": tasks.splits["train"]})
        result = play(tasks, rounds)
        if (best := _settled(result)) < rounds:
            result = play(tasks, best)
        return cls(result, _shared(result, play, tasks, rounds), **known)

    def save(self, folder: str | Path, temperature: float = 1.0, threshold: float = 0.5) -> Path:
        """Write the models as `Result.save` does, with the shared one, and describe in ``about`` how they were made.

        Args:
            folder: See `Result.save`.
            temperature: Divisor of the logits before they are converted to probabilities (`fit_temperature`).
            threshold: The second of two classes is predicted if its probability is higher (`balanced_threshold`).
        """
        read, one = {"temperature": temperature, "threshold": threshold}, self.result
        about = {**one.about(), "best": None, "made": "; ".join([self.how, *_as_read(**read)]), "warning": self.warning}
        known = {name: values.tolist() for name, values in self._means().items()}
        means = {name: [None if math.isnan(v) else v for v in values] for name, values in known.items()}
        about |= {"rows": int(one.tasks.sizes("train").sum()), "setting": dict(self.setting), "means": means}
        return save_models(folder, one.stacks, one.modules, one.tasks, one.graph(), about, self.shared, read)

    @property
    def how(self) -> str:
        """How the models were made, and the quality of such models."""
        rows, held = (int(self.result.tasks.sizes(split).sum()) for split in ("train", "val"))
        held *= not torch.equal(*(self.result.tasks.splits[split].index for split in ("train", "val")))
        rounds = int(self.result.data.round)
        own = f", {held} of them to learn weights by," * bool(held)
        by = "".join(f", {name} {value}" for name, value in self.setting.items() if value is not None)
        both = [float(self._over_splits(one.nanmean(1))) for one in self._tested().values()]  # as in tables
        told = [f"{100 * one:.2f} %" if self.metric in SHARES else f"{one:.4g}" for one in both]
        than = f" ({self.flat}: {told[-1]})" * (len(told) > 1)
        splits = f"{len(self.test)} test split{'s' * (len(self.test) > 1)}"
        mean = "geometric mean" if self.geometric else "mean"
        tested = f"; such models of fewer rows had on {splits} a {mean} {self.metric} of {told[0]}{than}"
        return f"fitted to all {rows + held} rows{own} in {rounds} round{'s' * (rounds > 1)}{by}{tested}"

    @property
    def warning(self) -> str:
        """Warning if models are no better than constants, on rows they were fitted to or on test rows; else empty."""
        wild = f"on the rows that they were fitted to, models of {few([*self.misfits])} are worse than {self.flat}"
        told, sign = [wild] * bool(self.misfits), 1 if self.result.history.higher_is_better else -1
        test, *constant = (sign * one for one in self._means().values())
        for flat in constant:
            where = [self.result.tasks.names[k] for k in (test <= flat).nonzero().flatten().tolist()]
            overall = "in the mean over sites, and " * bool(test.nanmean() <= flat.nanmean())
            at = f"{overall}at {len(where)} of {len(test)} sites ({few(where)})"
            told += [f"on test rows such models were no better in {self.metric} than {self.flat} {at}"] * bool(where)
        return "; ".join(told)

    def _tested(self) -> dict[str, Tensor]:
        """Return the known scores of every split, [S, K]."""
        both = {"test": self.test} | ({} if self.constant is None else {"constant": self.constant})
        return {name: values.double() for name, values in both.items()}

    def _means(self) -> dict[str, Tensor]:
        """Return means over splits, [K]."""
        return {name: self._over_splits(values) for name, values in self._tested().items()}

    def _over_splits(self, values: Tensor) -> Tensor:
        return values.log().nanmean(0).exp() if self.geometric else values.nanmean(0)


def _settled(result: Result) -> int:
    """Return the round, in the second half, with the smallest validation losses over all nodes."""
    loss, rounds = result.history.table("val_loss"), result.history.rounds
    late = [t for t, round_ in enumerate(rounds) if 2 * round_ >= rounds[-1]]
    classes = predicted_by(result.tasks.loss) == "classes"
    return rounds[late[int(regret(loss[late], loss.nan_to_num(torch.inf).median(0).values, classes).argmin())]]


def with_all_rows(tasks: Tasks, held: Collection[str] = ()) -> Tasks:
    """Return tasks with all samples of every node for training, in one pool, except those of the held-out splits."""
    nodes = torch.arange(tasks.num_nodes)
    tasks.require_here(nodes, ", which cannot put them together: give a function that makes tasks")
    starts = dict(zip(tasks.pools, accumulate(map(len, tasks.pools.values()), initial=0), strict=False))
    into, splits = {name: name if name in held else "train" for name in tasks.splits}, {}
    for new in dict.fromkeys(["train", *into.values()]):
        some = [(tasks.splits[name], starts[tasks.splits[name].pool]) for name in into if into[name] == new]
        lists = [torch.cat([split.of(node) + start for split, start in some]).unique() for node in nodes.tolist()]
        splits[new] = Split.from_lists("all", lists)
    return replace(tasks, pools={"all": Pool.joined([*tasks.pools.values()])}, splits=splits, split_given=False)


def needed(method: Method | Phases) -> set[str]:
    """Return the splits from which a method learns in addition to its training samples."""
    return {split for piece in method.walk() for split in piece.needs}


def _as_read(temperature: float, threshold: float) -> list[str]:
    scaled = [f"logits are divided by {temperature:.3g}"] * (temperature != 1)
    return scaled + [f"the second class is predicted above a probability of {threshold:.3g}"] * (threshold != 0.5)


def _shared(result: Result, play: Play, tasks: Tasks, rounds: int) -> Tensor | None:
    stacks, own = result.stacks, result.stacks.tensors[0]
    steps = next((one for one in result.method.walk() if isinstance(one, LocalSteps)), None)
    if len(stacks.specs) > 1 or (tasks.preparation is not None and tasks.preparation.sites) or steps is None:
        return None
    if bool((own == own[0]).all()):
        return own[0]
    local = Fit(steps.epochs, steps.steps, steps.batch_size, steps.optimizer)
    together = Method("all sites", local, exchange=Exchange(buffers="average", route=ThroughServer()))
    return play(tasks, rounds, together).stacks.tensors[0][0]
