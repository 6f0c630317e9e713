"""What `site` and `Site.run` are given wrongly is refused before anything is sent."""

from __future__ import annotations

import logging

import pytest
from torch import nn

from graphcollab import Tasks, methods, site
from tests.raising import raises
from tests.sites.in_threads import NAMES, meet, small

TABLE = {"age": [*range(30, 70)], "ill": [0, 1, 1, 0] * 10}


def linear(tasks) -> nn.Module:
    return nn.Linear(*tasks.input_shape, 2)


def rehearses(data=TABLE, name="Bern", run=(), **settings):
    here = site(name, data, **{"target": "ill", "dry_run": True, **settings})
    return here.run(methods.local(), linear, rounds=1, **dict(run))


@pytest.mark.parametrize("settings", [{"listener": ["Genf"]}, {"dryrun": True}, {"leaveout": ["age"]}, {"patients": 1}])
def test_a_setting_that_there_is_not_is_named_before_anything_is_sent(settings):
    with raises("type", *settings, kind=TypeError):
        rehearses(**settings)


def test_settings_of_tables_arrays_and_datasets_are_taken():
    given = {"metric": "auc", "categories": None, "val": None, "test_fraction": 0.3, "names": None}
    assert site("Bern", TABLE, target="ill", **given).settings == {"target": "ill", **given}


def test_a_target_is_given_by_name():
    with raises("type", "site()", kind=TypeError):
        site("Bern", TABLE, "ill")


def test_a_site_is_named_by_text():
    with raises("missing", "node"):
        rehearses(name="  ")
    with raises("value", "name", "7"):
        site(7, TABLE, target="ill")


def test_a_site_gives_its_own_table_alone(tmp_path):
    with raises("shape", "column 'Bern'"):
        rehearses({"Bern": "bern.csv", "Genf": tmp_path})
    with raises("unknown", "column 'ill'", "'Genf'"):
        rehearses({"Genf": TABLE})
    with raises("value"):
        rehearses(tmp_path)
    with raises("shape", "column 'Bern'"):
        rehearses(Tasks.from_frame({"Bern": TABLE}, target="ill"))


def test_a_run_between_sites_says_what_it_takes():
    for name, value in {"patients": 3, "epochs": 3}.items():
        with raises("type", name, kind=TypeError):
            rehearses(run={name: value})


def test_every_site_logs_once_whom_a_run_is_of(caplog):
    def act(here):
        here.run(methods.local(), small, rounds=1)
        return here.run(methods.local(), small, rounds=1)

    with caplog.at_level(logging.INFO, "graphcollab.sites.site"):
        meet(act)
        site("Bern", TABLE, target="ill", dry_run=True).run(methods.local(), linear, rounds=1)
    assert caplog.messages == [f"this run is of {', '.join(NAMES)}"] * len(NAMES)
