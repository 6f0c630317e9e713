from __future__ import annotations

from pathlib import Path

import pytest

from graphcollab import report
from graphcollab.analysis import Benefit, Comparison
from tests.report.page.found import compared, gained


@pytest.fixture(scope="session")
def comparison() -> Comparison:
    return compared()


@pytest.fixture(scope="session")
def found_benefit() -> Benefit:
    return gained()


@pytest.fixture(scope="session")
def written(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    return report.page(comparison, folder / "page.html", commands=["graphcollab compare <rows>.csv"])
