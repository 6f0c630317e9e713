"""A page of what sites have compared: each writes its own, and no count of single predictions leaves a site."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from graphcollab import methods, report
from tests.sites.in_threads import NAMES, meet, small

pytestmark = pytest.mark.slow


def test_every_site_has_a_page(tmp_path: Path) -> None:
    made = {name: partial(getattr(methods, name), epochs=1) for name in ("local", "l2c")}

    def act(here):
        found = here.compare(made, small, seeds=(0, 1), rounds=2)
        return report.page(found, tmp_path / f"{here.name}.html"), str(report.site_table(found, reference="local"))

    pages = meet(act)
    assert {*pages} == {*NAMES}
    for path, table in pages.values():
        text = path.read_text(encoding="utf-8")
        assert "Left out between sites" in text
        assert '"calibration":' not in text
        assert all(name in text for name in NAMES)
        assert table.splitlines()[2].split()[2] in text
