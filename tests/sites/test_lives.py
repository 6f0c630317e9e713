from __future__ import annotations

import pytest

from graphcollab.sites.coordinator import Coordinator
from tests.sites.desk import Desk, commit


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_site_that_begins_again_is_left_behind_first(desk):
    desk.coordinator = Coordinator("abc", poll=0.0)
    for site in "abc":
        assert not desk.ask(site, "hello", life="first life").about["known"]
        assert not desk.ask(site, "hello", life="first life").about["known"]  # the answer was lost
    for site in "abc":
        desk.say(site, "meet", what="x")
    assert desk.ask("b", "hello", life="second").about["known"]
    assert desk.ask("b", "hello", life="second").about["known"]
    desk.lives["b"] = "second"
    desk.say("b", "beat")
    told = desk.ask("a", "beat", 0, 1).about
    assert (told["present"], told["lost"]) == (["a", "c"], {"b": "was started again"})
    assert desk.say("b", "meet", 0, 0, what="y") == "ok"  # what was agreed before holds
    assert desk.say("b", "meet", 0, 1, what="y") == "away"


def start_b_again(desk: Desk) -> None:
    """b fails in its first life, is started again, and let in when the others have played a round."""
    desk.say("b", "leave", why="has failed")
    desk.lives["b"] = desk.begin("b", "second life")
    assert desk.say("b", "back") == "wait"
    commit(desk, "ac", 1)
    assert desk.coordinator.present == ["a", "b", "c"]


@pytest.mark.parametrize("verb", ["leave", "fail", "finish", "meet", "beat", "back", "missing", "hello"])
def test_what_comes_late_of_a_process_that_has_ended_changes_nothing(desk, verb):
    start_b_again(desk)
    about = {"leave": {"why": "has failed"}, "fail": {"name": "ValueError", "message": "x"}, "meet": {"what": "x"}}
    desk.clock.now += 11
    for site in "ac":
        desk.say(site, "beat", 2)
    assert desk.say("b", verb, life="first life", **about.get(verb, {})) == "refused"
    assert (desk.coordinator.present, desk.coordinator.failed) == (["a", "b", "c"], "")
    assert not desk.coordinator._done
    desk.coordinator.watch()  # it was no sign of life either
    assert desk.coordinator.present == ["a", "c"]


def test_a_greeting_that_comes_first_when_its_process_has_ended_changes_nothing(desk):
    """The first life's greeting was held up on its way until its second life was there."""
    assert desk.ask("b", "hello", life="life before").about["known"]
    assert desk.ask("a", "beat").about["status"] == "ok"
    assert desk.say("b", "meet", what="x") == "wait"
    assert desk.coordinator.present == ["a", "b", "c"]


def test_who_greeted_before_the_one_that_is_there_cannot_take_its_place(desk):
    desk.ask("b", "hello", life="second life")  # it ends at once, and what it has said as it ended comes late
    desk.lives["b"] = desk.begin("b", "third life")
    assert desk.say("b", "leave", why="has failed", life="second life") == "refused"
    assert desk.coordinator.lost == {"b": "was started again"}


def test_a_process_that_leaves_as_it_begins_says_why(desk):
    desk.ask("b", "hello", life="second life")
    desk.say("b", "leave", why="has no room on its disk", life="second life")
    assert desk.coordinator.lost == {"b": "has no room on its disk"}
