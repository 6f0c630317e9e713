"""Tasks of a table: its rows divided, and prepared by what their training rows say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from graphcollab.checks import issue
from graphcollab.errors import ConflictError, TooFewError
from graphcollab.findings import Finding
from graphcollab.naming import few
from graphcollab.tasks import doubts
from graphcollab.tasks._fit import Fit, Seen
from graphcollab.tasks._others import Counts, T, others_of
from graphcollab.tasks._rows import Rows, as_agreed, facts_of, read_rows
from graphcollab.tasks._sites import SAMPLES, Draw
from graphcollab.tasks._targets import refuse_many, targets_of
from graphcollab.tasks._values import factorised
from graphcollab.tasks.column import Column, encoded, numbers_of
from graphcollab.tasks.metric_fit import of_one_class, refuse_misfit
from graphcollab.tasks.preparation import Preparation
from graphcollab.tasks.samples import Pool

__all__ = ["tasks_of_table"]


def tasks_of_table(
    make: Callable[..., T],
    frame: Any,
    node: str,
    target: str,
    weight: Any,
    group: Any,
    columns: Sequence[str] | None,
    leave_out: Sequence[str],
    categorical: Sequence[str],
    draw: Draw,
    how: Fit | Preparation,
    loss: Any,
    metric: Any,
) -> T:
    """Make `Tasks` of the rows of a table, with columns fitted or as they were; see `from_frame`."""
    known = how if isinstance(how, Preparation) else how.like
    others = others_of(frame)
    others.begin("a table", _settings(node, target, weight, group, draw, how, loss, metric))
    with others.telling():
        declared = how.declared if isinstance(how, Fit) else {}
        rows = read_rows(frame, node, target, weight, group, columns, leave_out, categorical, declared, draw, known)
        facts = facts_of(rows, known, loss)
    told = others.agree(facts)
    rows, real = as_agreed(rows, told, known), any(one["facts"]["amounts"] for one in told)
    different = 0 if real else max(one["facts"]["different"] for one in told)
    refuse_many(rows.target, different)
    if isinstance(how, Fit) and how.standardise_target and not real and known is None:
        raise ConflictError(
            "standardise_target",
            f"standardise_target=True is for amounts, and the targets in column {rows.target!r} are classes: leave it "
            "out, or give loss='mse' if they are amounts",
        )
    sites, values, found = rows.sites, rows.values, list[Finding]()
    with others.telling():
        may_train = rows.draw.may_train(sites)
        splits = rows.draw.divide(sites, None if real else torch.from_numpy(factorised(values)[1]), rows.groups)
        if isinstance(how, Fit):
            seen = Seen(sites, others.fitted_to(may_train, splits["train"]), how)
            drafts = [seen.draft(name, one, name in rows.categorical) for name, one in rows.read.items()]
            drafts.append(seen.draft_target(rows.target, values, real))
            if known is None:
                read = (rows.read, [*rows.categorical], rows.target, values, rows.groups)
                found += doubts.of_columns(sites.names, sites.owner.numpy(), *read)
    fitted: Counts | None = None
    if isinstance(how, Fit):
        fitted = others.add_up(seen.count(drafts))
        how = seen.preparation(drafts, fitted, rows.node)
    inputs, aim, place = how.columns, how.target, how.places(sites.names)[sites.owner.numpy()]
    default = ("mse", "mae") if real else ("cross_entropy", "accuracy")
    loss, metric = default[0] if loss is None else loss, default[1] if metric is None else metric
    _require_fit(aim, loss, metric)
    if different:
        found += doubts.of_many_classes(rows.target, max(different, len(aim.categories or ())))
    with others.telling():
        readable = {one.name: _readable(one, rows) for one in inputs}
        targets = targets_of(sites, aim, values, place)
        if loss == "bce":
            targets = targets.float()
        about = (sites.names, loss, metric, sites.node_id)
        nothing = Pool(torch.zeros(len(values), 0), targets, rows.weights, rows.groups)  # until all sites have theirs
        own = make({SAMPLES: nothing}, splits, *about, split_given=rows.draw.words is not None)
    others.close(own, may_train)
    for one in how.columns:
        if known is not None or one.name in declared:
            one.warn_of_strangers(readable[one.name], place)
    encoded_inputs = encoded([(one, readable[one.name]) for one in how.columns], place)
    found += doubts.of_rows(how.columns, encoded_inputs, targets, splits, sites.owner, sites.names)
    if len(how.classes) == 1:
        if not others.rehearsed:
            _refuse_one_class(rows.target, how.classes[0])
        issue(
            "quality",
            f"column {rows.target!r}",
            f"all rows have the target {how.classes[0]!r} in column {rows.target!r}: nothing can be learned unless "
            "other sites have another class",
        )
    elif metric == "auc":
        found += doubts.of_one_class(of_one_class(sites.names, splits.values(), targets))
    pool = Pool(torch.from_numpy(encoded_inputs), targets, rows.weights, rows.groups)
    preparation = replace(how, group=rows.together)
    tasks = others.joined(replace(own, pools={SAMPLES: pool}, preparation=preparation))
    if fitted is not None:
        found += doubts.of_codings(tasks.names, fitted.rows.tolist(), fitted.names, rows.target)
    doubts.warn_of(found)
    return replace(tasks, findings=tuple(found))


def _settings(
    node: str, target: str, weight: Any, group: Any, draw: Draw, how: Fit | Preparation, loss: Any, metric: Any
) -> dict[str, Any]:
    """Return the settings that must be the same at all sites."""
    fitted: dict[str, Any] = {"refit": False, "preparation": how}
    if isinstance(how, Fit):
        fitted = {
            "pooled": "per_site" if how.per_site else "sums",
            "standardise_target": how.standardise_target,
            "indicator_above": how.indicator_above,
            "categories": {name: column.categories for name, column in how.declared.items()},
            "preparation": how.like,
            "refit": how.like is not None,
        }
    return {
        "node": node,
        "target": target,
        "weight": weight,
        "group": group,
        **draw.settings,
        **fitted,
        "loss": loss,
        "metric": metric,
    }


def _readable(column: Column, rows: Rows) -> np.ndarray:
    """Return the values of a column as what it was fitted as reads them."""
    values = rows.read[column.name]
    return values if column.categories is not None else numbers_of(column.name, values, rows.sites.at)


def _refuse_one_class(target: str, one: Any) -> None:
    """Refuse targets that are all the same, which all sites know: with one output there is nothing to choose from."""
    raise TooFewError(
        f"column {target!r}",
        f"column {target!r} has one class only, {str(one)!r}, so there is nothing to learn: add rows of another class, "
        "or name another column by target=",
    )


def _require_fit(target: Column, loss: Any, metric: Any) -> None:
    """Check that there are as many classes as loss and metric are for, which all sites know; of one is told later."""
    if target.categories is None or len(target.categories) == 1:
        return
    if loss == "bce" and len(target.categories) != 2:
        raise ConflictError(
            "loss",
            f"loss='bce' is for two classes, and column {target.name!r} has {len(target.categories)}, "
            f"{few(target.categories)}: use loss='cross_entropy', with a model of an output for each",
        )
    if isinstance(metric, str):
        has = f"column {target.name!r} has {len(target.categories)}, {few(target.categories)}"
        refuse_misfit(metric, loss, torch.arange(len(target.categories)), has)
