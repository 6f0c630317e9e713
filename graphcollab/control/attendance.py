"""Who takes part in a round: everyone, or not those who are away, come late, have not joined yet or have left."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.keyed import keyed_uniform
from graphcollab.settings import Count, Fraction, check_settings
from graphcollab.typing import Env

__all__ = ["Everyone", "Membership", "Stragglers", "attend", "dismiss"]

_DROP_STREAM, _LATE_STREAM = 121, 122


@dataclass(frozen=True)
class Everyone:
    """Every node takes part in every round. Base of what says otherwise.

    Raises:
        SettingError: If a setting is not what its annotation says.
    """

    def __post_init__(self) -> None:
        check_settings(self)

    def check(self, data: Data) -> None:
        """Check that what is said of nodes fits the graph."""

    def members(self, data: Data, round_: int) -> Tensor:
        """Return which nodes belong to the collaboration in a round, counted from 0, [K]."""
        return torch.ones_like(data.isolated)

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        """Return which nodes are there to train, and whose models arrive, in the round at hand, [K] each."""
        there = self.members(data, data.round)
        return there, there


@dataclass(frozen=True)
class Membership(Everyone):
    """Nodes join and leave during training.

    Before it joins and after it has left, a node neither trains nor serves, and no pair with it is touched. One that
    joins starts with the model and the edge weights it has, those of the run's start (under a server, with the last
    average that the server has sent to everyone). Rounds count from 0 at the run's start, as in `graphcollab.Phases`.

    Args:
        joins: First round of nodes that are not there from the start, by ``node_id``.
        leaves: First round without them of nodes that leave, by ``node_id``.

    Raises:
        ValueError: If a node leaves before it has played a round.

    Example:
        >>> data = Data(node_id=torch.arange(3), isolated=torch.zeros(3).bool())
        >>> elastic = Membership(joins={2: 5}, leaves={0: 7})
        >>> [elastic.members(data, round_).tolist() for round_ in (4, 6, 7)]
        [[True, True, False], [True, True, True], [False, True, True]]
    """

    joins: Mapping[int, Count] = field(default_factory=dict)
    leaves: Mapping[int, Count] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, given in (("joins", self.joins), ("leaves", self.leaves)):
            if isinstance(given, Mapping):
                object.__setattr__(self, what, {_plain(node): _plain(round_) for node, round_ in given.items()})
        super().__post_init__()
        for what, rounds in (("joins", self.joins), ("leaves", self.leaves)):
            object.__setattr__(self, what, dict(sorted(rounds.items())))
        for node in self.joins.keys() & self.leaves.keys():
            if self.leaves[node] <= self.joins[node]:
                raise ValueError(
                    f"node {node} joins in round {self.joins[node]} and would leave before it has played one, in round "
                    f"{self.leaves[node]}: a node joins first, once, and leaves later"
                )

    def check(self, data: Data) -> None:
        """Check that the nodes exist.

        Raises:
            ValueError: If one does not.
        """
        unknown = sorted((self.joins.keys() | self.leaves.keys()) - set(data.node_id.tolist()))
        if unknown:
            raise ValueError(f"nodes {unknown[:5]}, said to join or leave, do not exist: name nodes by their node_id")

    def members(self, data: Data, round_: int) -> Tensor:
        """Return which nodes have joined and not left, [K]."""
        out = [n for n, first in self.joins.items() if round_ < first]
        out += [n for n, last in self.leaves.items() if round_ >= last]
        return ~torch.isin(data.node_id, torch.tensor(out, dtype=torch.int64, device=data.node_id.device))


@dataclass(frozen=True)
class Stragglers(Everyone):
    """Every round some nodes are away, and what some others send comes too late.

    A node that is away neither trains nor serves in that round. A late one trains, and merges what others sent, but its
    own model misses the round: nobody waits for it, so pairs with it are skipped, and it is dropped, not delivered in a
    later round. Both are drawn anew for every node and round, from (seed, ``node_id``, round).

    Args:
        drop: Probability to be away.
        late: Probability to be late, of nodes that are not away.
        among: Who belongs to the collaboration: everyone, or a `Membership`.

    Raises:
        ValueError: If ``among`` are stragglers again.

    Example:
        >>> Stragglers(drop=0.1, late=0.2)
        Stragglers(drop=0.1, late=0.2, among=Everyone())
    """

    drop: Fraction = 0.0
    late: Fraction = 0.0
    among: Everyone = field(default_factory=Everyone)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.among, Stragglers):
            raise ValueError(
                f"among must be Everyone() or Membership(...), who of them are stragglers is said once, got "
                f"{self.among!r}"
            )

    def check(self, data: Data) -> None:
        """Check the membership."""
        self.among.check(data)

    def members(self, data: Data, round_: int) -> Tensor:
        """Return who belongs to the collaboration: nodes that are away for a round do, [K]."""
        return self.among.members(data, round_)

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        """Draw who is there, and who of them is in time."""
        trains, serves = self.among.at_work(data, env)
        there = keyed_uniform(env.seed, _DROP_STREAM, data.node_id, data.round) >= self.drop
        in_time = keyed_uniform(env.seed, _LATE_STREAM, data.node_id, data.round) >= self.late
        return trains & there, serves & there & in_time


def _plain(value: object) -> object:
    """Return an integer of any kind, such as a tensor, as a plain one; anything else as it is."""
    try:
        return value if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return value


def attend(data: Data, env: Env) -> Data:
    """Return the graph with the masks of the round at hand: of the nodes at work those who are there."""
    if env.attend is None:
        return data
    there, in_time = env.attend.at_work(data, env)
    data = copy.copy(data)
    data.trains, data.serves = data.trains & there, data.serves & in_time
    return data


def dismiss(data: Data, before: Data, began: Data, env: Env) -> Data:
    """Return the graph with the masks from before the round, and who belongs to the collaboration in the next one.

    Args:
        data: The graph after the round's work.
        before: The graph before `attend`.
        began: The graph after it. Nodes that were at work then and are not any more (they have stopped, or were
            isolated) stay at rest.
        env: What pieces may use.
    """
    if env.attend is None:
        return data
    data = copy.copy(data)
    for name in ("trains", "serves"):
        stayed = data[name] | ~began[name]
        data[name] = before[name] & stayed & ~data.isolated
    data.present = env.attend.members(data, data.round + 1)
    return data
