"""IFCA's exchange: every cluster's server moves its centre by what the nodes that chose it have learned."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch_geometric.data import Data

from graphcollab.exchange.centers import take_centers
from graphcollab.exchange.server_average import ServerAverage, parts_that_travel, per_server, places
from graphcollab.ops import mix

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["CenterAverage"]


@dataclass(frozen=True)
class CenterAverage(ServerAverage):
    r"""Update the centres that `ChooseCenter` lets nodes choose.

    From `An Efficient Framework for Clustered Federated Learning (Ghosh et al., NeurIPS 2020)
    <https://arxiv.org/abs/2006.04088>`_, algorithm 1, with S_j the nodes at work that chose centre j, m nodes at work
    in all, and x_i what node i made of θ_j: by model averaging, or by gradient averaging, where x_i is one step
    :math:`\theta_j - \gamma g_i` away,

    .. math::
        \theta_j \leftarrow \frac{1}{|S_j|} \sum_{i \in S_j} x_i \qquad \text{or} \qquad
        \theta_j \leftarrow \theta_j + \frac{1}{m} \sum_{i \in S_j} (x_i - \theta_j)
        = \theta_j - \frac{\gamma}{m} \sum_{i \in S_j} g_i

    A centre that nobody at work has chosen stays. Every node then holds the centre it had chosen, until it chooses
    again. A node that sends is charged all C centres down and d floats up. Where edges were given, all of this holds
    for every connected component by itself, see `ChooseCenter`.

    Args:
        part: Part of the model that centres are of; the rest stays with the node.
        buffers: ``"average"``: a centre has buffers (running statistics) of its own, the means of its nodes' under
            either form; ``"keep"``: buffers stay with the node.
        weights: ``"uniform"``: all nodes count alike; ``"counts"``: by their training samples.
        divide: ``"cluster"``: model averaging; ``"all"``: gradient averaging. The second divides by all nodes, so the
            step of a centre is shortened to the share of the nodes that chose it.

    Raises:
        ValueError: If a setting is none of those named.

    Example:
        >>> CenterAverage(divide="all")
        CenterAverage(part='all', buffers='average', weights='uniform', divide='all')
    """

    weights: str = "uniform"
    within: str | None = field(default=None, init=False, repr=False)
    lr: float = field(default=1.0, init=False, repr=False)
    incomplete: str = field(default="refuse", init=False, repr=False)  # ChooseCenter connects nodes to servers
    divide: str = "cluster"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.divide not in ("all", "cluster"):
            raise ValueError(f"divide must be 'all' or 'cluster', got {self.divide!r}")

    def init(self, data: Data, env: Env) -> Data:
        """Check that the part can be shared."""
        data.x.part(self.part)
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Average up, send down.

        Raises:
            ValueError: If there are no centres of the part, since no `ChooseCenter` has drawn them.
        """
        parts = parts_that_travel(data.x, self.part, self.buffers)
        if "centers" not in data or [*data.centers] != parts:
            raise ValueError(f"CenterAverage needs centres of {parts}: use rewire=ChooseCenter(...) of the same part")
        server, sent = data.server, self._sent(data)
        node, place = server.edge_index
        total = per_server(sent, server)
        tiny = torch.finfo(sent.dtype).tiny
        of_part = total.view(-1, data.center_count).sum(1)  # what counts in every connected component
        of_all = sent / of_part[place // data.center_count].clamp(min=tiny)
        of_cluster = sent / total[place].clamp(min=tiny)
        centers, width = {}, 0
        for part in parts:
            rows, old = data.x.part(part), data.centers[part]
            steps = self.divide == "all" and part != "buffers"
            up = rows - data.x_start.part(part) if steps else rows
            weight = of_all if steps else of_cluster
            mixed = mix(env.comm.halo(up, server.edge_index), weight, server.edge_index, server.size[1])
            centers[part] = old + mixed if steps else torch.where(total[:, None] > 0, mixed, old)
            width += old.shape[1]
        data = env.comm.count(data, node[sent > 0], (data.center_count + 1) * width)
        data = copy.copy(data)
        home = places(server)
        data.x, data.x_local = take_centers(data.x, centers, home).where(data.isolated | (home < 0), data.x), data.x
        data.centers = centers
        return data
