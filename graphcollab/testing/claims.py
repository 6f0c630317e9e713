"""What the checks of the contract have in common: how values are compared, and what they raise."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.method import Method
from graphcollab.phases import Phases
from graphcollab.stack import Stacks

__all__ = ["AnyMethod", "NotApplicable", "close", "dense", "require", "rounds_of", "rows"]

AnyMethod = Method | Phases

SOON = 3  # rounds; what begins later is left to settings that make it begin earlier
TOLERANCE = 1e-9  # relative to one: scenes are in double precision


class NotApplicable(Exception):
    """A check says nothing about a method; the message tells why."""


def rounds_of(method: AnyMethod) -> int:
    """Return in how many rounds a method shows what it does: two, or until its last phase has begun, if that is soon.

    Example:
        >>> from graphcollab.methods import local, pens
        >>> rounds_of(local()), rounds_of(Phases(local(), 1, pens(explore_rounds=2))), rounds_of(pens())
        (2, 3, 2)
    """
    last = 0
    while isinstance(method, Phases):
        last, method = method.until, method.next
    return last + 1 if 1 < last <= SOON else 2


def rows(models: Stacks) -> Tensor:
    """Return parameters and buffers of all nodes, [K, columns]."""
    return models.tensors[0]


def dense(data: Data) -> Tensor:
    """Return the edge weights as a matrix [K, K], receivers in rows."""
    matrix = data.edge_weight.new_zeros(data.num_nodes, data.num_nodes)
    return matrix.index_put((data.edge_index[1], data.edge_index[0]), data.edge_weight)


def close(one: Tensor, two: Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    """Require that two tensors are equal up to rounding."""
    apart, size = (float(values.abs().max()) if values.numel() else 0.0 for values in (one - two, one))
    require(apart <= tolerance * max(1.0, size), f"{what} differ by up to {apart:.3g}")


def require(holds: bool, message: str) -> None:
    """Raise ``AssertionError`` with a message unless something holds."""
    if not holds:
        raise AssertionError(message)
