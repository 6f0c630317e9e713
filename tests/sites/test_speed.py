"""The figures of docs/benchmarks.md are what lines of such rates can carry."""

from __future__ import annotations

import pytest

from graphcollab import Tasks, load_dataset
from tests.sites.hospitals import SETTINGS
from tests.sites.speed import main

TABLE = load_dataset("heart_disease")

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(300)]


def test_rounds_take_as_long_as_their_bytes_need():
    fedavg, l2c = main(["--methods", "fedavg", "l2c", "--mbit", "10", "--delay", "5", "--rounds", "4"])
    (columns,) = Tasks.from_frame(TABLE.columns, node="hospital", **SETTINGS).input_shape
    parameters = (columns + 1) * 300 + (300 + 1) * 300 + (300 + 1) * 2
    assert fedavg["sent"] == pytest.approx(4 * parameters, rel=0.01)  # one model to the coordinator
    assert l2c["sent"] == pytest.approx(3 * 4 * parameters, rel=0.01)  # one to each of three others
    for row in (fedavg, l2c):
        assert row["least"] > row["sent"] * 8 / 10e6
        assert row["median"] < 10 * row["sent"] * 8 / 10e6
    assert (fedavg["exchanges"], l2c["exchanges"]) == (1, 2)
