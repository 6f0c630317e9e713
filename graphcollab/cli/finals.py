"""Final models of commands: fitted to all rows, calibrated by validation rows, and saved with what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.checks import issue, own_filter
from graphcollab._base.errors import ConflictError, MissingError
from graphcollab.analysis import Benefit, Comparison
from graphcollab.analysis.calibration import balanced_threshold, fit_temperature
from graphcollab.analysis.constants import constants
from graphcollab.analysis.evidence import Choice
from graphcollab.analysis.final import Final, needed, with_all_rows
from graphcollab.analysis.metrics import as_metric
from graphcollab.analysis.metrics.scores import score_rows
from graphcollab.analysis.trial import Trial
from graphcollab.analysis.trials import Contestant
from graphcollab.cli.data import tasks_for
from graphcollab.cli.folder import tell
from graphcollab.cli.options import compute_of
from graphcollab.cli.predicting import MODELS
from graphcollab.data.datasets.catalog import DATASETS
from graphcollab.data.losses import constant_of, predicted_by
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Rows
from graphcollab.methods import fedavg, local
from graphcollab.persistence.answers import Answers
from graphcollab.report.benefit_answer import benefit_findings
from graphcollab.train import Result
from graphcollab.train.start import candidates

CLEARLY = 0.01  # by which share of a constant's metric a model is worse on its own rows before it is said
Told = dict[Path, str]
"""What is to be said of folders of saved models."""


def require_savable(asked: Mapping[str, Any], read: bool = False) -> None:
    """Check what is said of saving models, before any work; ``read``: to calibrate them, or by which threshold."""
    if asked["save"] and not asked["out"]:
        raise MissingError("out", "--save saves models in the folder of --out: name it")
    if not read:
        return
    if not asked["save"]:
        raise MissingError("save", "--calibrate and --threshold are for saved models: give --save and --out, too")
    if asked["threshold"] != "balanced":
        Answers("binary", threshold=asked["threshold"])  # refuses what is none
    tasks = tasks_for(str(asked["data"]), asked)(asked["seeds"][0])
    if predicted_by(tasks.loss) != "classes":
        raise ConflictError("calibrate" if asked["calibrate"] else "threshold", "amounts have no probabilities")
    if asked["threshold"] != 0.5 and (tasks.preparation is None or len(tasks.preparation.classes) != 2):
        raise ConflictError("threshold", "a threshold divides two classes, and these tasks have others")
    tasks.require("val", "--calibrate and --threshold need")


def validation_of(result: Result) -> tuple[Tensor, Tensor]:
    """Return what models say of all validation rows, and these rows' targets."""
    tasks, split = result.tasks, result.tasks.splits["val"]
    pool = tasks.pools[split.pool]
    outputs = [result.outputs(k, pool.inputs[split.of(k)]).cpu() for k in range(tasks.num_nodes)]
    return torch.cat(outputs), pool.targets[split.index].cpu()


def save_of_comparison(
    found: Comparison, validation: Sequence[tuple[Trial, tuple[Tensor, Tensor]]], out: Path, asked: Mapping[str, Any]
) -> Told:
    """Save final models of every method, given `validation_of` trials where it says how outputs are to be read."""
    told: Told = {}
    some = next(iter(found.results.values()))
    flat, constant = constant_of(some.tasks.loss), {s: _constant(_drawn(asked, s)) for s in asked["seeds"]}
    for name, last in found.results.items():
        trials = [one for one in found.chosen[name] if not one.failure]
        tasks = _all_rows(asked, found.chosen[name][-1].seed, last.method)
        known = {"constant": torch.stack([constant[one.seed] for one in trials]), "flat": flat}
        read = _reading([both for trial, both in validation if trial in trials], asked) if validation else {}
        told |= _save(name, partial(found.final, name, tasks, **known), out, read)
    return told


def _reading(own: Sequence[tuple[Tensor, Tensor]], asked: Mapping[str, Any]) -> dict[str, float]:
    """Return the temperature and the threshold by which validation rows of all seeds are read best."""
    outputs, targets = map(torch.cat, zip(*own, strict=True))
    temperature, threshold = fit_temperature(outputs, targets) if asked["calibrate"] else 1.0, asked["threshold"]
    if threshold == "balanced":
        margin = outputs.flatten() if targets.is_floating_point() else outputs[:, 1] - outputs[:, 0]
        threshold = balanced_threshold((margin / temperature).sigmoid(), targets == 1)
    return {"temperature": temperature, "threshold": threshold}


