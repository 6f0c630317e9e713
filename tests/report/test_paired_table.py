from __future__ import annotations

from dataclasses import replace

import pytest

from graphcollab.report import paired_table
from graphcollab.train import Comparison


def test_difference_and_interval_by_hand(comparison: Comparison) -> None:
    header, _, row = paired_table(comparison).splitlines()
    assert header.split()[:3] == ["minus", "local,", "points"]
    # differences .125 and .0625: mean .09375, standard error .03125; t(1, .975) = 12.7062 reaches .39707
    assert row.split() == ["l2c", "+9.38", "−30.33", "…", "+49.08", "0.2", "2", "of", "2"]


def test_another_column_and_confidence(comparison: Comparison) -> None:
    header, _, row = paired_table(comparison, column="worst10", confidence=0.5).splitlines()
    assert "worst10" in header
    assert "50 % interval" in header
    # differences +.25 and -.125
    assert row.split()[1] == "+6.25"
    assert row.endswith("1 of 2")


def test_intervals_end_where_differences_of_shares_do(comparison: Comparison) -> None:
    """Differences +.25 and -.125: mean .0625, standard error .1875; t(1, .975) = 12.7062 would reach 2.4."""
    assert "+6.25  −100.00 … +100.00" in paired_table(comparison, column="worst10")
    assert "−2.32 … +2.445" in paired_table(replace(comparison, metric="mse"), column="worst10")


def test_smaller_is_better_where_the_metric_says_so(comparison: Comparison) -> None:
    assert paired_table(replace(comparison, higher_is_better=False)).endswith("0 of 2")


def test_one_seed_has_no_interval(comparison: Comparison) -> None:
    one = replace(comparison, chosen={name: trials[:1] for name, trials in comparison.chosen.items()})
    assert paired_table(one).splitlines()[-1].split() == ["l2c", "+12.50", "–", "–", "1", "of", "1"]


def test_bad_reference(comparison: Comparison) -> None:
    with pytest.raises(ValueError, match=r"no method 'fedavg' to compare with; there are \['l2c', 'local'\]"):
        paired_table(comparison, "fedavg")
    with pytest.raises(ValueError, match="there is only 'local'"):
        paired_table(replace(comparison, chosen={"local": comparison.chosen["local"]}))


def test_bytes_are_not_points_and_fewer_are_better(comparison):
    header, _, row = paired_table(comparison, column="bytes_per_node").splitlines()
    assert "points" not in header
    mine, theirs = (comparison.values(name, "bytes_per_node") for name in ("l2c", "local"))
    wins = sum(a < b for a, b in zip(mine, theirs, strict=True))
    assert row.endswith(f"{wins} of {len(mine)}")
