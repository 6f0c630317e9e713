from __future__ import annotations

import pytest

from graphcollab.sites.frame import Frame
from tests.sites.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    "about",
    [
        *({"verb": "missing", "sites": sites} for sites in ([["x"]], [{"a": 1}], [1], "bc", {"b": 1}, None)),
        *({"verb": "meet", "what": "x", **one} for one in ({"sum": "yes"}, {"commit": 1}, {"round": "3"})),
        *({"verb": "meet", "what": what} for what in (["x"], {}, 1)),
        *({"verb": verb} for verb in (["meet"], {}, None, "_stop", "watch")),
        *({"verb": "beat", "life": life} for life in ([], {}, None, 1, "of nobody")),
        *({"verb": "fail", "name": name, "message": ""} for name in ([], None)),
        {"verb": "leave", "why": ["a"]},
        {"verb": "give", "run": "1"},
        {"verb": "beat", "epoch": True},
        {"verb": "beat", "step": 1.0},
    ],
)
def test_what_has_fields_of_other_types_is_refused_and_logged_and_harms_nobody(desk, about, caplog):
    frame = Frame({"epoch": 0, "step": 0, "life": "first life", **about})
    assert Frame.unpack(desk.coordinator.answer("a", frame.pack())).about["status"] == "refused"
    assert "a message of a was refused" in caplog.text
    for site in "ab":
        assert desk.say(site, "meet", what="x", value=1) == "wait"
    assert desk.ask("c", "meet", what="x", value=1).about["values"] == [1, 1, 1]
