from __future__ import annotations

import logging

import pytest
import torch

from graphcollab._base.packed import pack
from graphcollab.sites.coordinator import Coordinator
from graphcollab.sites.frame import KIND, VERSION, Frame
from tests.sites.desk import Desk, commit

ERROR = {"module": "builtins", "name": "ValueError", "subject": "", "message": "column 'age' is missing"}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_sites_meet(desk):
    assert desk.say("a", "meet", what="x", value=1) == "wait"
    assert desk.say("b", "meet", what="x", value=2) == "wait"
    last = desk.ask("c", "meet", what="x", value=3)
    assert last.about["values"] == [1, 2, 3]
    assert desk.ask("a", "meet", what="x", value=1).about["values"] == [1, 2, 3]


def test_tensors_come_site_by_site(desk):
    for site, many in zip("abc", (1, 0, 2), strict=True):
        reply = desk.ask(site, "meet", what="x", tensors=[torch.full((many,), float(many))] * many)
    assert reply.about["counts"] == [1, 0, 2]
    assert [one.tolist() for one in reply.tensors] == [[1.0], [2.0, 2.0], [2.0, 2.0]]


def test_sums_are_made_in_the_order_of_sites(desk):
    values = dict(zip("abc", (1e8, -1e8, 1.0), strict=True))
    for site in "cba":
        reply = desk.ask(site, "meet", what="x", sum=True, tensors=[torch.tensor([values[site]])])
    assert reply.tensors[0].tolist() == [1.0]  # in another order it is 0 in float32
    assert "values" not in reply.about


def test_what_is_told_twice_counts_once(desk):
    for value in (1, 9):
        desk.say("a", "meet", what="x", value=value)
    desk.say("b", "meet", what="x", value=2)
    assert desk.ask("c", "meet", what="x", value=3).about["values"] == [1, 2, 3]


def test_what_comes_again_some_steps_late_is_not_waited_for(desk):
    for step in range(5):
        for site in "abc":
            desk.say(site, "meet", step=step, what="x")
    assert desk.say("a", "meet", step=1, what="x") == "refused"
    for site in "abc":
        desk.say(site, "finish", step=5)
    assert desk.coordinator.over
    assert not desk.coordinator.failed


def test_different_steps_stop_the_run_and_say_who_is_where(desk):
    for site in "ab":
        desk.say(site, "meet", what="models")
    reply = desk.ask("c", "meet", what="losses")
    assert reply.about["status"] == "stop"
    assert "a: models, b: models, c: losses" in reply.about["message"]


def test_a_sum_for_some_and_not_for_others_stops_the_run(desk):
    desk.say("a", "meet", what="x", sum=True)
    desk.say("b", "meet", what="x")
    assert desk.say("c", "meet", what="x", sum=True) == "stop"


def test_what_cannot_be_added_names_its_site(desk):
    desk.say("a", "meet", what="x", sum=True, tensors=[torch.zeros(2)])
    desk.say("b", "meet", what="x", sum=True, tensors=[torch.zeros(3)])
    reply = desk.ask("c", "meet", what="x", sum=True, tensors=[torch.zeros(2)])
    assert (reply.about["status"], reply.about["subject"]) == ("stop", "site 'b'")


def test_what_does_not_say_what_it_tells_is_refused_and_harms_nobody(desk):
    assert desk.say("a", "meet", value=1) == "refused"
    for site in "bc":
        assert desk.say(site, "meet", what="x", value=2) == "wait"
    assert desk.ask("a", "meet", what="x", value=1).about["values"] == [1, 2, 2]


def answer_another_version(desk: Desk, site: str) -> Frame:
    frame = pack(KIND, VERSION + 1, {"verb": "hello", "epoch": 0, "step": 0, "life": "1"}, {})
    return Frame.unpack(desk.coordinator.answer(site, frame))


def test_a_site_of_another_version_stops_a_run_that_has_not_begun_and_is_named():
    desk = Desk("")
    desk.coordinator = Coordinator("abc", poll=0.0)
    assert answer_another_version(desk, "b").about["status"] == "refused"
    desk.begin("a", "first life")
    reply = desk.ask("a", "meet", what="x", value=1, life="first life")
    assert reply.about["status"] == "stop"
    assert "b cannot take part: it sends messages of another version" in reply.about["message"]


