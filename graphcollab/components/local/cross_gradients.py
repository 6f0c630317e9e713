"""The local slot of methods that step along gradients of the neighbors' data at a node's own model."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.device import beside, pick, read
from graphcollab._base.naming import setting
from graphcollab._base.piece import Field, Readers
from graphcollab._base.settings import Count
from graphcollab.components.allowed import require_both_ways
from graphcollab.components.at_work import edges_in_use
from graphcollab.components.env import Env
from graphcollab.components.guard import cure
from graphcollab.components.local.combine import Combine
from graphcollab.components.local.fit import Fit
from graphcollab.components.slots import Local
from graphcollab.engine import SGD, NonFiniteLossError, Rows
from graphcollab.engine.optimizer import RowOptimizer, as_row_optimizer
from graphcollab.engine.stack import Stacks
from graphcollab.transforms._edges import edge_keys


@dataclass(frozen=True)
class CrossGradients(Local):
    r"""Take one step along a combination of gradients of the own and the neighbors' data at the own model.

    .. math::
        g_j = \nabla f_j(x_i; \xi_j) \text{ for } j \in N(i) \cup \{i\}, \qquad
        x_i \leftarrow \text{step}\Big(x_i, \sum_j c_j g_j\Big)

    Node i sends its model to j, which returns the gradient of its batch, the one of its own step in this round. Data
    never travel. ``combine`` computes the coefficients c; the optimizer's step, with momentum and weight decay,
    follows, and its state is kept from round to round. A node without neighbors steps as under ``Fit(steps=1)``.

    Only the part travels: at node j it replaces that part of j's own model, so nodes with other architectures and other
    backbones can answer; buffers and frozen parameters are also j's. (In training mode running statistics are not
    read.) The rest of a model takes its own gradient's step, and running statistics are updated by the own batch only.

    Node i asks j if j serves and i trains and serves; late models get no answers, and their nodes step along their own
    gradients. Nodes that do not train keep model, state and weights. A node whose own batch has a non-finite loss or
    gradient has ``bad_step`` 0, as under `Fit`. A non-finite answer stops the run; with ``on_nonfinite="isolate"`` the
    answer is left out, with a warning, and between sites its sender counts as away for the receiver.

    Cross-gradients exist for a few receivers at a time, one chunk of the engine's plans in total; those of one receiver
    exist together, whatever their number.

    Args:
        combine: Combination of gradients into a direction: `ProjectedGradient` (CGA) or `ClippedMean` (federated
            clustering).
        batch_size: B.
        optimizer: The update, also by name (`as_row_optimizer`). Default: SGD with step size 0.01 and weight decay
            5e-4.
        part: Part of the model that travels and whose gradients are combined.
        mixed: Whether the exchange mixes the same models (``x_start``), as in CGA. A model that also travels along the
            reverse edge i → j is sent once for both and charged by the exchange.

    Shapes:
        Writes the coefficients as ``edge_weight`` [E]: those of receiver i for the gradient of sender j, and on
        self-loops for its own. Charges P_part floats from i to j and as many back.

    Raises:
        ValueError: If the optimizer has no row-wise form, or an allowed edge has no allowed reverse edge.
    """

    combine: Combine
    batch_size: Count = 10
    optimizer: RowOptimizer = field(default_factory=lambda: SGD(lr=0.01, weight_decay=5e-4))
    part: str = "all"
    mixed: bool = False

    crosses: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = Fit.keeps
    travels: ClassVar[str] = "every node's part to its neighbors, and back the gradients that their data have there"
    told: ClassVar[Readers] = {
        "listeners": "its model, and the gradient of a batch of its samples at theirs",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", as_row_optimizer(self.optimizer))
        super().__post_init__()

    @property
    def agrees(self) -> Mapping[str, object]:
        """The part, if the mixed models are those that travel."""
        return {"part": self.part} if self.mixed else {}

    def local_steps(self, sizes: Tensor) -> Tensor:
        return torch.ones_like(sizes, dtype=torch.float64)

    def init(self, data: Data, env: Env) -> Data:
        require_both_ways(data, env, "a model travels to the neighbor whose data it meets, and its gradient back")
        data.x.part(self.part)
        return self._fit().init(data, env)

    def __call__(self, data: Data, env: Env) -> Data:
        taken, gradients, own = self._own_gradients(data, env)
        able, (sender, receiver) = taken.bad_step < 0, data.edge_index
        weight = data.edge_weight.to(own.dtype).masked_fill(data.trains[receiver], 0)
        direction, share = own.clone(), torch.ones(data.num_nodes, dtype=own.dtype)
        sizes = [math.prod(shape) for shape in data.x.specs[0].part_layout(self.part)]
        chunk = min(plan.chunk for plan in env.engine.plans)
        asked, combined, found = self._asked(data), [], []
        for edges in _by_receiver(receiver, asked, chunk):
            nodes, others = receiver[edges[:, 0]], self._answers(data, env, edges)
            some = (env.plane.is_local(nodes) & able[nodes]).nonzero().flatten()
            nodes, edges, others = nodes[some], edges[some], pick(others, some)
            place = beside(data.x.place(nodes), own)
            lost = ~torch.isfinite(_squares(others))
            torch.where(lost[..., None], own[place][:, None], others, out=others)
            direction[place], coefficient = self.combine(own[place], others, sizes, lost)
            combined.append(edges)
            found += [lost, coefficient]
        numbers = read(*found)
        bad = asked[:0]
        for edges, lost, coefficient in zip(combined, numbers[::2], numbers[1::2], strict=True):
            mine, theirs = coefficient.to(own.dtype).tensor_split([1], 1)
            share[receiver[edges[:, 0]]] = mine[:, 0] + theirs.masked_fill(~lost, 0).sum(1)
            weight[edges] = theirs.masked_fill(lost, 0)
            bad = torch.cat([bad, edges[lost]])
        self._report(data, env, bad)
        own_edge = (sender == receiver) & data.trains[receiver]
        taken.edge_weight = torch.where(own_edge, share[receiver], weight)
        taken = self._count(taken, env, asked)
        return self._step(taken, data, env, gradients.with_part(self.part, direction))

    def alone(self, data: Data, env: Env) -> Data:
        """Detect divergence by steps along nodes' own gradients."""
        return self._fit()(data, env)

    def _fit(self) -> Fit:
        return Fit(steps=1, batch_size=self.batch_size, optimizer=self.optimizer, keep_state=True)

    def _own_gradients(self, data: Data, env: Env) -> tuple[Data, Stacks, Tensor]:
        """Return the data with running statistics and losses of a pass over the batch, and the gradients, 0 at rest.

        The part's gradients are also returned separately. If a loss or one of these is not finite, ``bad_step`` is 0.
        """
        taken, nodes = copy.copy(data), env.plane.local(data.trains.nonzero().flatten())
        models, gradients = list(data.x.tensors), [torch.zeros_like(tensor) for tensor in data.x.tensors]
        taken.train_loss, taken.bad_step = data.train_loss.clone(), torch.full_like(data.node_id, -1)
        trained, losses = [], []
        for s, where, row in data.x.locate(nodes) if len(nodes) else ():
            mine, width = nodes[where], data.x.specs[s].num_parameters
            place = beside(row, data.x.tensors[s])
            loss, gradients[s][place, :width], buffers = self._gradient(Rows.own(data.x, mine), data, env)
            if buffers is not None and buffers.shape[1]:
                models[s] = models[s].clone()
                models[s][place, width:] = buffers
            trained.append(mine)
            losses.append(loss)
        every = data.x.like(gradients)
        own = every.part(self.part)
        finite, *losses = read(torch.isfinite(_squares(own)), *losses)
        for mine, loss in zip(trained, losses, strict=True):
            taken.train_loss[mine] = loss.to(data.train_loss.dtype)
            taken.bad_step[mine[~torch.isfinite(loss)]] = 0
        taken.bad_step[data.x.nodes[~finite]] = 0
        taken.x, taken.fit_step = data.x.like(models), data.fit_step + data.trains.long()
        return taken, every, own

    def _gradient(self, rows: Rows, data: Data, env: Env, part: str = "all") -> tuple[Tensor, Tensor, Tensor | None]:
        """Return losses, gradients and buffers of the round's batches."""
        return env.engine.batch_gradient(rows, seed=env.seed, round_=data.round, batch_size=self.batch_size, part=part)

    def _asked(self, data: Data) -> Tensor:
        """Return the edges whose receivers ask their senders, [A]."""
        sender, receiver = data.edge_index
        asks = data.serves[sender] & (data.serves & data.trains)[receiver]
        return ((sender != receiver) & asks).nonzero().flatten()

    def _report(self, data: Data, env: Env, lost: Tensor) -> None:
        """Stop the run at lost answers, name them, or between parties refuse the senders, given their edges."""
        if env.plane.cross_silo:  # the sender counts as away for those that found it out
            env.plane.refuse(data.edge_index[0, lost])
        elif len(lost):
            sender, receiver = (env.engine.tasks.names[node] for node in data.edge_index[:, lost[0]].tolist())
            subject = f"node {sender!r}"
            what = f"{sender}: the gradient of its data at the model of {receiver} is not finite"
            if not env.isolate:
                raise NonFiniteLossError(
                    subject,
                    f"{what} in round {data.round}: {cure(env)}, check both",
                    f", or leave such answers out by {setting(on_nonfinite='isolate')}",
                )
            issue("diverged", subject, f"{what}: it is left out")

    def _answers(self, data: Data, env: Env, edges: Tensor) -> Tensor:
        """Return the gradients [R, m, P_part] of senders' data at receivers' models, along edges [R, m]."""
        sender, receiver = data.edge_index[:, edges.flatten()]
        rows = Rows.with_part_of(data.x, sender, receiver, self.part)
        answers = env.plane.evaluate_at(rows, lambda rows: self._gradient(rows, data, env, self.part)[1], to="model")
        return answers.unflatten(0, edges.shape)

    def _count(self, data: Data, env: Env, asked: Tensor) -> Data:
        sender, receiver = data.edge_index[:, asked]
        width = data.x.part(self.part).shape[1]
        data = env.plane.charge(data, sender, width)
        if self.mixed:
            in_use = edges_in_use(data)
            used = data.edge_index if in_use is None else data.edge_index[:, in_use]
            pairs = data.edge_index[:, asked], used.flip(0)
            back = torch.isin(*(edge_keys(edges, data.num_nodes) for edges in pairs))
            receiver = receiver[~back]
        return env.plane.charge(data, receiver, width)

    def _step(self, taken: Data, data: Data, env: Env, direction: Stacks) -> Data:
        models, state = list(taken.x.tensors), {slot: list(s.tensors) for slot, s in data.fit_state.items()}
        stepped, finite = [], []
        for s, (spec, members) in enumerate(zip(data.x.specs, data.x.members, strict=True)):
            rows = data.trains[members].nonzero().flatten()
            place = beside(rows, models[s])
            width, new = spec.num_parameters, models[s][place]
            moved = {slot: many[s][place] for slot, many in state.items()}
            moments = {slot: [m[:, :width]] for slot, m in moved.items()}
            gradient, taken_steps = direction.tensors[s][place, :width], beside(data.fit_step[members[rows]], new)
            self.optimizer.update([new[:, :width]], [gradient], moments, taken_steps)
            models[s] = models[s].index_copy(0, place, new)
            for slot, m in moved.items():
                state[slot][s] = state[slot][s].index_copy(0, place, m)
            stepped.append(members[rows])
            finite.append(torch.isfinite(new.sum(1)))
        lost = torch.cat(stepped)[~torch.cat(read(*finite))]
        taken.bad_step = taken.bad_step.index_fill(0, lost[taken.bad_step[lost] < 0], 1)
        taken.x = data.x.like(models)
        taken.fit_state = {slot: data.x.like(many) for slot, many in state.items()}
        return taken


def _squares(gradients: Tensor) -> Tensor:
    """Return squared norms; non-finite if inner products with the gradients are."""
    return torch.linalg.vector_norm(gradients, dim=-1, dtype=torch.float64).square()


def _by_receiver(receiver: Tensor, edges: Tensor, chunk: int) -> Iterator[Tensor]:
    """Yield edges as [R, m], one receiver per row, for receivers with equally many; at most a chunk unless R is 1."""
    edges = edges[receiver[edges].argsort(stable=True)]
    degree = torch.bincount(receiver[edges], minlength=int(receiver.max()) + 1 if len(receiver) else 0)
    for many in degree[degree > 0].unique().tolist():
        yield from edges[degree[receiver[edges]] == many].view(-1, many).split(max(chunk // many, 1))
