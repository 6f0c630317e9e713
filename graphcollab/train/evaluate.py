"""`evaluate`: how good every node's model is."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.checks import warn
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.method import Method
from graphcollab.metrics import Metric, score_rows
from graphcollab.phases import Phases
from graphcollab.train.callbacks import Callback
from graphcollab.typing import Env

__all__ = ["evaluate"]

SENT = ("bytes_sent", "messages_sent")


def evaluate(method: Method | Phases, data: Data, env: Env, metric: Metric) -> dict[str, Tensor]:
    """Return loss and metric of every node's model on its validation and test samples, and what else is known of it.

    That is training loss, bytes, messages, and what the run's observers have seen (`Callback.values`). Nodes that did
    not belong to the collaboration in the last round (`Attendance`) have NaN for all but bytes and messages, so that
    means are over the others.

    A node has diverged if its loss or one of its model's predictions is not finite on a split where it has samples;
    nodes that have neither validation nor test samples are judged on their training samples. A metric without a value
    (an AUC of one class) is something else: it is NaN, and the loss finite.

    Raises:
        NonFiniteLossError: If a node has diverged. Where the run isolates such nodes its loss is infinite instead, in
            case that it was not found in training: an infinite validation or test loss, and no metric.
        ValueError: If a callback observed something other than one value per node, or under a name that is taken.
    """
    values: dict[str, Tensor] = {"train_loss": data.train_loss, **{name: data[name] for name in SENT}}
    models, tasks = method.models(data, env), env.engine.tasks
    judged = torch.ones_like(data.isolated)
    if env.attend is not None:
        judged = env.attend.members(data, max(data.round - 1, 0))
    unseen = judged & ~data.isolated
    for split in ("val", "test"):
        if int(tasks.sizes(split).sum()) == 0:
            continue
        loss, score = score_rows(env.engine, Rows.own(models), split, metric)
        _require_finite(loss, judged & ~data.isolated, data, env, split)
        values[f"{split}_loss"], values[f"{split}_metric"] = loss, score
        unseen = unseen & (tasks.sizes(split) == 0)
    nodes = unseen.nonzero().flatten()
    if len(nodes):
        loss = torch.zeros(len(unseen), dtype=torch.float64, device=unseen.device)
        loss[nodes] = score_rows(env.engine, Rows.own(models, nodes), "train", metric)[0]
        _require_finite(loss, unseen, data, env, "train")
    for observer in env.observers:
        for name, value in observer.values().items():
            _require_new(name, value, observer, values, len(unseen))
            values[name] = value.to(unseen.device)
    if env.attend is None:
        return values
    return {name: v if name in SENT else v.masked_fill(~judged, torch.nan) for name, v in values.items()}


def _require_new(name: str, value: Tensor, observer: Callback, values: Mapping[str, Tensor], nodes: int) -> None:
    """Check what a callback observed: one value per node, under a name that nothing else in the evaluation has."""
    where = f"{type(observer).__name__}.values()[{name!r}]"
    if name in values:
        raise ValueError(f"{where} would replace what the evaluation has under that name: choose another")
    if not isinstance(value, Tensor) or value.shape != (nodes,):
        what = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{where} must be one value per node, a tensor of shape [{nodes}], got {what}")


def _require_finite(loss: Tensor, judged: Tensor, data: Data, env: Env, split: str) -> None:
    """Stop the run at a node that has diverged; where such nodes are to be isolated, say that it was not found."""
    bad = (torch.isinf(loss) & judged).nonzero().flatten()
    if not len(bad):
        return
    others = f" (and {len(bad) - 1} more nodes)" if len(bad) > 1 else ""
    rounds = f"{data.round} round{'' if data.round == 1 else 's'}"
    found = (
        f"{env.engine.tasks.names[int(bad[0])]}{others}: loss or predictions are not finite on its {split} samples "
        f"after {rounds}"
    )
    if not env.isolate:
        raise NonFiniteLossError(f"{found}: use a smaller step size, or check the node's data")
    warn(f"{found}: its training samples are fine, so it is not isolated, and there is no mean over nodes")
