"""Detection and isolation of non-finite losses and diverged nodes, before other nodes hear of their models."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.device import beside, pick
from graphcollab._base.naming import setting
from graphcollab._base.piece import updated
from graphcollab.comm.lists import gather_texts
from graphcollab.components.env import Env, Isolate
from graphcollab.components.slots import Local
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.engine.stack import Stacks
from graphcollab.transforms._edges import select_edges

RAISED, WINDOW = 3, 10
LARGE = 3.0  # mean or deviation of targets from which squared errors make usual step sizes diverge


def screen(data: Data, local: Local, env: Env) -> Data:
    """Isolate nodes that diverge in a trial of their first local update, before anything is computed over all nodes."""
    if not env.isolate:
        return data
    tried = local.init(data, env)
    tried = updated(tried, x_start=tried.x, trains=data.trains & data.present)
    tried, why = find_diverged(local.alone(tried, env), env, serves_start=True, held=_trained_models(local))
    data = updated(data, good=data.get("good", {}))
    return isolate(data, why) if why else data


def sift(data: Data, local: Local, env: Env) -> Data:
    """Isolate nodes whose own step diverges, if nodes already hear each other during the local update."""
    if not local.crosses or not env.isolate:
        return data
    tried, why = find_diverged(local.alone(data, env), env, serves_start=True, held=_trained_models(local))
    data = updated(data, good=tried.good, loss_bound=tried.loss_bound)  # examined again after the local update
    return isolate(data, why) if why else data


def settle(data: Data, local: Local, env: Env, serves_start: bool = False) -> Data:
    """Stop at a non-finite loss after the local update, or isolate diverged nodes if the run does so.

    The owner raises the error, other processes at their next meeting. With ``serves_start`` others hear the models
    from before the update.
    """
    if env.isolate:
        data, why = find_diverged(data, env, serves_start, alone=not local.crosses, held=_trained_models(local))
        return isolate(data, why) if why else data
    bad = env.plane.local((data.bad_step >= 0).nonzero().flatten())
    if not len(bad):
        return data
    node, step = int(bad[0]), int(data.bad_step[bad[0]])
    others = f" (and {len(bad) - 1} more sites)" if len(bad) > 1 else ""
    raise NonFiniteLossError(
        f"node {env.engine.tasks.names[node]!r}",
        f"{env.engine.tasks.names[node]}{others}: loss is not finite in round {data.round} at local step {step}: "
        f"{cure(env)}, check its data",
        f", or go on without such sites by {setting(on_nonfinite='isolate')}",
    )


def settle_validation(data: Data, losses: Tensor, env: Env) -> Data:
    """Stop at a non-finite validation loss of the mixed models, [K] known to owners, or isolate such nodes."""
    bad = env.plane.local((~torch.isfinite(losses) & ~data.isolated).nonzero().flatten())
    if env.isolate:
        why = gather_texts(env.plane, dict.fromkeys(bad.tolist(), "its loss was not finite on its validation data"))
        return isolate(data, why) if why else data
    if not len(bad):
        return data
    raise NonFiniteLossError(
        f"node {env.engine.tasks.names[int(bad[0])]!r}",
        f"{env.engine.tasks.names[int(bad[0])]}: validation loss is {float(losses[bad[0]])} in round "
        f"{data.round} after the exchange: {cure(env)}",
    )


def without_refused(data: Data, env: Env) -> Data:
    """Treat senders of implausible rows from other parties as away, or stop the run and name them."""
    refused = env.plane.refused
    if refused and not env.isolate:
        node = min(refused)
        raise NonFiniteLossError(
            f"node {env.engine.tasks.names[node]!r}",
            f"{env.engine.tasks.names[node]} {refused[node]} in round {data.round}: check its model and data, or go on "
            f"without such values by {setting(on_nonfinite='isolate')}",
        )
    if refused:
        data = updated(data, refused=_mask(data, torch.tensor(sorted(refused))))
    return data


def unless_ruined(data: Data, env: Env, splits: Sequence[str]) -> Data:
    """Let nodes keep their own models if received models raise their loss above the bound, or to infinity.

    Such nodes are not isolated: their own update has been examined. Processes of one party examine every sender.
    """
    if not (env.isolate and env.plane.cross_silo and "x_local" in data):
        return data
    nodes = env.plane.local((~data.isolated).nonzero().flatten())
    losses = torch.stack([env.engine.loss(Rows.own(data.x, nodes), split) for split in splits]).double()
    ruined = nodes[~(losses.nan_to_num(torch.inf).amax(0) <= data.loss_bound[nodes])]
    if not len(ruined):
        return data
    issue(
        "diverged",
        f"node {env.engine.tasks.names[int(ruined[0])]!r}",
        f"{env.engine.tasks.names[int(ruined[0])]} keeps its own model in round {data.round}: mixed with what others "
        "sent, its loss is not finite or above the bound",
    )
    return updated(data, x=data.x.where(_mask(data, ruined), data.x_local))


def cure(env: Env) -> str:
    """Advise smaller steps, and first the standardization of targets so large that squared errors need tiny steps."""
    smaller = "use a smaller step size"
    tasks = env.engine.tasks
    if tasks.loss != "mse":
        return smaller
    split = tasks.splits["train"]
    targets = tasks.pools[split.pool].targets[split.here].double()
    mean, deviation = float(targets.mean()), float(targets.std(correction=0))
    if not max(abs(mean), deviation) > LARGE:
        return smaller
    how = (
        "" if env.plane.cross_silo else f" (mean {mean:.4g}, standard deviation {deviation:.4g})"
    )  # others read it, too
    return f"standardize the targets, which are large{how}, by {setting(standardize_target=True)}; or {smaller}"


def isolate(data: Data, why: Mapping[int, str]) -> Data:
    """Isolate nodes and give the reasons: they get their last good models back and lose their edges."""
    new = _mask(data, torch.tensor(sorted(why), dtype=torch.int64)) & ~data.isolated
    apart = data.isolated | new
    sender, receiver = data.edge_index
    data = copy.copy(select_edges(data, (sender == receiver) | ~(apart[sender] | apart[receiver])))
    for name, models in data.good.items():
        if name in data:
            data[name] = data[name].where(new, models)
    if "x_start" in data:
        data.x_start = data.x_start.where(new, data.x)  # others would multiply with it, if only by zero
    data.isolated = apart
    data.isolated_because = {**data.get("isolated_because", {}), **why}
    data.train_loss = data.train_loss.masked_fill(apart, float("nan"))
    data.trains, data.serves = data.trains & ~apart, data.serves & ~apart
    return data


def _trained_models(local: Local) -> tuple[str, ...]:
    return ("x", *(field.name for piece in local.walk() for field in piece.keeps if field.kind == "models"))


def find_diverged(
    data: Data, env: Env, serves_start: bool = False, alone: bool = True, held: Collection[str] = ("x",)
) -> tuple[Data, dict[int, str]]:
    """Return which of the training nodes have diverged in their local update (`Isolate`), and why.

    ``serves_start``: others hear the models from before; ``alone``: updates are not steps along others' answers;
    ``held``: fields that the update changed, examined if they hold models. The returned data have ``loss_bound`` [K],
    ``raised`` [K] (one bit per round) and ``good``, every node's last models with a loss not above the bound, by field.
    """
    factor = env.isolate.factor if isinstance(env.isolate, Isolate) else Isolate().factor
    held = [name for name in held if isinstance(data.get(name), Stacks)]  # the others are optimizer states
    data = updated(data, raised=data.get("raised", torch.zeros_like(data.node_id)))
    if "loss_bound" not in data:
        data.loss_bound = initial_bounds(data, env, factor)
    known = data.get("good", {})
    good = {name: known.get(name, known.get("x", data.x_start)) for name in held}
    nodes = env.plane.local((data.trains & ~data.isolated).nonzero().flatten())
    rests = env.plane.local((data.isolated | ~data.trains).nonzero().flatten())
    rests = rests[~_finite(data.x, rests)]  # whatever the cause: others would multiply with them
    why = dict.fromkeys(rests[~data.isolated[rests]].tolist(), "its model was not finite, while it was at rest")
    for name in held if len(rests) else ():
        data[name] = data[name].where(_mask(data, rests), good[name])
    if len(nodes):
        bound, (start, promise) = data.loss_bound[nodes], _step(data, env, nodes)
        began = _finite(data.x_start, nodes) & start.isfinite()
        allowed = bound.fmax(start.where(began, bound))

        def blame(bad: Tensor, text: str, *numbers: Tensor) -> None:
            for r in bad.nonzero().flatten().tolist():
                why.setdefault(int(nodes[r]), text.format(*(f"{float(many[r]):.4g}" for many in numbers)))

        step = data.bad_step[nodes]
        blame(step >= 0, "its loss was not finite at local step {}", step)
        fine = {}
        for name in held:
            what = "its model" if name == "x" else "its personal model"  # which is pulled to where the other began
            loss, finite = env.engine.loss(Rows.own(data[name], nodes), "train").double(), _finite(data[name], nodes)
            blame(~(finite & loss.isfinite()), f"{what} or its loss was not finite after the local update")
            blame(loss > allowed, f"{what} had a loss of {{}} on its own data, above the bound of {{}}", loss, allowed)
            fine[name] = finite & (loss <= bound)
            if name == "x":
                lied = ~(promise <= factor * allowed) & ~(start - loss >= promise / factor)
                text = "its local update was to lower its loss by {}, and took it from {} to {}"
                blame(lied, text, promise, start, loss)
                raised = loss - start > (start.abs() if alone else start.abs().fmax(bound / factor))
                data.raised, often = _count_raised(data, nodes, raised & (loss > bound / factor))
                text = f"its update doubled its loss in {RAISED} of its last {WINDOW} rounds, now from {{}} to {{}}"
                blame(often >= RAISED, text, start, loss)
        if serves_start:
            blame(~began, "the model that it serves, or its loss, was not finite")
        sound = torch.tensor([k not in why for k in nodes.tolist()], dtype=torch.bool)
        good["x"] = good["x"].where(_mask(data, nodes[began & (start <= bound)]), data.x_start)
        for name in held:
            good[name] = good[name].where(_mask(data, nodes[sound & fine[name]]), data[name])
    data.good = good
    return data, gather_texts(env.plane, why)


def _count_raised(data: Data, nodes: Tensor, raised: Tensor) -> tuple[Tensor, Tensor]:
    """Record whether the round's update has raised the loss; return the records [K], a bit a round, and counts, [R]."""
    notes = (2 * data.raised[nodes] + raised.long()) % 2**WINDOW
    count = (notes[:, None] >> torch.arange(WINDOW)) % 2
    return data.raised.index_copy(0, nodes, notes), count.sum(1)


