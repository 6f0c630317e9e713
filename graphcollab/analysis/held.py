"""The samples of sites: counts of their rarer class, of targets other than the most frequent, and of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphcollab.data._pairs import class_labels
from graphcollab.data.losses import predicted_by
from graphcollab.data.tasks import Tasks
from graphcollab.train.start import all_gather

LEAST = 5  # samples with another than the most frequent target, below which nothing is claimed about a site


def rarer_held(tasks: Tasks, split: str = "test") -> Tensor | None:
    """Return the number of samples of each node's rarer class in a split, [K], for tasks with two classes.

    For event times, it is the number of events.
    """
    if predicted_by(tasks.loss) == "times":
        ended = tasks.pools[tasks.splits[split].pool].targets[:, 1].cpu() > 0
        return all_gather(tasks.splits[split].totals(ended.double()), tasks)
    if tasks.classes is not None and int(tasks.classes.any(0).sum()) != 2:
        return None
    held = tasks.splits[split]
    targets = tasks.pools[held.pool].targets.cpu()
    known = class_labels(targets)
    labels = torch.zeros(len(targets)) if known is None else known.double()
    low, high = labels.min(), labels.max()
    odd = torch.tensor(known is None) | ((labels != low) & (labels != high)).any()
    counts = [held.totals((labels == one).double()) for one in (low, high)]
    own = torch.stack([low, high, odd.double()]).double().expand(tasks.num_nodes, -1)
    low, high, odd, lows, highs = all_gather(torch.cat([own, torch.stack(counts, 1)], 1), tasks).T
    least, most = low.min(), high.max()
    several = ((low != least) & (low != most)) | ((high != least) & (high != most))
    if bool((several | odd.bool()).any()) or bool(least == most):
        return None
    return torch.minimum(lows.where(low == least, 0.0), highs.where(high == most, 0.0))


def asked(dealt: Sequence[Tasks]) -> dict[str, Any]:
    """Return the rows of every node by split, all findings, and the columns of a table: sites, target, groups, inputs.

    Rows are means over ``dealt``, rounded such that a node's rows add up to its total.
    """
    tasks = dealt[0]
    splits = [name for name in ("train", "val", "test") if name in tasks.splits]
    sizes = torch.stack([torch.stack([one.sizes(name) for name in splits]) for one in dealt]).double().mean(0)  # [S, K]
    ends = torch.cat([torch.zeros(1, tasks.num_nodes), sizes.cumsum(0)]).round().long()
    many = dict(zip(splits, ends.diff(dim=0), strict=True))
    about: dict[str, Any] = {"rows": {name: rows.tolist() for name, rows in many.items()}, "loss": str(tasks.loss)}
    every = {(one.code, one.subject): str(one) for split in reversed(dealt) for one in split.findings}
    about["doubts"] = [*every.values()]
    table = tasks.preparation
    if table is not None:
        about |= {"site": table.node, "target": table.target.name, "classes": [*table.classes], "group": table.group}
        about |= {"columns": [column.name for column in table.columns], "inputs": len(table.features)}
    return about


def groups_held(tasks: Tasks) -> Tensor | None:
    """Return the number of groups (``group`` of `Tasks.from_frame`) in nodes' test samples, [K], or None."""
    held = tasks.splits["test"]
    group = tasks.pools[held.pool].group
    if group is None:
        return None
    counts = torch.full((tasks.num_nodes,), torch.nan, dtype=torch.float64)
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        counts[node] = len(group.cpu()[held.of(node)].unique())
    return all_gather(counts, tasks)


def minority_held(tasks: Tasks) -> Tensor:
    """Return the number of samples (groups count once) with a target other than the most frequent, [K], up to `LEAST`.

    All splits are counted. For event times, it is the number of observed events.
    """
    counts = torch.full((tasks.num_nodes,), torch.nan, dtype=torch.float64)
    splits = [name for name in ("train", "val", "test") if name in tasks.splits]
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        rows = tasks.of(node, *splits).to("cpu")
        targets = rows.targets
        _, kind, many = targets.reshape(len(targets), -1).unique(dim=0, return_inverse=True, return_counts=True)
        other = targets[:, 1] > 0 if predicted_by(tasks.loss) == "times" else kind != many.argmax()
        counts[node] = int(other.sum()) if rows.group is None else len(rows.group[other].unique())
    return all_gather(counts.clamp(max=LEAST), tasks)
