"""`evaluate`: the quality of every node's model; the best evaluation so far, and early stopping."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.errors import ContractError, DuplicateError
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.scores import score_rows
from graphcollab.components import Env
from graphcollab.components.at_work import membership
from graphcollab.components.guard import cure
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.persistence.history import History

SENT = ("bytes_sent", "messages_sent")


def remember_best(data: Data, history: History) -> Data:
    """Keep the state after the best evaluation so far; ties are broken by the smallest validation loss."""
    value = history.mean("val_metric")[-1] * (1 if history.higher_is_better else -1)
    loss = history.mean("val_loss")[-1] if "val_loss" in history.values else math.inf
    if math.isnan(value) or ("best" in data and (value, -loss) <= (data.best["value"], -data.best["loss"])):
        return data
    data = copy.copy(data)
    state = {name: data[name] for name in sorted(data.keys()) if name != "best"}
    data.best = {"value": value, "loss": loss, "evaluation": len(history) - 1, "state": state}
    return data


def out_of_patience(data: Data, history: History, patience: int) -> bool:
    """Return whether ``patience`` evaluations have passed since the best; evaluations without a value do not count."""
    since = history.values["val_metric"][data.best["evaluation"] + 1 :] if "best" in data else []
    return sum(not bool(values.isnan().all()) for values in since) >= patience


def evaluate(method: Method | Phases, data: Data, env: Env, metric: Metric) -> dict[str, Tensor]:
    """Return loss and metric of every node's model on its validation and test samples, and other values per node.

    These are training loss, bytes, messages, and the values of the run's observers (`Callback.values`). For nodes that
    did not belong to the collaboration in the last round (`Participation`), all values except bytes and messages are
    NaN, so means are over the other nodes.

    A node has diverged if its loss or one of its model's predictions is not finite on a split where it has samples;
    nodes with neither validation nor test samples are evaluated on their training samples. An undefined metric (an AUC
    of one class) is not divergence: it is NaN, and the loss is finite.

    Raises:
        NonFiniteLossError: If a node has diverged. If the run isolates such nodes, and divergence was not detected in
            training, the node instead gets an infinite validation or test loss and no metric.
        ValueError: If a callback observed something other than one value per node, or used a name that is taken.
    """
    models, tasks = method.models(data, env), env.engine.tasks
    member, _ = membership(data, env)
    judged = unseen = member & ~data.isolated
    own = {"train_loss": env.plane.local_values(data.train_loss)}  # [k] each
    for split in ("val", "test"):
        if int(tasks.sizes(split).sum()) == 0:
            continue
        scored = score_rows(env.engine, Rows.own(models), split, metric)
        for what, value in zip(("loss", "metric"), scored, strict=True):
            own[f"{split}_{what}"] = value
        unseen = unseen & (tasks.sizes(split) == 0)
    if bool(unseen.any()):
        loss, nodes = torch.zeros(len(unseen), dtype=torch.float64), env.plane.local(unseen.nonzero().flatten())
        loss[nodes] = score_rows(env.engine, Rows.own(models, nodes), "train", metric)[0]
        own["loss"] = env.plane.local_values(loss)
    what = "losses and scores of the site, and how much it has sent"
    every = env.plane.all_gather(*own.values(), counts=[data[name] for name in SENT], what=what)
    found = dict(zip([*own, *SENT], every, strict=True))
    values = {name: found[name] for name in ("train_loss", *SENT, *own)}
    for split, whose in (("val", judged), ("test", judged), ("train", unseen)):
        if (name := f"{split}_loss" if split != "train" else "loss") in values:
            _require_finite(values[name], whose, data, env, split)
    values.pop("loss", None)
    for observer in env.observers:
        observer.before_evaluate(models, env)
        for name, value in observer.values().items():
            where = f"{type(observer).__name__}.values()[{name!r}]"
            if name in values:
                raise DuplicateError(
                    "callbacks", f"{where} would replace what the evaluation has under that name: choose another"
                )
            if not isinstance(value, Tensor) or value.shape != unseen.shape:
                got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ContractError(
                    "callbacks", f"{where} must be one value per node, a tensor of shape [{len(unseen)}], got {got}"
                )
            values[name] = value.cpu()
    known = member if env.plane.complete else member & env.plane.there
    if bool(known.all()):
        return values
    return {name: v if name in SENT else v.masked_fill(~known, torch.nan) for name, v in values.items()}


def _require_finite(loss: Tensor, judged: Tensor, data: Data, env: Env, split: str) -> None:
    """Stop the run at a diverged node; if such nodes are to be isolated, report that it was not detected."""
    bad = (torch.isinf(loss) & judged).nonzero().flatten()
    if not len(bad):
        return
    others = f" (and {len(bad) - 1} more sites)" if len(bad) > 1 else ""
    found = (
        f"{env.engine.tasks.names[int(bad[0])]}{others}: loss or predictions are not finite on its {split} samples "
        f"after {data.round} round{'' if data.round == 1 else 's'}"
    )
    if not env.isolate:
        text = f"{found}: {cure(env)}, or check the node's data"
        raise NonFiniteLossError(f"node {env.engine.tasks.names[int(bad[0])]!r}", text)
    issue(
        "diverged",
        f"node {env.engine.tasks.names[int(bad[0])]!r}",
        f"{found}: its training samples are fine, so it is not isolated, and there is no mean over sites",
    )
