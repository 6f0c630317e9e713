"""`Mixers`: the encoders of meta-L2C where parts of the graph that are not connected train their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphcollab.device import beside, pick
from graphcollab.nn.mixer import Mixer
from graphcollab.stack import ParamSpec

__all__ = ["Mixers"]


@dataclass(frozen=True)
class Mixers:
    """One `Mixer` per group of nodes, used like a single one.

    Args:
        mixers: One per group.
        group: Every node's group, [K]; -1 of a node that is alone, whose code is 0.

    Example:
        >>> spec = ParamSpec.from_module(torch.nn.Linear(3, 2))
        >>> mixers = Mixers.shared(Mixer.create(spec, seed=0), torch.tensor([0, 1, 0, 1, -1]))
        >>> len(mixers.mixers), mixers.encode(torch.zeros(5, 8), spec).shape
        (2, torch.Size([5, 10]))
    """

    mixers: tuple[Mixer, ...]
    group: Tensor

    @classmethod
    def shared(cls, mixer: Mixer, group: Tensor) -> Mixer | Mixers:
        """Give every group the same mixer to start from; return the mixer itself where all nodes are one group."""
        if not bool(group.any()):
            return mixer
        return cls((mixer,) * max(int(group.max()) + 1, 1), group)

    def of(self, node: int | None = None) -> Mixer:
        """Return a node's mixer, or the only one.

        Raises:
            ValueError: If the node has none, since it is alone, or none is named and there are several.
        """
        if node is None:
            if len(self.mixers) > 1:
                raise ValueError(
                    f"{len(self.mixers)} parts of the graph, which are not connected, trained a mixer each: say whose "
                    "is to be saved by node=..."
                )
            return self.mixers[0]
        if int(self.group[node]) < 0:
            raise ValueError(f"node {node} has no neighbours, and so no encoders: choose a node that has some")
        return self.mixers[int(self.group[node])]

    def with_newcomers(self, edge_index: Tensor, names: Sequence[str]) -> Mixers:
        """Return the mixers of these nodes and of others who hear them: of every newcomer, that of those it hears.

        Args:
            edge_index: Edges from these nodes (then the newcomers) to newcomers, who are numbered from 0, [2, E].
            names: Names of all nodes.

        Raises:
            ValueError: If a newcomer hears nodes with different mixers, or one that is alone.
        """
        known = len(self.group)
        if len(self.mixers) == 1:  # the others are alone
            return replace(self, group=self.group.new_zeros(len(names)))
        group = torch.cat([self.group, self.group.new_full((len(names) - known,), -1)])
        for node in range(known, len(names)):
            senders = edge_index[0, (edge_index[1] == node - known) & (edge_index[0] < known)]
            heard = self.group[senders].unique()
            if len(heard[heard >= 0]) > 1:
                one, two = (names[int((self.group == g).nonzero()[0])] for g in heard[heard >= 0][:2])
                raise ValueError(
                    f"{names[node]} would hear {one} and {two}, which are not connected and learned different mixers: "
                    "say by allowed=... which part of the graph it joins"
                )
            if len(heard) and int(heard[0]) < 0:
                lone = names[int(senders[self.group[senders] < 0][0])]
                raise ValueError(
                    f"{names[node]} would hear {lone}, which is alone and has learned no mixer: leave it out by "
                    "allowed=..."
                )
            group[node] = heard[0] if len(heard) else -1
        return replace(self, group=group)

    def encode(self, change: Tensor, spec: ParamSpec, part: str = "all", nodes: Tensor | None = None) -> Tensor:
        """Encode changes of some nodes' models [k, P_part] as [k, D], every node's by its own mixer. Default: all."""
        group = self.group if nodes is None else self.group[nodes]
        rows = [(group == g).nonzero().flatten() for g in range(len(self.mixers))]
        codes = [mixer.encode(pick(change, some), spec, part) for mixer, some in zip(self.mixers, rows, strict=True)]
        zeros = codes[0].new_zeros(len(change), codes[0].shape[1])
        return zeros.index_copy(0, beside(torch.cat(rows), change), torch.cat(codes))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Parameters of all mixers, ``<group>/<name>``."""
        return {f"{g}/{name}": tensor for g, one in enumerate(self.mixers) for name, tensor in one.tensors.items()}

    @property
    def num_parameters(self) -> int:
        """Parameters of one mixer."""
        return self.mixers[0].num_parameters

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Mixers:
        """Return the mixers with other parameters, named as in `tensors`."""
        return replace(
            self,
            mixers=tuple(
                one.with_tensors({name: tensors[f"{g}/{name}"] for name in one.tensors})
                for g, one in enumerate(self.mixers)
            ),
        )

    def to(self, *args: object, **kwargs: object) -> Mixers:
        """Move the encoders to a device."""
        moved = tuple(one.to(*args, **kwargs) for one in self.mixers)
        return replace(self, mixers=moved)

    def cpu(self) -> Mixers:
        """Move to the CPU, as ``Data.cpu`` asks."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Mixers:
        """Move to a GPU, as ``Data.cuda`` asks."""
        return self.to(torch.device("cuda") if device is None else device, non_blocking=non_blocking)

    def clone(self) -> Mixers:
        """Copy the tensors, as ``Data.clone`` asks."""
        return replace(self, mixers=tuple(one.clone() for one in self.mixers), group=self.group.clone())
