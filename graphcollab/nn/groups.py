"""Which encoders newcomers use, where parts of the graph that are not connected have trained encoders of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphcollab.errors import ConflictError


def groups_of_newcomers(known_group: Tensor, edge_index: Tensor, names: Sequence[str]) -> Tensor:
    """Return all nodes' groups: of every newcomer, that of those it hears; a ValueError if these differ or are alone.

    ``known_group`` is [K]; edges [2, E] lead from these nodes, then the newcomers, to newcomers, numbered from 0.
    """
    known = len(known_group)
    group = torch.cat([known_group, known_group.new_full((len(names) - known,), -1)])
    for node in range(known, len(names)):
        senders = edge_index[0, (edge_index[1] == node - known) & (edge_index[0] < known)]
        heard = known_group[senders].unique()
        if len(heard[heard >= 0]) > 1:
            one, two = (names[int((known_group == g).nonzero()[0])] for g in heard[heard >= 0][:2])
            raise ConflictError(
                f"node {names[node]!r}",
                f"{names[node]} would hear {one} and {two}, which are not connected and learned different mixers: "
                "say by allowed=... which part of the graph it joins",
            )
        if len(heard) and int(heard[0]) < 0:
            lone = names[int(senders[known_group[senders] < 0][0])]
            raise ConflictError(
                f"node {names[node]!r}",
                f"{names[node]} would hear {lone}, which is alone and has learned no mixer: leave it out by "
                "allowed=...",
            )
        group[node] = heard[0] if len(heard) else -1
    return group
