"""A check for weighers that weigh a node's own model."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from graphcollab.typing import Env

__all__ = ["require_self_loops"]


def require_self_loops(data: Data, env: Env, what: str) -> None:
    """Check that every node hears itself.

    Args:
        data: The graph.
        env: What pieces may use.
        what: What needs it, to begin a sentence with.

    Raises:
        ValueError: If a node has no self-loop; it is named.
    """
    sender, receiver = data.edge_index
    heard = torch.zeros(data.num_nodes, dtype=torch.bool, device=sender.device)
    heard[sender[sender == receiver]] = True
    if not bool(heard.all()):
        node = env.engine.tasks.names[int((~heard).nonzero()[0])]
        raise ValueError(f"{what}, and {node} has no self-loop: use prepare=WithSelfLoops()")
