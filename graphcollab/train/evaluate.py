"""`evaluate`: how good every node's model is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.local import Rows
from graphcollab.method import Method
from graphcollab.metrics import Metric, score_rows
from graphcollab.phases import Phases
from graphcollab.typing import Env

__all__ = ["evaluate"]

SENT = ("bytes_sent", "messages_sent")
WATCHED = ("val_loss_before", "val_metric_before", "val_loss_after", "val_metric_after")


def evaluate(method: Method | Phases, data: Data, env: Env, metric: Metric) -> dict[str, Tensor]:
    """Return loss and metric of every node's model on its validation and test samples, and what the run watches.

    That is training loss, bytes, messages, and validation before and after merging where the method watches it. Nodes
    that did not belong to the collaboration in the last round (`Membership`) have NaN for all but bytes and messages,
    so that means are over the others.
    """
    values: dict[str, Tensor] = {"train_loss": data.train_loss, **{name: data[name] for name in SENT}}
    rows = Rows.own(method.models(data, env))
    for split in ("val", "test"):
        if int(env.engine.tasks.sizes(split).sum()) == 0:
            continue
        values[f"{split}_loss"], values[f"{split}_metric"] = score_rows(env.engine, rows, split, metric)
    values |= {name: data[name] for name in WATCHED if name in data}
    if env.attend is None:
        return values
    out = ~env.attend.members(data, max(data.round - 1, 0))
    return {name: v if name in SENT else v.masked_fill(out, torch.nan) for name, v in values.items()}
