"""What `site` and `Site.run` are given wrongly is said at once, in words of theirs."""

from __future__ import annotations

import logging

import pytest
from torch import nn

from graphcollab import Tasks, methods, site
from graphcollab.sites.arguments import ONE_RUN
from tests.raising import raises
from tests.sites.in_threads import NAMES, meet, small

TABLE = {"age": [*range(30, 70)], "ill": [0, 1, 1, 0] * 10}


def linear(tasks) -> nn.Module:
    return nn.Linear(*tasks.input_shape, 2)


@pytest.mark.parametrize(
    ("settings", "meant"),
    [
        ({"listener": ["Genf"]}, "'listener'; did you mean 'listeners'?"),
        ({"dryrun": True}, "'dryrun'; did you mean 'dry_run'?"),
        ({"leaveout": ["age"]}, "'leaveout'; did you mean 'leave_out'?"),
        ({"patients": 1}, "'patients'; it takes name, data, target, listeners, dry_run, "),
    ],
)
def test_a_setting_that_there_is_not_is_named_when_site_is_called(settings, meant):
    with pytest.raises(TypeError) as told:
        site("Bern", TABLE, **{"target": "ill", **settings})
    assert str(told.value).startswith(f"site() has no argument {meant}")


def test_settings_of_tables_arrays_and_datasets_are_taken():
    given = {"metric": "auc", "categories": None, "val": None, "test_fraction": 0.3, "names": None}
    assert site("Bern", TABLE, target="ill", **given).settings == {"target": "ill", **given}


def test_a_target_is_given_by_name():
    with raises("type", "site()", kind=TypeError):
        site("Bern", TABLE, "ill")


def test_a_site_is_named_by_text():
    for empty in ("", "  "):
        with raises("empty", "name"):
            site(empty, TABLE, target="ill")
    with raises("value", "name", "7"):
        site(7, TABLE, target="ill")


def test_a_site_gives_its_own_table_alone(tmp_path):
    with raises("too-many", "data", "'Bern'", "'Genf'"):
        site("Bern", {"Bern": "bern.csv", "Genf": tmp_path}, target="ill")
    with raises("too-many", "data", "'Genf'"):
        site("Bern", {"Genf": TABLE}, target="ill")
    with raises("value", "data"):
        site("Bern", tmp_path, target="ill")
    with raises("conflict", "data"):
        site("Bern", Tasks.from_frame({"Bern": TABLE}, target="ill"))


def test_a_run_between_sites_says_what_it_takes():
    here = site("Bern", TABLE, target="ill", dry_run=True)
    with pytest.raises(TypeError) as told:
        here.run(methods.local(), linear, rounds=1, patients=3)
    listed = str(told.value).split("it takes ")[1].split(", ")
    assert {"method", "model", "rounds", "seed", "checkpoint"} <= {*listed}
    assert not {*listed} & {*ONE_RUN}
    with raises("type", "epochs", kind=TypeError):
        here.run(methods.local(), linear, rounds=1, epochs=3)


def test_every_site_logs_once_whom_a_run_is_of(caplog):
    def act(here):
        here.run(methods.local(), small, rounds=1)
        return here.run(methods.local(), small, rounds=1)

    with caplog.at_level(logging.INFO, "graphcollab.sites.site"):
        meet(act)
        site("Bern", TABLE, target="ill", dry_run=True).run(methods.local(), linear, rounds=1)
    assert caplog.messages == [f"this run is of {', '.join(NAMES)}"] * len(NAMES)