def test_messages_of_another_version_in_the_name_of_a_site_that_is_there_harm_nobody(desk):
    answer_another_version(desk, "b")
    answer_another_version(desk, "nobody")
    assert desk.say("a", "meet", what="x", value=1) == "wait"


def test_messages_that_are_lost_far_apart_do_not_add_up():
    """One message is lost at the first step of every epoch, and all goes well until the next one."""
    desk = Desk("ab")
    for _ in range(30):
        epoch = desk.coordinator.epoch
        desk.say("b", "beat", epoch, 1)  # it has passed the step, so what it sent there was lost
        desk.say("a", "missing", epoch, 0, sites=["b"])
        desk.pass_(2.5, "a", "b")
        assert desk.say("a", "missing", epoch, 0, sites=["b"]) == "again"
        for step in range(3):
            for site in "ab":
                reply = desk.ask(site, "meet", epoch + 1, step, what="x", commit=True)
            assert reply.about["status"] == "ok"


def test_a_silent_site_is_left_behind(desk):
    desk.say("a", "meet", what="x", value=1)
    desk.pass_(11, "a", "b")
    told = desk.ask("a", "meet", what="x", value=1).about
    assert (told["status"], told["epoch"], told["present"]) == ("again", 1, ["a", "b"])
    assert "no sign of life for 10 s" in told["lost"]["c"]
    assert desk.say("c", "meet", what="x") == "away"
    desk.say("a", "meet", 1, what="x", value=1)
    assert desk.ask("b", "meet", 1, what="x", value=2).about["values"] == [1, 2]


def test_a_site_that_computes_is_waited_for(desk):
    desk.say("a", "meet", what="x")
    for _ in range(10):
        desk.pass_(5, "a", "b", "c")
    assert desk.say("a", "meet", what="x") == "wait"


def test_too_few_sites_stop_the_run():
    desk = Desk("ab", at_least=2)
    desk.pass_(11, "a")
    told = desk.ask("a", "beat").about
    assert (told["status"], told["name"]) == ("stop", "SiteLostError")
    assert "only 'a' is left" in told["message"] or "only a is left" in told["message"]


def test_too_few_sites_of_which_several_are_left_are_named():
    desk = Desk("abc", at_least=3)
    desk.pass_(11, "a", "b")
    why = desk.ask("a", "beat").about["message"]
    assert why.startswith("only a, b are left, and a run needs 3 (at_least=): c has given no sign")


def test_a_site_comes_back_when_the_round_has_ended(desk):
    desk.pass_(11, "a", "b")
    assert desk.say("c", "back", 0) == "wait"
    assert desk.say("c", "back", 0) == "wait"
    told = commit(desk, "ab", 1).about["next"]
    assert (told["epoch"], told["present"], told["resting"]) == (2, ["a", "b", "c"], ["c"])
    assert desk.ask("c", "back", 0).about["epoch"] == 2
    assert commit(desk, "ab", 1).about["next"] == told  # for who has not read it
    desk.say("b", "give", 2, tensors=[torch.zeros(3, dtype=torch.uint8)])  # it is not for b to say
    desk.say("a", "give", 2, tensors=[torch.ones(3, dtype=torch.uint8)])
    assert desk.ask("c", "take", 2).tensors[0].tolist() == [1, 1, 1]
    told = commit(desk, "abc", 2).about["next"]
    assert (told["epoch"], told["resting"]) == (3, [])
    assert "next" not in commit(desk, "abc", 3).about


def test_what_was_agreed_holds_for_who_is_left_behind_after_it(desk):
    for site in "abc":
        desk.say(site, "meet", what="end", commit=True)
    desk.pass_(11, "a", "b")
    assert desk.say("c", "meet", what="end", commit=True) == "ok"
    assert desk.say("c", "meet", 0, 1, what="next") == "away"


def test_a_message_that_was_lost_lets_the_round_be_played_again(desk):
    desk.say("b", "meet", 0, 3, what="end")  # b is three steps on
    assert desk.say("a", "missing", 0, 1, sites=["b"]) == "ok"
    desk.pass_(3, "a", "b", "c")
    told = desk.ask("a", "missing", 0, 1, sites=["b"]).about
    assert (told["status"], told["present"]) == ("again", ["a", "b", "c"])


def test_a_site_that_has_not_come_so_far_is_waited_for(desk):
    assert desk.say("a", "missing", 0, 1, sites=["b"]) == "ok"
    desk.pass_(9, "a", "b", "c")
    assert desk.say("a", "missing", 0, 1, sites=["b"]) == "ok"


