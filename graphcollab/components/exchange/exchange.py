"""The exchange slot: a base plus a weighted sum of messages that arrive along a route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.checks import issue
from graphcollab._base.device import beside
from graphcollab._base.errors import DuplicateError
from graphcollab._base.piece import Readers, updated
from graphcollab._base.settings import Buffers, NonNegative, Positive
from graphcollab.components.allowed import components
from graphcollab.components.env import Env
from graphcollab.components.exchange.route import AlongEdges, Route, Sent, Ways
from graphcollab.components.exchange.servers import ThroughServer
from graphcollab.components.slots import Exchanger
from graphcollab.data.schedule import local_steps
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.engine.stack import Stacks


def buffers_travel(models: Stacks, buffers: Buffers) -> bool:
    """Return whether buffers are averaged: this is requested, and every architecture has some."""
    return buffers == "average" and all("buffers" in spec.parts for spec in models.specs)


def buffers_width(models: Stacks, buffers: Buffers) -> int:
    """Return the number of buffer entries that travel with every exchanged model."""
    return models.part("buffers").shape[1] if buffers_travel(models, buffers) else 0


@dataclass(frozen=True)
class Exchange(Exchanger):
    r"""A base plus a weighted sum of messages, sent along a route.

    .. math::
        x_i \leftarrow b_i + s \sum_j w_{ij} m_j \qquad \text{or} \qquad
        x_i \leftarrow b_i + s \sum_j w_{ij} (m_j - a_i)

    Base and message are each one of ``"x"`` (after the local update), ``"x_start"`` (before it), ``"update"``
    (x − x_start) and ``"zero"``. Model averaging is ``Exchange("zero", "x")``, L2C ``Exchange("x_start", "update")``,
    DPSGD ``Exchange("update", "x_start")``. The second form pulls towards the senders: CoBo's step along the weighted
    Laplacian is ``Exchange("x", "x_start", against="x_start", scale=ηρ)``. The route defines which nodes hear which,
    with which weights, and which nodes are charged:

    - `AlongEdges`: nodes hear their neighbors, with the weigher's weights. `AtServer`: a server does the mixing.
      `NeighborhoodMeans`: it averages over participating neighbors, also for nodes at rest.
    - `ThroughServer`: all nodes of a server get one average, of base, message and a alike; with a server's step size s
      it is ``Exchange("x_start", "update", scale=s)``, from the mean of the models at the start of the round.
    - `ThroughCenters`: the same within every cluster, and the servers keep the averages.

    Args:
        base: b.
        message: m.
        part: Part of the model that is exchanged; the rest stays with the node. It may combine several parts, such as
            ``"backbone+head"``, which must be contiguous if models do not go through a server.
        buffers: ``"keep"``: every node keeps its buffers (running statistics); otherwise they are averaged with the
            same weights, whatever base and message are; if models pull (a is given), so do buffers.
        against: a, one of ``"x"``, ``"x_start"`` and ``"update"``. Default: the first form.
        scale: s.
        route: The route of the models.

    Raises:
        ValueError: If a part is named twice.
    """

    base: Literal["zero", "x", "x_start", "update"] = "zero"
    message: Literal["x", "x_start", "update"] = "x"
    part: str = "all"
    buffers: Buffers = "keep"
    against: Literal["x", "x_start", "update"] | None = None
    scale: Positive = 1.0
    route: Route = field(default_factory=AlongEdges)

    shared: ClassVar[tuple[str, ...]] = ("part", "buffers")

    def __post_init__(self) -> None:
        super().__post_init__()
        named = self.part.split("+")
        if len({*named}) < len(named) or ("all" in named and len(named) > 1):
            raise DuplicateError(
                "part", f"every part is exchanged once: name each once, and 'all' alone, got {self.part!r}"
            )

    @property
    def along_edges(self) -> bool:
        return self.route.along_edges

    @property
    def serves_start(self) -> bool:
        return self.message in ("x_start", "update")

    @property
    def serves_rest(self) -> bool:
        return self.route.serves_rest

    @property
    def told(self) -> Readers:
        return self.route.carries

    def init(self, data: Data, env: Env) -> Data:
        for part in self.route.parts(self.part):
            data.x.part(part)
        return self.route.init(data, env)

    def hears(self, data: Data, env: Env) -> list[Tensor]:
        parts = self._parts(data) if self.at_server(data) is None else []
        return [term(data, env, self._formula(part)[1], part) for part in parts]

    def __call__(self, data: Data, env: Env) -> Data:
        ways = self.route.ways(data, self.against is not None)
        before, parts = data.x, self._parts(data)
        sent = [self._sent(data, env, part) for part in parts]
        sums: Mapping[str, Tensor] = dict(zip(parts, ways.sums(env, sent), strict=True))
        data, sums = self.route.land(data, sums)
        new, width = before, 0
        for (part, total), one in zip(sums.items(), sent, strict=True):
            mixed = total if ways.home is None else _with_base(env, ways, one, ways.gather(env, total))
            new = new.with_part(part, ways.unless_kept(env, mixed, before.part(part)))
            width += total.shape[1]
        return self.settle(updated(self.route.charge(data, env, ways, width), x=new, x_local=before), env)

    def settle(self, data: Data, env: Env) -> Data:
        """Return the data with the final models, ``x``; a hook for exchanges that also need ``x_local``."""
        return data

    def at_server(self, data: Data) -> Tensor | None:
        return self.route.at_server(data)

    def shares(self, data: Data) -> Tensor:
        if isinstance(self.route, AlongEdges):
            return self.route.shares(data, self.against is not None)[0]
        return super().shares(data)

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        r""":math:`\langle \partial L_i / \partial x_i, m_j \rangle`, in the round of the exchange only."""
        if not isinstance(self.route, AlongEdges):
            return super().weight_gradient(data, env, cotangent)
        sent = updated(data, x=data.x_local)
        gradient = env.plane.products(cotangent, term(sent, env, self.message, self.part), data.edge_index)
        if self.against is not None:
            own = (cotangent * term(sent, env, self.against, self.part)).sum(1).cpu()
            gradient = gradient - env.plane.from_local(own)[data.edge_index[1]]
        gradient = gradient if self.scale == 1 else self.scale * gradient
        given = updated(data, edge_weight=data.edge_weight.detach().requires_grad_())
        with torch.enable_grad():
            share, _ = self.route.shares(given, self.against is not None)
            if share is given.edge_weight:
                return gradient
            (gradient,) = torch.autograd.grad(share, given.edge_weight, gradient)
        return gradient

    def _parts(self, data: Data) -> list[str]:
        return [*self.route.parts(self.part), *(["buffers"] if buffers_travel(data.x, self.buffers) else [])]

    def _formula(self, part: str) -> tuple[str, str, str | None, float]:
        """Return base, message, a and scale of a part: buffers are averaged, or pulled at their current values."""
        if part != "buffers":
            return self.base, self.message, self.against, self.scale
        return ("zero", "x", None, 1.0) if self.against is None else ("x", "x", "x", self.scale)

    def _sent(self, data: Data, env: Env, part: str) -> Sent:
        """Servers get b + s (m − a), since base and a are averaged in the same way there."""
        base, message, against, scale = self._formula(part)
        sent = term(data, env, message, part)
        if self.along_edges:
            own = None if base == "zero" else term(data, env, base, part)
            return Sent(sent, scale, own, None if against is None else term(data, env, against, part))
        if against is not None:
            sent = sent - term(data, env, against, part)
        sent = sent if scale == 1 else scale * sent
        return Sent(sent if base == "zero" else term(data, env, base, part) + sent)


@dataclass(frozen=True)
class LaplacianPull(Exchange):
    r"""An `Exchange` along the weighted Laplacian at the start of the round that warns if its step is too large.

    .. math:: X \leftarrow X - \eta\rho\, L_w X^0

    with :math:`X^0` the models at the start of the round and X those after the local step of size η. The step is stable
    if :math:`\eta (L + \rho \lambda_{\max}(L_w)) < 2` for L-smooth losses; with all K nodes at weight 1,
    :math:`\lambda_{\max} = K`, so ρ must shrink as K grows. A run that may leave this bound begins with a warning. It
    takes a λ that no weights exceed: twice the largest sum of a receiver's weights, or the number of nodes of the
    largest component if that is smaller. Nodes that are late or away do not pull. See `cobo`.

    Args:
        scale: ηρ.
        lr: η, the step size of the local step.
        smoothness: L, if known. Default: 0, so only the pull's own part is checked.
        domain: ``"box"``: every weight is at most 1; ``"simplex"``: a receiver's weights sum to at most 1.
    """

    base: Literal["zero", "x", "x_start", "update"] = "x"
    message: Literal["x", "x_start", "update"] = "x_start"
    against: Literal["x", "x_start", "update"] | None = "x_start"
    scale: Positive = 5e-4
    lr: Positive = 0.01
    smoothness: NonNegative = 0.0
    domain: Literal["box", "simplex"] = "box"

    def init(self, data: Data, env: Env) -> Data:
        """Warn if the step is not stable for all weights that the domain allows."""
        sender, receiver = data.edge_index
        others = torch.bincount(receiver[sender != receiver], minlength=1).max()
        heard = int(others) if self.domain == "box" else 1  # the largest sum of a receiver's weights
        largest = min(2 * heard, int(torch.bincount(components(data)).max()))
        reach = self.lr * self.smoothness + self.scale * largest
        if reach >= 2:
            issue(
                "range",
                "lr",
                f"lr (L + rho λ) = {self.lr:g} ({self.smoothness:g} + {self.scale / self.lr:g} · {largest}) = "
                f"{reach:.3g} is not below 2, the bound of stability: models may diverge; use rho below "
                f"{max(2 / self.lr - self.smoothness, 0) / largest:.3g} or a smaller lr",
            )
        return super().init(data, env)


@dataclass(frozen=True)
class ShrinkIntercepts(Exchange):
    r"""An `Exchange` through a server that moves a node's intercept only partly to the mean.

    .. math::
        \alpha_k \leftarrow \bar\alpha + \frac{\alpha_k - \bar\alpha}{1 + \eta T_k \nu / n_k}

    after :math:`T_k` local steps of size η on :math:`n_k` samples: the proximal step of a pull
    :math:`\frac{\nu}{2 n_k} \lVert \alpha_k - \bar\alpha \rVert^2` beside the mean loss, exact for plain SGD. Nodes
    that have not trained keep their intercepts. See `partial_pooling`.

    Args:
        shrink: ν.
        taken: The local steps that nodes take in a round, with their step size.
    """

    part: str = "slopes+intercept"
    route: Route = field(default_factory=ThroughServer)
    shrink: NonNegative = 0.0
    taken: LocalSteps = field(default_factory=LocalSteps)

    def settle(self, data: Data, env: Env) -> Data:
        trained = data.trains & data.serves
        sizes = env.engine.tasks.sizes("train")
        steps = local_steps(sizes, self.taken.batch_size, self.taken.epochs, self.taken.steps)
        pull = self.taken.optimizer.lr * self.shrink * steps * trained / sizes.clamp(min=1)  # [K]
        own, mean = data.x_local.part("intercept"), data.x.part("intercept")
        kept = beside(env.plane.local_values(1 / (1 + pull))[:, None].to(own.dtype), own)
        return updated(data, x=data.x.with_part("intercept", torch.lerp(mean, own, kept)))


def _with_base(env: Env, ways: Ways, sent: Sent, mixed: Tensor) -> Tensor:
    """Return b_i + s Σ w (m − a_i), [k, P], given the nodes' sums s Σ w m."""
    if sent.against is not None:
        total = sent.scale * scatter(ways.weight, ways.edge_index[1], dim_size=ways.places)
        total = env.plane.local_values(total[ways.home])
        mixed = torch.addcmul(mixed, sent.against, beside(total[:, None].to(mixed.dtype), mixed), value=-1)
    return mixed if sent.base is None else mixed + sent.base


def term(data: Data, env: Env, name: str, part: str) -> Tensor:
    """Return a term of an exchange by its name, [k, P_part]."""
    if name == "update":
        return env.plane.change(data.x.part(part), data.x_start.part(part))
    rows: Tensor = data[name].part(part)
    return rows
