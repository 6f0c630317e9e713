"""`Env`: the resources that pieces may use besides the ``Data``, and the run settings that they read."""

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
    """Participation of nodes in rounds: nodes may be away, late, join later, or leave.

    Before it joins and after it has left, a node neither trains nor serves, and no pair with it is touched. It joins
    with the initial model and edge weights of the run (under a server, with the last average sent to all nodes), and
    after leaving it keeps the model it had; it is excluded from means over nodes. Rounds count from 0 at the start of
    the run, as in `graphcollab.Phases`.

    A node that is away neither trains nor serves in that round. A late node trains and merges models from others, but
    its own model misses the round: pairs with it are skipped, and its model is dropped, not delivered later. Both
    events are drawn for every node and round, from (seed, ``node_id``, round).

    Args:
        drop: Probability of being away.
        late: Probability of being late, for nodes that are not away.
        joins: First round of nodes that are absent at the start, by name or ``node_id`` (equal to their position unless
            the tasks define it; if all names are whole numbers, a number is a name).
        leaves: First round without a leaving node, likewise.

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
                    f"{node!r} joins in round {self.joins[node]}, but leaves in round {self.leaves[node]}: leave later",
                )

    def by_id(self, names: Sequence[str], ids: Tensor) -> Participation:
        """Return the same with nodes by ``node_id`` [K] instead of names; an `UnknownError` suggests the nearest name.

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
        """Return the nodes that belong to the collaboration in a round, [K]: they have joined and not left."""
        out = [n for n, first in self.joins.items() if round_ < first]
        out += [n for n, last in self.leaves.items() if round_ >= last]
        return ~torch.isin(data.node_id, torch.tensor(out, dtype=torch.int64))

    def left(self, data: Data, round_: int) -> Tensor:
        """Return the nodes that have left before a round, [K]."""
        gone = [n for n, last in self.leaves.items() if round_ >= last]
        return torch.isin(data.node_id, torch.tensor(gone, dtype=torch.int64))

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        """Return the nodes that train, and those whose models arrive, in the current round, [K] each."""
        there = keyed_uniform(env.seed, _DROP_STREAM, data.node_id, data.round) >= self.drop
        in_time = keyed_uniform(env.seed, _LATE_STREAM, data.node_id, data.round) >= self.late
        there = there & self.members(data, data.round)
        return there, there & in_time


@dataclass(frozen=True)
class Isolate:
    r"""Criteria by which a diverging node is isolated: ``run(on_nonfinite=Isolate(factor))``.

    Models are examined after every local update, before any result is used for weights, observed or sent, and once in a
    trial update before a method starts. Let L be a node's mean loss on its own training samples, x⁰ its model at the
    start of the round and x its current model. The node has diverged if

    - a loss of a local step, an entry of x or x⁰, or :math:`L(x)` is not finite, or
    - its own update has raised its loss above the bound: :math:`L(x) > \max(b, L(x^0))`, or
    - its update leaves the region in which gradients are meaningful: it promised to lower the loss by
      :math:`p = \langle \nabla L(x^0), x^0 - x \rangle > f \max(b, L(x^0))`, more than is possible, and has not lowered
      it by p / f (for example because all units of the model are dead), or
    - in three of its last ten rounds its own update has at least doubled its loss, to more than b / f (and by more than
      b / f if it steps along other nodes' answers, as in CGA): its steps are too large, and it affects others.

    The bound b is f times the larger of L at the run's initial model and L for outputs of zero (log C for
    cross-entropy, the mean of y² for squared errors), so it scales with each node's data. If losses may be negative, it
    is :math:`r + (f - 1) s`, with r the larger of the two and s the larger of their absolute values. If both are 0,
    there is no bound. A node is not isolated for a model that others have made bad and that its own update improves.

    The check takes a gradient and a loss on all training samples of every node per round (with a hundred nodes of 11
    digits each, rounds of five epochs took twice as long, rounds of a single step three times), and one more local
    update at the start.

    Args:
        factor: f.
    """

    factor: Annotated[float, Real(above=1)] = 10.0

    def __post_init__(self) -> None:
        check_settings(self)


class Env(NamedTuple):
    """Resources that pieces may use besides the ``Data``; nothing in it changes during a run.

    The engine is bound to the nodes' tasks; through the plane, nodes access each other's models and data. With
    ``isolate`` diverged nodes are isolated, otherwise the run stops; observers are callbacks
    (`graphcollab.train.Callback`).
    """

    engine: Engine
    plane: Plane
    seed: int
    isolate: Isolate | bool = False
    participation: Participation | None = None
    observers: tuple[Any, ...] = ()