def _drawn(asked: Mapping[str, Any], seed: int, **held: float) -> Tasks:
    with own_filter("ignore", code="quality"):  # said before
        return tasks_for(str(asked["data"]), {**asked, **held})(seed)


def _all_rows(asked: Mapping[str, Any], seed: int, method: Any) -> Tasks:
    """Return tasks with all rows for training, but for validation rows that a method needs."""
    if str(asked["data"]) in DATASETS or asked["split"] is not None:
        return with_all_rows(_drawn(asked, seed), needed(method))
    held = {} if "val" in needed(method) else {"val_fraction": 0.0}
    return _drawn(asked, seed, test_fraction=0.0, **held)


def _save(name: str, fit: Callable[[], Final], out: Path, read: Mapping[str, float]) -> Told:
    try:
        with own_filter("ignore"):  # what there is to say of runs was said of trials
            final = fit()
    except ArithmeticError as error:
        issue("diverged", f"method {name!r}", f"{name} diverged on all rows, and no models of it are saved: {error}")
        return {}
    final = replace(final, misfits=_misfits(final.result))
    folder = final.save(out / MODELS / name, **read)
    told = f"Models of {name} in {folder}: {final.how}.{f' Warning: {final.warning}.' * bool(final.warning)}"
    tell(f"\n{told}")
    return {folder: told}


def _misfits(result: Result) -> list[str]:
    """Return the sites whose models are worse than a constant on their own training samples."""
    tasks, metric = result.tasks, as_metric(result.tasks.metric)
    flat = _constant(replace(tasks, splits=dict.fromkeys(("train", "val", "test"), tasks.splits["train"])))
    sign = 1 if metric.higher_is_better else -1
    found = score_rows(result.env.engine, Rows.own(result.stacks), "train", metric)[1].cpu()
    worse = sign * (found - flat) < -CLEARLY * flat.abs()
    return [name for name, bad in zip(tasks.names, worse.tolist(), strict=True) if bad]


def _constant(tasks: Tasks) -> Tensor:
    """Return test metrics of constants, [K]: it is known what they say by every loss that commands have."""
    found = constants(tasks, [as_metric(tasks.metric)], ["test"])
    assert found is not None
    return found[1][0, 0]


def chosen_most(picked: Iterable[Choice | None]) -> Choice | None:
    """Return the model chosen most often on splits, its settings chosen most often, and their median rounds."""
    done = [*filter(None, picked)]
    if not done:
        return None
    model, _ = Counter(one.model for one in done).most_common(1)[0]
    point, _ = Counter(tuple(one.setting.items()) for one in done if one.model == model).most_common(1)[0]
    setting = dict(point)
    rounds = [one.rounds for one in done if (one.model, one.setting) == (model, setting)]
    return Choice(model, setting, round(median(rounds)))


def save_of_benefit(found: Benefit, made: Mapping[str, Any], models: Any, out: Path, asked: Mapping[str, Any]) -> Told:
    """Save final models of what the answer advises (alone, if it is open), by the settings that were chosen most."""
    told: Told = {}
    advice, arms, makers = benefit_findings(found)[-1], ["alone"], {"alone": local, "together": fedavg, **made}
    if advice.subject == "collaborate":
        arms = [advice.numbers["by"], *(["alone"] if advice.numbers["alone"] else [])]
    elif advice.subject == "likely":
        arms.append(advice.numbers["by"])
    for arm in arms:
        picked = chosen_most(found.picked[arm])
        if picked is None:
            issue(
                "nothing", arm, f"no models are saved: {found.flat} did better than those trained {arm} on all splits"
            )
            continue
        model, point = picked.model, picked.setting
        local_steps = {name: asked[name] for name in ("epochs", "batch_size")}
        one = Contestant(arm, 0, {**point, **local_steps}, makers[arm], candidates(models)[model])
        play = partial(one.play, {"compute": compute_of(asked)}, asked["seed"])
        setting = {**({"model": model} if model else {}), **point}
        known: dict[str, Any] = {"metric": found.metric, "test": found.scores[arm], "setting": setting}
        known |= {"constant": found.constant, "flat": found.flat, "geometric": found.relative}
        tasks = _all_rows(asked, asked["seed"], one.method())
        told |= _save(arm, partial(Final.fit, play, tasks, picked.rounds, **known), out, {})
    return told
