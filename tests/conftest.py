"""Settings of the whole suite: where real data lies, and hypothesis profiles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are written to files; no window is opened

# Times on a shared machine say nothing about the code; in CI, every run tries the same examples.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-root",
        default=os.environ.get("GRAPHCOLLAB_DATA"),
        help="folder with the real datasets, as torchvision lays them out (default: the variable GRAPHCOLLAB_DATA)",
    )


@pytest.fixture(scope="session")
def data_root(pytestconfig: pytest.Config) -> Path:
    """The folder with the real datasets; a test that asks for it is skipped where none is named."""
    named = pytestconfig.getoption("--data-root")
    if not named:
        pytest.skip("needs real data: name its folder with --data-root or GRAPHCOLLAB_DATA")
    root = Path(named)
    if not root.is_dir():
        pytest.fail(
            f"expected a folder with datasets (--data-root or GRAPHCOLLAB_DATA), got {named!r}, which is not one"
        )
    return root