def initial_bounds(data: Data, env: Env, factor: float, split: str = "train") -> Tensor:
    """Return nodes' bounds b (`Isolate`) on a split, [K], known to owners; inf without samples or if losses are 0."""
    models = data.x_init
    found = torch.full((models.num_nodes, 2), torch.nan, dtype=torch.float64, device=models.device)
    for chunk in env.engine.predict(Rows.own(models), split):
        silent = replace(chunk, outputs=torch.zeros_like(chunk.outputs))
        losses = [env.engine.losses_of(one).double() for one in (chunk, silent)]
        found[beside(chunk.rows, found)] = torch.stack(losses, 1)
    found = found.cpu()
    found = found.masked_fill(~found.isfinite(), torch.nan)
    first, second = found.unbind(1)
    bound = first.fmax(second) + (factor - 1) * first.abs().fmax(second.abs())
    bound = bound.masked_fill(bound.isnan() | (found == 0).all(1), torch.inf)
    return env.plane.from_local(bound)


def _step(data: Data, env: Env, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes' losses at the start of the round, [R], and the decrease that their updates promised."""

    def along(gradients: Tensor, rows: Tensor) -> Tensor:
        s, _, places = next(iter(data.x.locate(nodes[rows])))
        columns = data.x.specs[s].columns("all")
        before, after = (pick(models.tensors[s], places)[:, columns].double() for models in (data.x_start, data.x))
        return ((before - after) * gradients.double()).sum(1)

    loss, promise = env.engine.grad(Rows.own(data.x_start, nodes), "train", reduce=along)
    return loss.double(), promise.cpu()


def _finite(models: Stacks, nodes: Tensor) -> Tensor:
    out = torch.zeros(len(nodes), dtype=torch.bool)
    for s, where, places in models.locate(nodes):
        out[where] = torch.isfinite(pick(models.tensors[s], places)).all(1).cpu()
    return out


def _mask(data: Data, nodes: Tensor) -> Tensor:
    return torch.zeros_like(data.isolated).index_fill(0, nodes, True)
