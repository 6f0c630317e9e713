"""IFCA's route: every cluster has a server, whose model the nodes that chose it move."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.device import beside
from graphcollab.exchange.route import Route, Ways
from graphcollab.exchange.servers import SERVER, places, sends_to_server
from graphcollab.exchange.through_server import link_weights
from graphcollab.piece import Field

__all__ = ["ThroughCenters"]


@dataclass(frozen=True)
class ThroughCenters(Route):
    r"""Models go up to the centre that their node has chosen (`ChooseCenter`), and move it.

    From `An Efficient Framework for Clustered Federated Learning (Ghosh et al., NeurIPS 2020)
    <https://arxiv.org/abs/2006.04088>`_, algorithm 1, with S_j the nodes at work that chose centre j, m nodes at work
    in all, and x_i what node i made of θ_j: by model averaging, or by gradient averaging, where x_i is one step
    :math:`\theta_j - \gamma g_i` away,

    .. math::
        \theta_j \leftarrow \frac{1}{|S_j|} \sum_{i \in S_j} x_i \qquad \text{or} \qquad
        \theta_j \leftarrow \theta_j + \frac{1}{m} \sum_{i \in S_j} (x_i - \theta_j)
        = \theta_j - \frac{\gamma}{m} \sum_{i \in S_j} g_i

    Both are a step from θ_j towards the mean of what came: a whole one, or :math:`|S_j| / m` of one. A centre that
    nobody at work has chosen stays. Every node then holds the centre it had chosen, until it chooses again. A node that
    sends is charged all C centres down and d floats up. Where edges were given, all of this holds for every connected
    component by itself, see `ChooseCenter`.

    Args:
        weights: ``"uniform"``: all nodes count alike; ``"counts"``: by their training samples.
        divide: ``"cluster"``: model averaging; ``"all"``: gradient averaging, which divides by all nodes. Buffers are
            averaged under either form.
    """

    weights: Literal["counts", "uniform"] = "uniform"
    divide: Literal["all", "cluster"] = "cluster"

    along_edges: ClassVar[bool] = False
    shares_base: ClassVar[bool] = True
    serves_rest: ClassVar[bool] = True
    beyond_edges: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = (
        SERVER,
        Field("centers", "replicated", "the servers' models by part, [C, P_part] each, component by component", "run"),
        Field("center_count", "scalar", "C"),
    )
    travels: ClassVar[str] = "nodes at work: 4 · (C + 1) · P bytes, all C centres down and one model up"

    def ways(self, data: Data, pulls: bool = False) -> Ways:
        """Return the links to centres.

        Raises:
            ValueError: If there are no centres, since no `ChooseCenter` has drawn them.
        """
        if "centers" not in data:
            raise ValueError("ThroughCenters needs centres: use rewire=ChooseCenter(...) of the same part")
        home = places(data.server)
        weight, _ = link_weights(data, self.weights)
        return Ways(data.server.edge_index, weight, data.server.size[1], home, data.isolated | (home < 0))

    def land(self, data: Data, sums: Mapping[str, Tensor]) -> tuple[Data, Mapping[str, Tensor]]:
        """Move the centres towards what came, and keep them."""
        _, total = link_weights(data, self.weights)
        heard = (total > 0).to(total.dtype)
        groups = total.view(-1, data.center_count)  # of connected components
        share = (groups / groups.sum(1, keepdim=True).clamp(min=torch.finfo(total.dtype).tiny)).flatten()
        before, data = data.centers, copy.copy(data)
        data.centers = {}
        for part, mean in sums.items():
            step = beside((share if self._shortens(part) else heard)[:, None], mean)
            data.centers[part] = torch.lerp(before[part], mean, step)
        return data, data.centers

    def _shortens(self, part: str) -> bool:
        return self.divide == "all" and part != "buffers"

    def at_server(self, data: Data) -> Tensor:
        """Nodes at work that have a centre."""
        return sends_to_server(data)

    def comes_down(self, data: Data) -> int:
        """All centres: a node tries each of them before it chooses."""
        return int(data.center_count)
