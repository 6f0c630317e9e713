"""Which nodes have diverged in a round, found before anybody hears of their models."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.engine import Rows
from graphcollab.stack import Stacks

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["Isolate", "judge"]

RAISED, WINDOW = 3, 10

MODELS = ("x", "x_personal")
"""Fields with models that nodes have, served or not."""


@dataclass(frozen=True)
class Isolate:
    r"""When a node that diverges is left behind: ``run(on_nonfinite=Isolate(factor))``.

    Every node's models are judged after its local update, before anything of it is weighed, watched or sent. With L its
    mean loss on its own training samples, x⁰ the model it began the round with and x the one it now has, a node has
    diverged if

    - a loss of a local step, a number of x or x⁰, or :math:`L(x)` is not finite, or
    - its own update has brought its loss above the bound: :math:`L(x) > \max(b, L(x^0))`, or
    - its update leaves the region in which gradients mean anything: it promised to lower the loss by
      :math:`p = \langle \nabla L(x^0), x^0 - x \rangle > f \max(b, L(x^0))`, more than there is, and has not lowered it
      by p / f. That finds models that are ruined but whose own loss is fine, such as those whose units are all dead.
    - in three of its last ten rounds its own update has at least doubled its loss, and by more than b / f² (b / f where
      it steps along what others answer, as under CGA). That finds nodes whose steps are too large for them and that are
      pulled back by the others, whom they take along.

    The bound b is f times the larger of L at the run's initial model and L for outputs of zero (log C for
    cross-entropy, the mean of y² for squared errors), so it goes with the scale of each node's data, and with
    pretrained models. Where losses may be negative it is :math:`r + (f - 1) s`, r the larger of the two and s the
    larger of their absolute values. Where both are 0 there is no bound. A model that others have made bad, and that the
    node's own update makes better, is not held against the node.

    Judging takes a gradient and a loss on all training samples of every node a round: with a hundred nodes of 11 digits
    each, rounds of five epochs took twice as long for it, rounds of a single step three times.

    Args:
        factor: f.

    Raises:
        ValueError: If the factor is not a finite number above 1.

    Example:
        >>> Isolate().factor
        10.0
    """

    factor: float = 10.0

    def __post_init__(self) -> None:
        if isinstance(self.factor, bool) or not isinstance(self.factor, int | float) or not 1 < self.factor < math.inf:
            raise ValueError(f"factor must be a finite number above 1, got {self.factor!r}")


def judge(data: Data, env: Env, serves_start: bool = False, alone: bool = True) -> tuple[Data, dict[int, str]]:
    """Return which of the nodes that train have diverged in their local update, and why.

    Args:
        data: The graph after the local update; ``x_start`` has the models from before.
        env: What stages may use.
        serves_start: Whether others hear the models from before.
        alone: Whether updates are nodes' own, and not steps along what others answered.

    Returns:
        The data with what judging keeps: ``loss_bound`` [K], ``raised`` [K] (a bit for each of the last rounds), and as
        ``good`` the last models of every node whose loss was finite and not above it, by field.
    """
    factor = env.isolate.factor if isinstance(env.isolate, Isolate) else Isolate().factor
    held = [name for name in MODELS if name in data]
    data = copy.copy(data)
    if "loss_bound" not in data:
        data.loss_bound = _bounds(data.x_init, env, factor)
    known = data.get("good", {})
    good = {**dict.fromkeys(held, known.get("x", data.x_start)), **known}
    nodes = (data.trains & ~data.isolated).nonzero().flatten()
    why: dict[int, str] = {}
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
                much = bound / factor ** (2 if alone else 1)
                data.raised, often = _count_raised(data, nodes, loss - start > start.abs().fmax(much))
                text = f"its update doubled its loss in {RAISED} of its last {WINDOW} rounds, now from {{}} to {{}}"
                blame(often >= RAISED, text, start, loss)
        if serves_start:
            blame(~began, "the model that it serves, or its loss, was not finite")
        sound = torch.tensor([k not in why for k in nodes.tolist()], dtype=torch.bool, device=nodes.device)
        good["x"] = good["x"].where(_mask(data, nodes[began & (start <= bound)]), data.x_start)
        for name in held:
            good[name] = good[name].where(_mask(data, nodes[sound & fine[name]]), data[name])
    data.good = good
    return data, why


def _count_raised(data: Data, nodes: Tensor, raised: Tensor) -> tuple[Tensor, Tensor]:
    """Note whether the round's update has raised the loss; return the notes [K], a bit a round, and counts, [R]."""
    past = data.get("raised", torch.zeros_like(data.node_id))
    notes = (2 * past[nodes] + raised.long()) % 2**WINDOW
    count = (notes[:, None] >> torch.arange(WINDOW, device=notes.device)) % 2
    return past.index_copy(0, nodes, notes), count.sum(1)


def _bounds(models: Stacks, env: Env, factor: float) -> Tensor:
    """Return every node's bound, [K]."""
    found = torch.full((models.num_nodes, 2), torch.nan, dtype=torch.float64, device=models.device)
    for chunk in env.engine.predict(Rows.own(models), "train"):
        silent = replace(chunk, outputs=torch.zeros_like(chunk.outputs))
        losses = [env.engine.losses_of(one).double() for one in (chunk, silent)]
        found[chunk.rows] = torch.stack(losses, 1)
    found = found.masked_fill(~found.isfinite(), torch.nan)
    first, second = found.unbind(1)
    bound = first.fmax(second) + (factor - 1) * first.abs().fmax(second.abs())
    return bound.masked_fill(bound.isnan() | (found == 0).all(1), torch.inf)


def _step(data: Data, env: Env, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses that nodes began the round with, [R], and by how much their updates promised to lower them."""

    def along(gradients: Tensor, rows: Tensor) -> Tensor:
        s, _, places = next(iter(data.x.locate(nodes[rows])))
        columns = data.x.specs[s].columns("all")
        before, after = (models.tensors[s][places][:, columns].double() for models in (data.x_start, data.x))
        return ((before - after) * gradients.double()).sum(1)

    loss, promise = env.engine.grad(Rows.own(data.x_start, nodes), "train", reduce=along)
    return loss.double(), promise.double()


def _finite(models: Stacks, nodes: Tensor) -> Tensor:
    """Tell whether all numbers of nodes' models are finite, [R]."""
    out = torch.zeros(len(nodes), dtype=torch.bool, device=nodes.device)
    for s, where, places in models.locate(nodes):
        out[where] = torch.isfinite(models.tensors[s][places]).all(1)
    return out


def _mask(data: Data, nodes: Tensor) -> Tensor:
    return torch.zeros_like(data.isolated).index_fill(0, nodes, True)
