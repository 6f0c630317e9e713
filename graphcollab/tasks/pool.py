"""Samples stored once (`Pool`) and who owns which of them (`Split`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Pool", "Split", "not_finite"]


def not_finite(values: Tensor) -> Tensor:
    """Return which samples hold NaN or infinity, as positions; one sum says that none does."""
    if not values.is_floating_point() or bool(torch.isfinite(values.sum())):
        return torch.empty(0, dtype=torch.int64)
    return (~torch.isfinite(values)).reshape(len(values), -1).any(1).nonzero().flatten()


@dataclass(frozen=True)
class Pool:
    """Samples of a dataset, stored once however many nodes use them.

    Args:
        inputs: [N, ...].
        targets: [N] class labels, or [N] or [N, D] real values.

    Raises:
        ValueError: If the lengths differ or a value is not finite (the first such sample is named).
    """

    inputs: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise ValueError(f"{len(self.inputs)} inputs have {len(self.targets)} targets: each input needs one target")
        for kind, values in (("an input", self.inputs), ("a target", self.targets)):
            bad = not_finite(values)
            if len(bad):
                raise ValueError(
                    f"{len(bad)} of {len(values)} samples have {kind} that is NaN or infinite, first at index "
                    f"{int(bad[0])}: clean or drop them before training"
                )

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: torch.device | str) -> Pool:
        """Move the samples to a device."""
        return Pool(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Split:
    """Which samples of a pool every node uses, as one index with pointers.

    Args:
        pool: Name of the pool.
        index: Positions in the pool, node after node, [total].
        ptr: Node k owns ``index[ptr[k]:ptr[k + 1]]``, [K + 1].
    """

    pool: str
    index: Tensor
    ptr: Tensor

    @classmethod
    def from_lists(cls, pool: str, lists: Sequence[Tensor]) -> Split:
        """Build a split from one index tensor per node.

        Example:
            >>> Split.from_lists("train", [torch.tensor([4, 5]), torch.tensor([1])]).sizes.tolist()
            [2, 1]
        """
        sizes = torch.tensor([0, *(len(part) for part in lists)])
        return cls(
            pool, torch.cat([part.long() for part in lists]) if lists else torch.empty(0).long(), sizes.cumsum(0)
        )

    @property
    def num_nodes(self) -> int:
        """K."""
        return len(self.ptr) - 1

    @cached_property
    def sizes(self) -> Tensor:
        """Samples of every node, [K]."""
        return self.ptr.diff()

    def of(self, node: int) -> Tensor:
        """Return one node's positions in the pool."""
        return self.index[int(self.ptr[node]) : int(self.ptr[node + 1])]

    def gather(self, nodes: Tensor, position: Tensor) -> Tensor:
        """Return pool positions of the nodes' samples ``position`` (within the node).

        Shapes:
            nodes: [R]; position: [R, ...], clamped to the node's last sample; output: [R, ...]. A node without samples
            gets a sample of one among the others.
        """
        shape, sizes, begin = (-1,) + (1,) * (position.dim() - 1), self.sizes[nodes], self.ptr[nodes]
        if bool((sizes == 0).any()):
            begin = begin.where(sizes > 0, begin[sizes.argmax()])
        place = begin.view(shape) + torch.minimum(position, (sizes - 1).clamp(min=0).view(shape))
        return self.index[place]

    def select(self, nodes: Tensor) -> Split:
        """Return the split of some nodes, in the order given."""
        return Split.from_lists(self.pool, [self.of(node) for node in nodes.tolist()])
