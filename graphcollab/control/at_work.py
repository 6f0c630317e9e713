"""Who is at work in a round, which edges are in use then, and what the others' weights become."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.keyed import keyed_uniform
from graphcollab.naming import Node, find_node, numbered
from graphcollab.settings import Count, Fraction, check_settings
from graphcollab.typing import Env

__all__ = [
    "Attendance",
    "attend",
    "count_messages",
    "crossing_edges",
    "dismiss",
    "edges_in_use",
    "has_neighbors",
    "membership",
    "serving",
    "weights_in_use",
]

Rounds: TypeAlias = Annotated[
    Mapping[Node, Count], "a mapping of nodes, by name or node_id, to whole numbers of at least 1"
]

_DROP_STREAM, _LATE_STREAM = 121, 122


@dataclass(frozen=True)
class Attendance:
    """Who takes part in a round: not those who are away, come late, have not joined yet or have left.

    Before it joins and after it has left, a node neither trains nor serves, and no pair with it is touched. One that
    joins starts with the model and the edge weights it has, those of the run's start (under a server, with the last
    average that the server has sent to everyone). One that has left gets nothing any more: it keeps the model that it
    had when it left, whatever the method is, and means over nodes are without it. Rounds count from 0 at the run's
    start, as in `graphcollab.Phases`.

    Of the others a node that is away neither trains nor serves in that round. A late one trains, and merges what others
    sent, but its own model misses the round: nobody waits for it, so pairs with it are skipped, and it is dropped, not
    delivered in a later round. Both are drawn anew for every node and round, from (seed, ``node_id``, round).

    Args:
        drop: Probability to be away.
        late: Probability to be late, of nodes that are not away.
        joins: First round of nodes that are not there from the start, by name or ``node_id`` (which is their position
            unless the tasks say otherwise; where all names are whole numbers, a number is a name).
        leaves: First round without them of nodes that leave, likewise.

    Raises:
        ValueError: If a node leaves before it has played a round.

    Example:
        >>> data = Data(node_id=torch.arange(3))
        >>> elastic = Attendance(joins={2: 5}, leaves={0: 7})
        >>> [elastic.members(data, round_).tolist() for round_ in (4, 6, 7)]
        [[True, True, False], [True, True, True], [False, True, True]]
    """

    drop: Fraction = 0.0
    late: Fraction = 0.0
    joins: Rounds = field(default_factory=dict)
    leaves: Rounds = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        for what, rounds in (("joins", self.joins), ("leaves", self.leaves)):
            ordered = sorted(rounds.items(), key=lambda entry: (isinstance(entry[0], str), entry[0]))
            object.__setattr__(self, what, dict(ordered))
        for node in self.joins.keys() & self.leaves.keys():
            if self.leaves[node] <= self.joins[node]:
                raise ValueError(
                    f"node {node!r} joins in round {self.joins[node]} and would leave before it has played one, in "
                    f"round {self.leaves[node]}: a node joins first, once, and leaves later"
                )

    def by_id(self, names: Sequence[str], ids: Tensor) -> Attendance:
        """Return the same with nodes by ``node_id`` [K] that were given by name; a KeyError has the names most like it.

        It is a ValueError if a node is given twice, by its name and by its ``node_id``.
        """

        def known(what: str, rounds: Rounds) -> Rounds:
            named = numbered(names)
            found = [int(ids[find_node(node, names)]) if isinstance(node, str) or named else node for node in rounds]
            if len(set(found)) < len(found):
                raise ValueError(f"a node is given twice in {what}, by its name and its node_id: {list(rounds)}")
            return dict(zip(found, rounds.values(), strict=True))

        return replace(self, joins=known("joins", self.joins), leaves=known("leaves", self.leaves))

    def check(self, data: Data) -> None:
        """Check that the nodes exist that are said to join or leave."""
        unknown = sorted((self.joins.keys() | self.leaves.keys()) - set(data.node_id.tolist()), key=str)
        if unknown:
            raise ValueError(
                f"nodes {unknown[:5]}, said to join or leave, do not exist: say by name or node_id who does"
            )

    def members(self, data: Data, round_: int) -> Tensor:
        """Return which nodes belong to the collaboration in a round, [K]: they have joined and not left."""
        out = [n for n, first in self.joins.items() if round_ < first]
        out += [n for n, last in self.leaves.items() if round_ >= last]
        return ~torch.isin(data.node_id, torch.tensor(out, dtype=torch.int64))

    def left(self, data: Data, round_: int) -> Tensor:
        """Return which nodes have left before a round, [K]."""
        gone = [n for n, last in self.leaves.items() if round_ >= last]
        return torch.isin(data.node_id, torch.tensor(gone, dtype=torch.int64))

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        """Return which nodes are there to train, and whose models arrive, in the round at hand, [K] each."""
        there = keyed_uniform(env.seed, _DROP_STREAM, data.node_id, data.round) >= self.drop
        in_time = keyed_uniform(env.seed, _LATE_STREAM, data.node_id, data.round) >= self.late
        there = there & self.members(data, data.round)
        return there, there & in_time


def membership(data: Data, env: Env) -> tuple[Tensor, Tensor]:
    """Return which nodes belonged to the collaboration in the last round, which means are over, and which ever had."""
    if env.attend is None:
        return torch.ones_like(data.isolated), torch.ones_like(data.isolated)
    last = max(data.round - 1, 0)
    member = env.attend.members(data, last)
    return member, member | env.attend.left(data, last)


def attend(data: Data, env: Env) -> Data:
    """Return the graph with the masks of the round at hand: of the nodes at work those who are there."""
    if env.attend is None:
        return data
    there, in_time = env.attend.at_work(data, env)
    data = copy.copy(data)
    data.trains, data.serves = data.trains & there, data.serves & in_time
    return data


def dismiss(data: Data, before: Data, began: Data, env: Env) -> Data:
    """Return the graph with the masks from before `attend`, and who belongs to the collaboration in the next round.

    Nodes that were at work when the round ``began`` and are not any more (they have stopped, or were isolated) stay at
    rest.
    """
    if env.attend is None:
        return data
    data = copy.copy(data)
    for name in ("trains", "serves"):
        data[name] = before[name] & (data[name] | ~began[name]) & ~data.isolated
    data.present = env.attend.members(data, data.round + 1)
    return data


def edges_in_use(data: Data) -> Tensor | None:
    """Return a mask of the edges in use, [E]: the sender serves and the receiver trains, or it is one; None if all."""
    serves = serving(data)
    if bool((data.trains & serves).all()):
        return None
    sender, receiver = data.edge_index
    return (sender == receiver) | (serves[sender] & data.trains[receiver])


def serving(data: Data) -> Tensor:
    """Return whose models are used here in this round, [K]: of those that serve, all that can be models."""
    return data.serves & ~data.refused if "refused" in data else data.serves


def crossing_edges(data: Data) -> Tensor:
    """Return which edges are in use and join two nodes, [E]."""
    crossing = data.edge_index[0] != data.edge_index[1]
    in_use = edges_in_use(data)
    return crossing if in_use is None else crossing & in_use


def count_messages(data: Data, env: Env, at_server: Tensor | None = None) -> Data:
    """Add the messages that this round's exchange sends to ``data.messages_sent`` [K], by sender.

    A message is an edge j -> i between different nodes that is in use and whose weight is not 0, however much travels
    along it. Through a server every node that sends one up (``at_server`` [K], where models do not travel along edges)
    is sent one down, and both are counted as its own. What is only measured, and not merged, is no message; bytes count
    it. Every process counts what its receivers got.
    """
    if at_server is None:
        sender, receiver = data.edge_index
        used = crossing_edges(data) & (data.edge_weight != 0) & env.plane.known(receiver)
        sent = torch.zeros_like(data.messages_sent).index_add_(0, sender, used.long())
    else:
        sent = env.plane.part(2 * at_server.long())
    data = copy.copy(data)
    data.messages_sent = data.messages_sent + sent
    return data


def has_neighbors(data: Data) -> Tensor:
    """Return which nodes have an edge to or from another one, [K]."""
    sender, receiver = data.edge_index
    apart, neighbors = (sender != receiver).long(), torch.zeros(data.num_nodes, dtype=torch.int64)
    return neighbors.index_add_(0, sender, apart).index_add_(0, receiver, apart) > 0


def weights_in_use(data: Data, in_use: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the edges' weights in this round, [E], and which nodes keep their model, [K], or None if no node does.

    What a receiver would have given senders that do not serve goes to its own model, if it has a self-loop; else its
    other weights grow in proportion. A node keeps its model if it does not train, or hears from nobody for want of
    senders that serve. Weights are differentiable with respect to ``edge_weight``.
    """
    weight = data.edge_weight
    if in_use is None:
        return weight, None
    sender, receiver = data.edge_index

    def per_node(values: Tensor) -> Tensor:
        return scatter(values, receiver, dim_size=data.num_nodes)

    loop = sender == receiver
    has_loop, heard = per_node(loop.long()) > 0, per_node(in_use.long()) > 0
    keeps = ~data.trains | (~heard & (per_node((~in_use).long()) > 0))
    kept = weight.masked_fill(~in_use, 0)
    total, left = per_node(weight), per_node(kept)
    growth = torch.where(has_loop | (left == 0), 1.0, total / torch.where(left == 0, 1.0, left))
    weight = kept * growth[receiver] + torch.where(loop, (total - left)[receiver], 0.0)
    return weight.masked_fill(keeps[receiver], 0), keeps
