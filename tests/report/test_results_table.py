from __future__ import annotations

from dataclasses import replace

from graphcollab.report import results_table
from graphcollab.train import Comparison


def test_columns_in_percent(comparison: Comparison) -> None:
    header, _, local, l2c = results_table(comparison.rows()).splitlines()
    assert header.split("  ")[0] == "method"
    # local's means .5 and .75 have a standard deviation of .25 / sqrt(2)
    assert local.split() == ["local", "62.50", "±", "17.68", "37.50", "37.50", "10.00", "1.5", "kB", "2.0", "–"]
    assert l2c.endswith("lr=0.1 or lr=0.3")


def test_one_seed_has_no_spread_and_settings_can_be_left_out(comparison: Comparison) -> None:
    one = replace(comparison, chosen={name: trials[:1] for name, trials in comparison.chosen.items()})
    text = results_table(one.rows(), settings=False)
    assert "±" not in text
    assert "setting" not in text


def test_nothing_to_choose_gives_no_column(comparison: Comparison) -> None:
    only = replace(comparison, chosen={"local": comparison.chosen["local"]})
    assert "setting" not in results_table(only.rows())


def test_other_metrics_keep_their_unit(comparison: Comparison) -> None:
    header, _, local, _ = results_table(comparison.rows(), metric="mae", percent=False).splitlines()
    assert "mean test mae " in header
    assert local.split()[1:5] == ["0.625", "±", "0.1768", "0.375"]


def test_markdown(comparison: Comparison) -> None:
    lines = results_table(comparison.rows(), markdown=True).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[1].startswith("| ------ | ---")


def test_a_comparison_knows_its_metric(comparison):
    errors = replace(comparison, metric="mse", higher_is_better=False)
    header, *_ = results_table(errors).splitlines()
    assert "mean test mse " in header
    assert "%)" not in header
    assert results_table(comparison) == results_table(comparison.rows())
