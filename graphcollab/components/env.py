"""What pieces of a method may use besides the ``Data``, and the settings of a run that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import ConflictError, DuplicateError, UnknownError
from graphcollab._base.keyed import keyed_uniform
from graphcollab._base.naming import Node, find_node, numbered
from graphcollab._base.settings import Count, Fraction, Real, check_settings
from graphcollab.comm.plane import Plane
from graphcollab.engine import Engine

__all__ = ["Env", "Isolate", "Participation"]

Rounds: TypeAlias = Annotated[
    Mapping[Node, Count], "a mapping of nodes, by name or node_id, to whole numbers of at least 1"
]

_DROP_STREAM, _LATE_STREAM = 121, 122


@dataclass(frozen=True)
class Participation:
    """Who takes part in a round: not those who are away, come late, have not joined yet or have left.

    Before it joins and after it has left, a node neither trains nor serves, and no pair with it is touched. It joins
    with the model and the edge weights of the run's start (under a server, with the last average sent to everyone), and
    once it has left keeps the model that it had; means over nodes are without it. Rounds count from 0 at the run's
    start, as in `graphcollab.Phases`.

    A node that is away neither trains nor serves in that round. A late one trains, and merges what others sent, but its
    own model misses the round: pairs with it are skipped, and it is dropped, not delivered later. Both are drawn for
    every node and round, from (seed, ``node_id``, round).

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
        >>> elastic = Participation(joins={2: 5}, leaves={0: 7})
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
                raise ConflictError(
                    f"node {node!r}",
                    f"node {node!r} joins in round {self.joins[node]} and would leave before it has played one, in "
                    f"round {self.leaves[node]}: a node joins first, once, and leaves later",
                )

    def by_id(self, names: Sequence[str], ids: Tensor) -> Participation:
        """Return the same with nodes by ``node_id`` [K] in place of names; an `UnknownError` names the nearest.

        A node that is given twice, by its name and its ``node_id``, is a `DuplicateError`.
        """

        def known(what: str, rounds: Rounds) -> Rounds:
            named = numbered(names)
            found = [int(ids[find_node(node, names)]) if isinstance(node, str) or named else node for node in rounds]
            if len(set(found)) < len(found):
                raise DuplicateError(
                    what, f"a node is given twice in {what}, by its name and its node_id: {list(rounds)}"
                )
            return dict(zip(found, rounds.values(), strict=True))

        return replace(self, joins=known("joins", self.joins), leaves=known("leaves", self.leaves))

    def check(self, data: Data) -> None:
        """Check that the nodes that join or leave exist."""
        unknown = sorted((self.joins.keys() | self.leaves.keys()) - set(data.node_id.tolist()), key=str)
        if unknown:
            raise UnknownError(
                "participation",
                f"nodes {unknown[:5]}, said to join or leave, do not exist: say by name or node_id who does",
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


@dataclass(frozen=True)
class Isolate:
    r"""When a node that diverges is left behind: ``run(on_nonfinite=Isolate(factor))``.

    Models are examined after every local update, before anything of it is weighed, watched or sent, and on trial before
    a method starts. With L a node's mean loss on its own training samples, x⁰ the model it began the round with and x
    the one it now has, it has diverged if

    - a loss of a local step, a number of x or x⁰, or :math:`L(x)` is not finite, or
    - its own update has brought its loss above the bound: :math:`L(x) > \max(b, L(x^0))`, or
    - its update leaves the region in which gradients mean anything: it promised to lower the loss by
      :math:`p = \langle \nabla L(x^0), x^0 - x \rangle > f \max(b, L(x^0))`, more than there is, and has not lowered it
      by p / f (as where a model's units are all dead), or
    - in three of its last ten rounds its own update has at least doubled its loss, to more than b / f (and by more than
      b / f where it steps along what others answer, as under CGA): its steps are too large, and it takes others along.

    The bound b is f times the larger of L at the run's initial model and L for outputs of zero (log C for
    cross-entropy, the mean of y² for squared errors), so it goes with the scale of each node's data. Where losses may
    be negative it is :math:`r + (f - 1) s`, r the larger of the two and s the larger of their absolute values. Where
    both are 0 there is no bound. A model that others have made bad, and that the node's own update makes better, is not
    held against the node.

    That takes a gradient and a loss on all training samples of every node a round (with a hundred nodes of 11 digits
    each, rounds of five epochs took twice as long, rounds of a single step three times), and one more local update at
    the start.

    Args:
        factor: f.
    """

    factor: Annotated[float, Real(above=1)] = 10.0

    def __post_init__(self) -> None:
        check_settings(self)


class Env(NamedTuple):
    """What pieces may use besides the ``Data``: nothing in it changes during a run.

    The engine is bound to the nodes' tasks; the plane is how nodes see each other's models and data. ``isolate`` leaves
    nodes that diverge behind, else the run stops; observers are callbacks (`graphcollab.train.Callback`).
    """

    engine: Engine
    plane: Plane
    seed: int
    isolate: Isolate | bool = False
    participation: Participation | None = None
    observers: tuple[Any, ...] = ()
