"""A site with one class only, where the AUC is not defined, is named to all sites."""

from __future__ import annotations

import threading
import warnings

import numpy as np

from graphcollab import methods
from tests.sites.in_threads import NAMES, ROWS, meet, small


def test_a_site_of_one_class_is_named_everywhere(monkeypatch):
    heard = dict[int, list[str]]()
    places = dict[str, int]()
    ill = {**ROWS["va"], "disease": np.ones_like(ROWS["va"]["disease"])}

    def act(here):
        places[here.name] = threading.get_ident()
        return here.run(methods.local(), small, rounds=1)

    def note(message, *_, **__):
        heard.setdefault(threading.get_ident(), []).append(str(message))

    monkeypatch.setattr(warnings, "warn", note)
    meet(act, **{name: {"metric": "auc"} for name in NAMES} | {"va": {"metric": "auc", "rows": ill}})
    told = {name: [text for text in heard.get(place, []) if "not defined" in text] for name, place in places.items()}
    [own] = told.pop("va")
    assert own.startswith("all rows of site 'va' are of one class, so metric='auc' is not defined there")
    for texts in told.values():
        assert len(texts) == 1
        assert "auc is not defined for" in texts[0]
        assert "va" in texts[0]
