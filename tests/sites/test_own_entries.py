"""A site adds to what is known of its own nodes only: what it says of others is refused, or has no effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphcollab import Tasks, methods, site
from graphcollab.comm import Plane, Relation
from graphcollab.comm.lists import gather_texts, gather_values, merge_edges
from graphcollab.sites import connected
from graphcollab.sites.connection import Connection
from graphcollab.sites.frame import Frame, FrameError
from graphcollab.sites.hall import Door, Hall
from graphcollab.sites.transport import Sites
from tests.raising import raises

NAMES = tuple("abcd")
TABLE = {"age": [k % 13 for k in range(40)], "ill": [0, 1, 1, 0] * 10}
OTHERS = [0, 1, 2]


def linear(tasks: Tasks) -> nn.Module:
    return nn.Linear(*tasks.input_shape, 2)


def histories(change: Callable[[str, Tensor], Tensor] | None) -> dict[str, dict[str, Tensor]]:
    """Play a run in which site d changes whatever it tells or adds up; return the last values that every site has."""

    class Liar(Connection):
        def tell(self, what: str, value: Any = None, tensors: Sequence[Tensor] = (), *args: Any, **said: Any) -> Any:
            told = [change(what, one) if one.is_floating_point() else one for one in tensors]
            return super().tell(what, value, told, *args, **said)

    def act(connection: Connection) -> dict[str, Tensor]:
        if connection.name == "d" and change is not None:
            connection.__class__ = Liar
        with connected(connection):
            found = site(connection.name, TABLE, target="ill").run(methods.local(), linear, rounds=1)
        return {name: values[-1] for name, values in found.history.values.items()}

    return Hall(NAMES, poll=0.3).play(act)


def test_scores_of_others_are_their_own():
    """A site adds a quarter to everything that it tells of losses and scores."""
    true, told = histories(None), histories(lambda what, one: one + 0.25)
    for name in NAMES:
        for field in ("train_loss", "val_loss", "val_metric", "test_loss", "test_metric"):
            assert torch.equal(told[name][field][OTHERS], true["a"][field][OTHERS])
            assert told[name][field][3] == true["a"][field][3] + 0.25


def test_what_a_site_counts_is_not_below_nothing():
    """Of what travels along edges receivers count the bytes, so a site counts those of others, too."""

    def less(what: str, one: Tensor) -> Tensor:
        return one - 1000 if what.startswith("losses") and len(one) == len(NAMES) else one

    with raises("damaged", "site 'd'", kind=FrameError):
        histories(less)


def play(act: Callable[[Plane], Any], door: type[Door] = Door) -> dict[str, Any]:
    """Let four sites act, and return what each finds, or its error."""
    hall = Hall(NAMES, poll=0.2)

    def one(connection: Connection) -> Any:
        connection.delivery.link = door(hall, connection.name)
        try:
            return act(Plane(4, Sites(connection, torch.arange(4))))
        except FrameError as error:
            return error

    return hall.play(one)


def texts(plane: Plane, mine: list[int]) -> object:
    return gather_texts(plane, {node: f"{node} has diverged" for node in mine})


def merged_edges(plane: Plane, mine: list[int]) -> object:
    edges = torch.tensor([[(node + 1) % 4 for node in mine], mine])
    return merge_edges(plane, Relation(edges, torch.ones(len(mine)), (4, 4))).edge_index.tolist()


def collect(plane: Plane, mine: list[int]) -> object:
    nodes = torch.tensor(mine)
    return gather_values(plane, nodes.double(), nodes, torch.arange(4)).tolist()


FOUND = {
    texts: {0: "0 has diverged", 1: "1 has diverged", 2: "2 has diverged", 3: "3 has diverged"},
    merged_edges: [[1, 2, 3, 0], [0, 1, 2, 3]],
    collect: [0.0, 1.0, 2.0, 3.0],
}


@pytest.mark.parametrize("say", [texts, merged_edges, collect])
def test_sites_speak_for_their_own_nodes(say):
    """Site d says something of node 0, too, which is a's: all refuse that, and name d."""
    honest = play(lambda plane: say(plane, plane.own.tolist()))
    assert all(found == FOUND[say] for found in honest.values())
    for found in play(lambda plane: say(plane, [0, 3] if plane.party == "d" else plane.own.tolist())).values():
        assert isinstance(found, FrameError)
        assert "a message of d is not as it should be: it speaks for nodes of others" in str(found)


@pytest.mark.parametrize("say", [texts, merged_edges, collect])
def test_what_a_site_has_told_comes_back_as_it_was(say):
    """A coordinator changes a number of site a: whoever reads it, a finds out."""

    class Changed(Door):
        def ask(self, content: bytes) -> bytes:
            reply, asked = Frame.unpack(super().ask(content)), Frame.unpack(content)
            if asked.about["verb"] == "meet" and reply.tensors:
                first, *rest = reply.tensors
                reply = Frame(reply.about, [first + 1, *rest])
            return reply.pack()

    found = play(lambda plane: say(plane, plane.own.tolist()), Changed)["a"]
    assert isinstance(found, FrameError)
    assert "a message of a is not as it should be: the coordinator has returned other values" in str(found)


def test_entries_are_those_of_their_owner():
    """Others add nothing to them, whatever they send."""

    def begin(plane: Plane) -> list[float]:
        own = torch.full((1, 2), 1.0 + plane.own[0])
        return plane.broadcast(own, torch.zeros(1, dtype=torch.int64), what="a number").tolist()

    assert play(begin) == {name: [[1.0, 1.0]] for name in NAMES}