def test_an_error_is_raised_everywhere(desk):
    desk.say("a", "meet", what="x")
    desk.say("b", "fail", **ERROR)
    for site in "ac":
        told = desk.ask(site, "beat").about
        assert (told["status"], told["site"], told["name"]) == ("stop", "b", "ValueError")


def test_a_site_may_leave(desk):
    desk.say("b", "leave", why="has no room on its disk")
    told = desk.ask("a", "beat").about
    assert (told["status"], told["present"], told["lost"]) == ("again", ["a", "c"], {"b": "has no room on its disk"})


def test_the_run_is_over_when_all_have_finished(desk):
    for site in "abc":
        assert not desk.coordinator.over
        desk.say(site, "finish")
    assert desk.coordinator.over
    desk.pass_(1000)
    assert desk.coordinator.failed == ""


def test_who_comes_back_too_late_hears_that_it_is_over(desk):
    desk.pass_(11, "a", "b")
    desk.say("a", "finish")
    desk.say("b", "finish")
    assert desk.say("c", "back", 0) == "over"


@pytest.mark.parametrize("content", [b"", b"nonsense", "text", None])
def test_nonsense_is_refused(desk, content):
    assert Frame.unpack(desk.coordinator.answer("a", content)).about["status"] == "refused"


@pytest.mark.parametrize("about", [{"verb": "_stop"}, {"verb": "watch"}, {"epoch": "0"}, {"step": None}])
def test_what_is_no_verb_is_refused(desk, about):
    frame = Frame({"verb": "meet", "epoch": 0, "step": 0, "life": "first life", "what": "x", **about})
    assert Frame.unpack(desk.coordinator.answer("a", frame.pack())).about["status"] == "refused"


def test_a_stranger_is_refused(desk):
    assert desk.say("d", "meet") == "refused"


def test_answers_are_not_kept_for_ever(desk):
    for step in range(50):
        for site in "abc":
            desk.say(site, "meet", 0, step, what="x")
    assert len(desk.coordinator._meetings) <= 3


def test_rounds_that_only_some_say_stop_the_run(desk):
    desk.say("a", "meet", what="x", round=3)
    desk.say("b", "meet", what="x")
    assert desk.say("c", "meet", what="x", round=3) == "stop"


def test_a_site_tells_one_thing_at_a_time(desk):
    assert desk.ask("a", "meet", what="x").about["status"] == "wait"
    reply = desk.say("a", "meet", what="y", step=1)
    assert reply == "refused"


def test_greetings_are_not_kept_for_ever(desk):
    for k in range(1000):
        desk.coordinator.answer("a", Frame({"verb": "hello", "epoch": 0, "step": 0, "life": str(k)}).pack())
    lives = desk.coordinator._lives
    assert len(lives._greeted["a"]) == 100
    assert lives.speak("a", "999")


@pytest.mark.parametrize("verb", ["leave", "fail"])
def test_what_a_site_says_is_one_printable_line(desk, caplog, verb):
    caplog.set_level(logging.WARNING)
    desk.say(
        "a",
        verb,
        name="Odd\x1b[2J",
        **dict.fromkeys(["why", "message"], "left\nWARNING b is back\x1b[2J\u202e" + "x" * 5000),
    )
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.isprintable()
    assert len(line) < 300
    told = desk.ask("b", "beat").about
    words = [told.get("message", ""), *told.get("lost", {}).values()]
    assert all(len(one) <= 2000 and one.isprintable() for one in words)


def test_an_error_is_logged_with_its_site_and_class(desk, caplog):
    caplog.set_level(logging.ERROR)
    desk.say("b", "fail", **ERROR)
    assert [one.getMessage() for one in caplog.records] == ["the run stops: b: ValueError: column 'age' is missing"]


def test_a_site_that_meets_where_others_wait_for_its_model_stops_the_run():
    """Else all would wait for each other for ever."""
    desk = Desk("abc")
    assert desk.say("b", "meet", 0, 0, what="values") == "wait"
    assert desk.say("a", "missing", 0, 0, sites=["c"]) == "ok"
    told = desk.ask("a", "missing", 0, 0, sites=["b", "c"]).about
    assert told["status"] == "stop"
    assert told["message"] == "sites have come to different steps of the run (a: waits for models, b: values)"
