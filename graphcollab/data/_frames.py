"""Tasks from a table: split its rows and transform them with statistics of the training rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.errors import ConflictError, InvalidValueError, TooFewError, UnsupportedError
from graphcollab._base.naming import few, setting
from graphcollab.data._events import of_few_events
from graphcollab.data._fit import Seen
from graphcollab.data._rows import Rows, TableSettings, as_agreed, facts_of, read_rows, refuse_many
from graphcollab.data._sites import SAMPLES, Draw
from graphcollab.data._values import factorized
from graphcollab.data.losses import LOSSES, predicted_by
from graphcollab.data.metric_fit import refuse_misfit
from graphcollab.data.preparation import Column, Preparation
from graphcollab.data.quality import of_columns
from graphcollab.data.quality_of_leaks import of_leaks
from graphcollab.data.quality_of_samples import of_frequent_class, of_one_class, of_repeats
from graphcollab.data.quality_of_values import of_codings, of_many_classes, of_spellings, warn_of
from graphcollab.data.samples import Pool
from graphcollab.data.statistics import Counts, Statistics


def tasks_of_table(
    make: Callable[..., Any],
    frame: Any,
    settings: TableSettings,
    draw: Draw,
    loss: Any,
    metric: Any,
    statistics: Statistics,
) -> Any:
    """Make `Tasks` from the rows of a table, with newly fitted or existing columns; see `from_frame`."""
    rows = read_rows(frame, settings, draw)
    rows, real, different = statistics.agree(facts_of(rows, loss), partial(_agreed, rows, loss, metric))
    loss, metric = judged_by(real, loss, metric)
    rows = replace(rows, how=replace(rows.how, standardize_target=rows.how.standardize_target or loss == "poisson"))
    how, sites, values, target = rows.how, rows.sites, rows.values, rows.how.target
    may_train = rows.draw.may_train(sites)
    classes = factorized(values)[1] if rows.events is None else rows.events
    known = not real or rows.events is not None
    kinds = torch.from_numpy(classes.astype(np.int64)) if known else None
    splits = rows.draw.divide(sites, kinds, rows.groups, table=True)
    found = [*rows.left_out, *of_spellings(f"column {how.node!r}, which names the sites,", sites.names)]
    if how.preparation is None:
        found += of_columns(rows.read, rows.categorical, target, values, sites.owner.numpy(), sites.names, rows.groups)
        if how.event is not None and rows.events is not None:
            found += of_leaks(rows.read, how.event, rows.events, rows.groups, "the event")
    seen = Seen(rows, splits["train"] if statistics.alone else may_train, real)
    prepared, counts = _prepared(seen, statistics, loss, metric)
    if loss == "poisson" and counts is not None:  # the scale is the mean count
        zeros, scale = (0.0,) * len(prepared.target.mean), 1.0 if how.per_site else prepared.target.mean[0] or 1.0
        whole = replace(prepared.target, mean=zeros, deviation=tuple(1.0 for _ in zeros))
        prepared = replace(prepared, target=whole, scale=scale)
    if counts is not None:
        found += seen.spellings(prepared)
    if different:
        found += of_many_classes(target, max(different, len(prepared.target.categories or ())))
    place = prepared.places(sites.names)[sites.owner.numpy()]
    targets = prepared.target.targets(values, place, sites.at)
    if loss == "bce":
        targets = targets.float()
    if how.event is not None and rows.events is not None:
        targets = torch.stack([targets, torch.from_numpy(rows.events).float()], 1)
        found += of_few_events(how.event, sites.names, sites.owner.numpy(), rows.events)
    inputs = prepared.encode(rows.read, place, sites.at)
    pool = Pool(inputs, targets, rows.weights, rows.groups, torch.from_numpy(rows.place))
    prepared = replace(prepared, group=how.group if isinstance(how.group, str) else None)
    more = {"preparation": prepared, "split_given": rows.draw.words is not None, "scale": prepared.scale}
    index = splits["train"].index
    own = None if rows.weights is None else rows.weights[index]
    more["class_weight"] = _class_weights(how.class_weight, prepared, targets[index], own, statistics.alone)
    own = make({SAMPLES: pool}, splits, sites.names, loss, metric, sites.node_id, **more)
    tasks = statistics.union(own, may_train)
    for one in prepared.columns:
        if how.preparation is not None or one.name in how.declared:
            found += one.findings(rows.read[one.name], place)
    found += of_repeats({SAMPLES: pool}, splits, sites.names, "site")
    if len(prepared.classes) == 1:
        _refuse_one_class(target, prepared.classes[0], statistics.complete)
    elif metric == "auc":
        found += of_one_class(sites.names, splits.values(), targets)
    elif metric == "accuracy" and statistics.alone:  # needs the class shares of all rows
        found += of_frequent_class(prepared.classes, targets)
    if counts is not None:
        found += of_codings(tasks.names, counts.rows.tolist(), counts.names, target)
    warn_of(found)
    return replace(tasks, findings=tuple(found))


def _agreed(rows: Rows, loss: Any, metric: Any, facts: Sequence[Mapping[str, Any]]) -> tuple[Rows, bool, int]:
    """Return the agreed rows, whether targets are real, and otherwise how many integers may be classes."""
    how, target = rows.how, rows.how.target
    real = any(one["amounts"] for one in facts)
    different = 0 if real else max(one["different"] for one in facts)
    refuse_many(target, different)
    untouched = predicted_by(loss) in ("counts", "times")
    if how.preparation is not None and not how.refit:
        _require_fit(how.preparation.target, *judged_by(real, loss, metric))
    elif how.preparation is None and how.standardize_target and (untouched or not real):
        why = f"{setting(loss=loss)} reads targets as they are: leave it out"
        if not untouched:
            mse = setting(loss="mse")
            why = f"the targets in column {target!r} are classes: leave it out, or give {mse} if they are amounts"
        raise ConflictError("standardize_target", f"{setting(standardize_target=True)} is for amounts, and {why}")
    return as_agreed(rows, facts), real, different


def _prepared(seen: Seen, statistics: Statistics, loss: Any, metric: Any) -> tuple[Preparation, Counts | None]:
    """Return the given preparation, or the one fitted to the rows together with the counts it was fitted to."""
    if seen.how.preparation is not None and not seen.how.refit:
        return replace(seen.how.preparation, floats_per_site=0), None  # these sites share nothing

    def fitted(told: Counts) -> tuple[Preparation, Counts]:
        prepared = seen.preparation(told)
        _require_fit(prepared.target, loss, metric)
        return prepared, told

    return statistics.pool(seen.count(), fitted)


def judged_by(real: bool, loss: Any, metric: Any) -> tuple[Any, Any]:
    """Return loss and metric, with defaults for real values or classes if not given."""
    loss = ("mse" if real else "cross_entropy") if loss is None else loss
    usual = LOSSES[loss].metric if isinstance(loss, str) else "mae" if real else "accuracy"
    return loss, usual if metric is None else metric


def _class_weights(
    given: Any, prepared: Preparation, labels: Tensor, weight: Tensor | None, alone: bool
) -> tuple[float, ...]:
    """Return the weight of every class, [C], from the argument and the labels and weights of all training rows [n]."""
    classes = prepared.classes
    if given is None:
        return ()
    if not classes:
        raise ConflictError(
            "class_weight",
            f"class_weight= is for classes, and column {prepared.target.name!r} has amounts: leave it out",
        )
    if given == "balanced":
        if not alone:
            raise UnsupportedError(
                "class_weight",
                f"sites do not tell the counts that {setting(class_weight='balanced')} needs: give a weight by class",
            )
        counts = torch.bincount(labels.long(), weight, minlength=len(classes)).double()
        return tuple((counts.sum() / (counts > 0).sum() / counts).where(counts > 0, 1.0).tolist())
    if unknown := [one for one in given if one not in classes]:
        raise InvalidValueError(
            "class_weight", f"class_weight= names {unknown[0]!r}, and the classes are {few([*map(repr, classes)])}"
        )
    found = tuple(float(given.get(one, 1.0)) for one in classes)
    if not all(0 < one < math.inf for one in found):
        raise InvalidValueError("class_weight", f"class_weight= must be finite numbers above 0, got {given}")
    return found


def _refuse_one_class(target: str, one: Any, complete: bool) -> None:
    """Reject targets that are all equal, or only warn if other sites may have other values."""
    if complete:
        raise TooFewError(
            f"column {target!r}", f"column {target!r} has one class only, {str(one)!r}: add rows of another class"
        )
    issue(
        "quality",
        f"column {target!r}",
        f"all rows have the target {one!r} in column {target!r}: nothing can be learned unless other sites have "
        "another class",
    )


def _require_fit(target: Column, loss: Any, metric: Any) -> None:
    """Check that the number of classes fits loss and metric; a single class passes."""
    if target.categories is None or len(target.categories) == 1:
        return
    if loss == "bce" and len(target.categories) != 2:
        raise ConflictError(
            "loss",
            f"{setting(loss='bce')} is for two classes, and column {target.name!r} has {len(target.categories)}: use "
            f"{setting(loss='cross_entropy')}",
        )
    if isinstance(metric, str):
        has = f"column {target.name!r} has {len(target.categories)}, {few(target.categories)}"
        refuse_misfit(metric, loss, torch.arange(len(target.categories)), has)
