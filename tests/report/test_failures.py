"""Methods that failed are shown as such, in all tables and figures of a comparison."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from graphcollab.report import accuracy_curves, paired_table, results_json, results_table


def cells(table, name):
    return " ".join(next(line for line in table.splitlines() if line.startswith(name)).split()[1:])


def test_results_table(failing):
    table = str(results_table(failing))
    assert cells(table, "fedavg").startswith("failed on 1 of 2 seeds – – – – –")
    assert cells(table, "cobo").startswith("failed – – – – –")
    assert cells(table, "local").startswith("62.50 ± 17.68")


def test_results_table_beside_a_reference(failing):
    with_nodes = {
        name: [replace(t, per_node=() if t.failure else (0.5, 0.75), test_loss=1.0) for t in trials]
        for name, trials in failing.chosen.items()
    }
    table = str(results_table(replace(failing, chosen=with_nodes), reference="local"))
    assert cells(table, "cobo").startswith("failed 1 –")


def test_results_table_says_over_how_many_nodes(comparison):
    def counted(trial, nodes):
        return replace(trial, summary={**trial.summary, "nodes": nodes, "ignored": 4 - nodes})

    chosen = {name: [counted(t, 4 - s) for s, t in enumerate(trials)] for name, trials in comparison.chosen.items()}
    table = str(results_table(replace(comparison, chosen=chosen)))
    assert "(%)        sites" in table
    assert "3 to 4 of 4" in cells(table, "local")
    assert " sites  worst" not in str(results_table(comparison))


def test_paired_table(failing):
    table = str(paired_table(failing))
    assert cells(table, "fedavg") == "failed on 1 of 2 seeds – – –"
    assert cells(table, "cobo") == "failed – – –"
    assert cells(table, "l2c").startswith("+9.38")
    table = str(paired_table(failing, reference="cobo"))
    assert cells(table, "local") == "cobo: failed – – –"


def test_results_json(failing):
    content = json.loads(results_json(failing, "local"))
    assert content["methods"]["cobo"]["mean"] is None
    assert content["methods"]["cobo"]["failed"] == 2
    assert "node 3" in content["methods"]["fedavg"]["per_seed"][1]["failure"]
    assert content["paired"]["fedavg"] == {}
    assert content["paired"]["l2c"]["mean"]["n"] == 2


def test_figures(failing):
    figure = accuracy_curves(failing)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == ["fedavg (failed on 1 of 2 seeds)", "l2c", "local"]


def left_behind(comparison, name, many):
    """A comparison in which nodes of a method were isolated on the last seed."""
    first, *rest = comparison.chosen[name][::-1]
    trial = replace(first, summary={**first.summary, "isolated": many})
    return replace(comparison, chosen={**comparison.chosen, name: [*rest[::-1], trial]})


def test_isolated_nodes_are_seen(comparison):
    marked = left_behind(comparison, "local", 2)
    assert "isolated  worst 10 %" in str(results_table(marked))
    assert cells(str(results_table(marked)), "l2c").split()[3] == "0"
    content = json.loads(results_json(marked))
    assert content["methods"]["local"]["isolated"] == 2
    assert "isolated" not in str(results_table(comparison))


def test_where_means_are_not_defined_there_is_no_difference(comparison):
    trials = comparison.chosen["l2c"]
    without = replace(trials[0], summary={**trials[0].summary, "mean": math.nan})
    undefined = replace(comparison, chosen={**comparison.chosen, "l2c": [without, *trials[1:]]})
    assert f"not defined on 1 of {len(trials)} seeds" in str(paired_table(undefined))
    assert "mean" not in json.loads(results_json(undefined, "local"))["paired"]["l2c"]
