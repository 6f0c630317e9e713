"""What sites tell everybody is checked where it arrives, and names who has told what was not due."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from graphcollab.sites.connection import Connection
from graphcollab.sites.frame import Frame, FrameError
from graphcollab.sites.hall import Door, Hall
from graphcollab.sites.transport import Sites

NAMES = ("Bern", "Genf")
OWNER = torch.tensor([0, 1, 1])

CHANGES: dict[str, Callable[[torch.Tensor], list[torch.Tensor]]] = {
    "type": lambda one: [one.half()],
    "whole numbers": lambda one: [one.long()],
    "width": lambda one: [one[:, :1]],
    "axes": lambda one: [one[None]],
    "one more": lambda one: [one, one],
    "nothing": lambda one: [],
}


def gather(sites: Sites) -> tuple[torch.Tensor, ...]:
    return sites.all_gather(torch.ones(len(sites.nodes), 3))


def concat(sites: Sites) -> tuple[torch.Tensor, ...]:
    return sites.all_gather_lists(sites.nodes, torch.ones(len(sites.nodes), 3))[1:]


def tell(sites: Sites) -> tuple[torch.Tensor, ...]:
    return (sites.broadcast(torch.ones(3, 3), torch.arange(3)),)


def errors(act: Callable[[Sites], object], change: Callable[[torch.Tensor], list[torch.Tensor]]) -> dict[str, object]:
    """Return what every site gets where Genf tells something else than it should."""
    hall = Hall(NAMES, poll=0.2)

    class Changes(Door):
        def ask(self, content: bytes) -> bytes:
            frame = Frame.unpack(content)
            if self.name == "Genf" and frame.about["verb"] == "meet" and frame.tensors:
                content = Frame(frame.about, [*frame.tensors[:-1], *change(frame.tensors[-1])]).pack()
            return super().ask(content)

    def one(connection: Connection) -> object:
        connection.delivery.link = Changes(hall, connection.name)
        try:
            return act(Sites(connection, OWNER))
        except ValueError as error:
            return error

    return hall.play(one)


@pytest.mark.parametrize("act", [gather, concat, tell])
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_not_due_names_its_site(act, change):
    found = errors(act, CHANGES[change])
    for name in NAMES:
        assert isinstance(found[name], FrameError)
        assert "a message of Genf is not as it should be" in str(found[name])


@pytest.mark.parametrize("act", [gather, tell])
def test_values_of_more_nodes_than_a_site_has_name_it(act):
    found = errors(act, lambda one: [torch.cat([one, one])])
    assert "a message of Genf is not as it should be" in str(found["Bern"])
    assert "[4, 3] of torch.float32" in str(found["Bern"])


@pytest.mark.parametrize("act", [gather, concat, tell])
def test_what_was_due_is_taken(act):
    for (told,) in errors(act, lambda one: [one]).values():
        assert told.tolist() == [[1.0] * 3] * 3
