"""The rewire slot: client sampling."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from graphcollab.keyed import keyed_order
from graphcollab.piece import Rewiring
from graphcollab.rewire.at_round import Keep
from graphcollab.settings import Share
from graphcollab.typing import Env

__all__ = ["SampleNodes", "sample_nodes"]

_SAMPLE_STREAM = 107


@dataclass(frozen=True)
class SampleNodes(Rewiring):
    """Every round a random share of the nodes works; the others rest.

    Args:
        fraction: Share of the K nodes (of those that have joined and not left), rounded, at least one.
    """

    fraction: Share

    def init(self, data: Data, env: Env) -> Data:
        """Draw the first round's nodes."""
        return self._draw(data, env, data.round)

    def __call__(self, data: Data, env: Env) -> Data:
        """Draw the next round's nodes."""
        return self._draw(data, env, data.round + 1)

    def _draw(self, data: Data, env: Env, round_: int) -> Data:
        count = max(math.floor(self.fraction * int(data.present.sum()) + 0.5), 1)
        order = keyed_order(env.seed, _SAMPLE_STREAM, data.node_id, round_)
        chosen = order[data.present[order]][:count]
        mask = torch.zeros(data.num_nodes, dtype=torch.bool, device=data.node_id.device)
        mask[chosen] = True
        data = copy.copy(data)
        data.trains = data.serves = mask & ~data.isolated
        return data


def sample_nodes(fraction: float) -> SampleNodes | Keep:
    """Return the rewiring under which a share of the nodes works: `SampleNodes`, or `Keep` where the share is 1.

    Raises:
        ValueError: If the share is not in (0, 1].
    """
    return Keep() if fraction == 1 else SampleNodes(fraction)
