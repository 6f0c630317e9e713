"""Settings of the whole suite that every process of it needs; what tests need is in `tests.scenes`."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are written to files; no window is opened


def pytest_configure(config: pytest.Config) -> None:
    """Load what tests need, which takes seconds: not where tests are only dealt out to other processes."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(importlib.import_module("tests.scenes"), "tests.scenes")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-root",
        default=os.environ.get("GRAPHCOLLAB_DATA"),
        help="folder with the real datasets, as torchvision lays them out (default: the variable GRAPHCOLLAB_DATA)",
    )


NIGHTLY = (
    *("tests/_base/test_device.py", "tests/engine/test_module_families.py", "tests/engine/test_static_steps.py"),
    *("tests/methods/test_isolation.py", "tests/sites/test_between.py", "tests/testing/test_planes.py"),
)
"""Files whose slow tests repeat, for every method or kind of module, what others of them show for some."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(NIGHTLY) and item.get_closest_marker("slow"):
            item.add_marker("nightly")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is there before the first test out of garbage collections, which took a seventh of the suite's time.

    Modules, and one item per test, make some two million objects. They live until the end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
