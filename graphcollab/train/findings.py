"""Warnings at the end of a run or of many: models that have diverged, nodes for which the metric is not defined."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from torch_geometric.data import Data

from graphcollab.checks import issue
from graphcollab.control.guard import cure, initial_bounds
from graphcollab.env import Env
from graphcollab.findings import Finding
from graphcollab.method import Method
from graphcollab.metrics import Metric
from graphcollab.metrics.scores import not_defined
from graphcollab.naming import few
from graphcollab.phases import Phases
from graphcollab.tasks import Tasks
from graphcollab.train.collapse import ALONE, SINGLE, UNIFORM
from graphcollab.train.history import History

if TYPE_CHECKING:
    from graphcollab.train.trial import Trial

DIVERGED = "diverged"
FACTOR = 10.0


def report_divergence(method: Method | Phases, data: Data, env: Env, history: History) -> None:
    """Warn, once, at a run's end, if losses are finite, but far above those of models that know nothing.

    Such are, on a node's own samples of the judged split and on those of the median node, the initial model and
    outputs of zero. It is kept as a finding. Isolated nodes have been named before; sites warn of their own each.
    """
    split = next((split for split in ("test", "val") if f"{split}_loss" in history.values), None)
    if split is None or not len(history):
        return
    loss, bound = history.final(f"{split}_loss"), initial_bounds(data, env, FACTOR, split)
    usual = bound[bound.isfinite()].median()  # on few samples losses may be near 0 by chance
    far = loss.isfinite() & (loss > bound.fmax(usual)) & ~data.isolated.cpu()
    why = {k: f"{float(loss[k]):.4g}" for k in env.plane.at_home(far.nonzero().flatten()).tolist()}
    if not env.plane.private:  # a party that comes back later finds nobody at the end of this run
        why = env.plane.texts(why)
    if not why:
        return
    names = tuple(history.names[node] for node in why)
    text = (
        f"{method.name}: its models have diverged: the {split} loss of {few(names)} is {few(list(why.values()))} after "
        f"{history.rounds[history.returned]} rounds, more than {FACTOR:g} times as much as that of the initial model "
        f"and that of outputs of zero. To mend it, {cure(env)}, or check the data"
    )
    history.findings.append(Finding(DIVERGED, "models", text, {"round": data.round, "nodes": names}))
    issue("diverged", "models", text)


def warn_once(trials: Iterable[Trial]) -> None:
    """Warn of every kind of finding once for a method, and once for all methods of models that have diverged."""
    found: dict[tuple[str, str], list[tuple[Trial, Finding]]] = {}
    for trial in trials:
        for finding in trial.findings:
            if finding.code in (ALONE, SINGLE, UNIFORM, DIVERGED):
                key = finding.code, "" if finding.code == DIVERGED else trial.method
                found.setdefault(key, []).append((trial, finding))
    for (trial, first), *others in found.values():
        setting = "".join(f", {name}={value}" for name, value in trial.setting.items())
        more = f", and in {len(others)} more trial{'s' * (len(others) > 1)}" * bool(others)
        code, subject = ("diverged", "models") if first.code == DIVERGED else ("quality", "weights")
        issue(code, subject, f"{first.message} (so it is with {trial.method}{setting} on seed {trial.seed}{more})")


def warn_of_undefined(histories: Iterable[History], metric: Metric, count: int, known: Collection[str] = ()) -> bool:
    """Name, in one warning, nodes with samples of a split but no value of the metric at a history's last evaluation.

    Nodes of ``known`` have been named before: nothing is said where there are no others. Return whether it was said.
    """
    lost: dict[str, tuple[list[str], int]] = {}
    for history in histories:
        for split in ("val", "test"):
            if found := history.undefined(split):
                nodes, fewest = lost.get(split, ([], count))
                left = int((~history.last(f"{split}_metric").isnan()).sum())
                lost[split] = [*dict.fromkeys([*nodes, *found])], min(left, fewest)
    new = any(node not in known for nodes, _ in lost.values() for node in nodes)
    if new:
        issue("quality", f"metric {metric.name!r}", not_defined(metric, lost, count))
    return new


def told_by_table(tasks: Tasks) -> list[str]:
    """Return the sites of which `Tasks.from_frame` has warned: rows of one class alone, with AUC as metric."""
    return [site for one in tasks.findings if one.code == "one-class" for site in one.numbers["sites"]]
