"""What metrics of graphs need to know about edges."""

from __future__ import annotations

from torch import Tensor

__all__ = ["check_edges"]


def check_edges(edge_index: Tensor, edge_weight: Tensor, count: int, where: str = "") -> None:
    """Check that there is one number per edge, none of them NaN, and that edges join nodes 0 to K - 1.

    Args:
        edge_index: Edges j -> i.
        edge_weight: One number per edge.
        count: K.
        where: What an error begins with, such as ``"round 3: "``.

    Shapes:
        edge_index: [2, E].
        edge_weight: [E].

    Raises:
        ValueError: If not.
    """
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_weight.shape != edge_index.shape[1:]:
        raise ValueError(
            f"{where}expected edge_index [2, E] and edge_weight [E], "
            f"got {list(edge_index.shape)} and {list(edge_weight.shape)}"
        )
    if bool(edge_weight.isnan().any()):
        raise ValueError(f"{where}edge_weight of edge {int(edge_weight.isnan().nonzero()[0])} is NaN")
    outside = ((edge_index < 0) | (edge_index >= count)).any(dim=0)
    if bool(outside.any()):
        edge = int(outside.nonzero()[0])
        sender, receiver = edge_index[:, edge].tolist()
        raise ValueError(f"{where}edge {edge} ({sender} -> {receiver}) is out of range for {count} nodes")
