from __future__ import annotations

from dataclasses import replace

import pytest

from graphcollab.analysis import Comparison
from graphcollab.report import results_table
from tests.raising import raises


def test_columns_in_percent(comparison: Comparison) -> None:
    header, _, local, l2c = str(results_table(comparison)).splitlines()[:4]
    assert header.split("  ")[0] == "method"
    # local's means .5 and .75 have a standard deviation of .25 / sqrt(2)
    assert local.split() == ["local", "62.50", "±", "17.68", "37.50", "37.50", "10.00", "1.5", "kB", "2.0", "–"]
    assert l2c.endswith("lr=0.1 or lr=0.3")
    assert str(results_table(comparison)).endswith("\n\n± is the standard deviation over 2 seeds")


def test_one_seed_has_no_spread_and_settings_can_be_left_out(comparison: Comparison) -> None:
    one = replace(comparison, chosen={name: trials[:1] for name, trials in comparison.chosen.items()})
    text = str(results_table(one, settings=False))
    assert "±" not in text
    assert "setting" not in text


def test_nothing_to_choose_gives_no_column(comparison: Comparison) -> None:
    only = replace(comparison, chosen={"local": comparison.chosen["local"]})
    assert "setting" not in str(results_table(only))


def test_other_metrics_keep_their_unit(comparison: Comparison) -> None:
    header, _, local, _ = str(results_table(replace(comparison, metric="mae"))).splitlines()[:4]
    assert "mean test mae " in header
    assert local.split()[1:5] == ["0.625", "±", "0.1768", "0.375"]


def test_a_comparison_knows_its_metric(comparison):
    errors = replace(comparison, metric="mse", higher_is_better=False)
    header, *_ = str(results_table(errors)).splitlines()
    assert "mean test mse " in header
    assert "%)" not in header


@pytest.fixture
def with_nodes(comparison: Comparison) -> Comparison:
    nodes = {
        ("local", 0): (0.5, 0.5, 0.25, 0.75),
        ("local", 1): (0.5, 0.5, 0.5, 0.5),
        ("l2c", 0): (0.75, 0.5, 0.5, 0.5),  # 2 of 4 better, 1 equal
        ("l2c", 1): (0.75, 0.75, 0.75, 0.25),  # 3 of 4
    }
    chosen = {
        name: [replace(t, per_node=nodes[name, t.seed], test_loss=1.5 + t.seed) for t in trials]
        for name, trials in comparison.chosen.items()
    }
    return replace(comparison, chosen=chosen)


def test_a_reference_adds_the_loss_and_the_share_of_improved_nodes(with_nodes: Comparison) -> None:
    header, _, local, l2c = str(results_table(with_nodes, reference="local")).splitlines()[:4]
    assert header.split("  ", 1)[1].split() == [
        "mean", "test", "accuracy", "(%)", "test", "loss", "improved", "(%)", "worst", "10", "%", "worst", "20", "%",
        "std", "over", "sites", "sent", "per", "site", "seconds", "setting",
    ]  # fmt: skip
    assert local.split()[1:8] == ["62.50", "±", "17.68", "2", "–", "37.50", "37.50"]
    assert l2c.split()[4:6] == ["2", "62.5"]
    assert "improved" not in str(results_table(with_nodes))


def test_a_reference_needs_trials_that_know_their_nodes(comparison: Comparison, with_nodes: Comparison) -> None:
    with raises("unknown", "name", "'ditto'", "l2c", "local"):
        results_table(with_nodes, reference="ditto")
    with raises("missing", "per_node"):
        results_table(comparison, reference="local")


def test_the_worst_nodes_are_left_out_where_they_are_one_or_two(comparison: Comparison) -> None:
    def header(nodes: int) -> str:
        chosen = {
            name: [replace(t, summary={**t.summary, "nodes": nodes - 1, "ignored": 1}) for t in trials]
            for name, trials in comparison.chosen.items()
        }
        return str(results_table(replace(comparison, chosen=chosen))).splitlines()[0]

    assert "worst 10 %  worst 20 %" in header(20)
    assert "worst 10 %" not in header(19)
    assert "worst 20 %" in header(10)
    assert "worst" not in header(9)
    assert "std over sites" in header(4)


def test_legends(comparison: Comparison) -> None:
    told = {
        name: [replace(t, per_node=(0.5, 1.0), prepared=2) for t in some] for name, some in comparison.chosen.items()
    }
    text = str(results_table(replace(comparison, chosen=told), reference="local"))
    assert "\nimproved (%): the share of sites that do better than with local\n" in text
    assert "sent per site: also sums of columns by which sites prepared the table, before the first round" in text
    assert "sent per site:" not in str(results_table(comparison))
