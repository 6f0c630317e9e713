"""Sites with one class only: named to all where the AUC is not defined, and refused where it is that of all."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from graphcollab import methods, site
from graphcollab.sites import told_by_site
from tests.raising import warns
from tests.sites.in_threads import NAMES, ROWS, SETTINGS, meet, small

ILL = {**ROWS["va"], "disease": np.ones_like(ROWS["va"]["disease"])}


def test_a_site_of_one_class_is_named_everywhere(monkeypatch):
    heard = dict[int, list[str]]()
    places = dict[str, int]()

    def act(here):
        places[here.name] = threading.get_ident()
        return here.run(methods.local(), small, rounds=1)

    def note(message, *_, **__):
        heard.setdefault(threading.get_ident(), []).append(str(message))

    monkeypatch.setattr(warnings, "warn", note)
    meet(act, **{name: {"metric": "auc"} for name in NAMES} | {"va": {"metric": "auc", "rows": ILL}})
    told = {name: [text for text in heard.get(place, []) if "not defined" in text] for name, place in places.items()}
    [own] = told.pop("va")
    assert own.startswith("all rows of site 'va' are of one class, so metric='auc' is not defined there")
    for texts in told.values():
        assert len(texts) == 1
        assert "auc is not defined for" in texts[0]
        assert "va" in texts[0]


@pytest.mark.filterwarnings("ignore:.*(one|another) class")
def test_a_rehearsal_does_not_know_the_classes_of_others():
    here = site("va", ILL, dry_run=True, **SETTINGS)
    with warns("quality", "column 'disease'"):
        assert here.run(methods.fedavg(epochs=1), small, rounds=1).sites == 4
    assert told_by_site("va", ILL, **SETTINGS)[1]["names"]["disease"] == ["1"]


def test_one_class_of_all_sites_is_refused_at_all():
    rows = {name: {**own, "disease": np.ones_like(own["disease"])} for name, own in ROWS.items()}
    found = meet(lambda here: here.tasks(), **{name: {"rows": rows[name]} for name in NAMES})
    for error in found.values():
        assert isinstance(error, ValueError)
        assert "column 'disease' has one class only, '1'" in str(error)
