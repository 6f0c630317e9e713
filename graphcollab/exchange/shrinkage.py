"""`ShrinkIntercepts`: models are averaged, and intercepts pulled to their mean."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch
from torch_geometric.data import Data

from graphcollab.device import beside
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.env import Env
from graphcollab.exchange.exchange import Exchange
from graphcollab.exchange.route import Route
from graphcollab.exchange.servers import ThroughServer
from graphcollab.settings import NonNegative
from graphcollab.tasks.schedule import local_steps


@dataclass(frozen=True)
class ShrinkIntercepts(Exchange):
    r"""An `Exchange` through a server, of which a node's intercept takes a step to the mean.

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
        data, trained = copy.copy(data), data.trains & data.serves
        sizes = env.engine.tasks.sizes("train")
        steps = local_steps(sizes, self.taken.batch_size, self.taken.epochs, self.taken.steps)
        pull = self.taken.optimizer.lr * self.shrink * steps * trained / sizes.clamp(min=1)  # [K]
        own, mean = data.x_local.part("intercept"), data.x.part("intercept")
        kept = beside(env.plane.mine(1 / (1 + pull))[:, None].to(own.dtype), own)
        data.x = data.x.with_part("intercept", torch.lerp(mean, own, kept))
        return data
