"""Plain words for methods, metrics and tables."""

from __future__ import annotations

import re

import pytest

from graphcollab import Tasks, methods
from graphcollab.analysis.baseline import BASELINES
from graphcollab.analysis.held import asked
from graphcollab.analysis.metrics import METRICS
from graphcollab.report.words import METRICS as IN_WORDS, asked_of, explained, metric_in_words, rows_used, way_in_words


@pytest.mark.parametrize("name", [*methods.__all__, *BASELINES, "alone", "together"])
def test_ways_have_words(name):
    said = way_in_words(name)
    assert said
    assert not re.search(r"\bnodes?\b|\n|\.$", said)


def test_words_of_a_method_are_its_own():
    assert way_in_words("partial_pooling") == (
        "sites share slopes, exactly or up to a shrinkage, and each has an intercept of its own"
    )
    assert explained("together", "all together") == "all together (one model for all sites, by federated averaging)"
    assert explained("mine") == "mine"


def test_metrics_have_words():
    assert {*IN_WORDS} == {*METRICS}
    assert metric_in_words("brier", False) == (
        "Brier score (the mean squared error of predicted probabilities; smaller is better)"
    )
    assert metric_in_words("mine", True) == "mine (larger is better)"


def test_a_table_is_told():
    frame = {"site": ["a", "b"] * 20, "age": [*range(40)], "sex": ["f", "m", "m", "f"] * 10, "ill": [0, 1, 1, 0, 1] * 8}
    about = asked([Tasks.from_frame(frame, target="ill", leave_out=[], seed=0)])
    assert asked_of(about, "ill.csv") == (
        "ill.csv: 40 rows of 2 sites (column 'site'). A row is one case: models predict its 'ill' (0 or 1) from age, "
        "sex; numbers that a model is given: 3."
    )
    many = {name: sum(held) for name, held in about["rows"].items()}
    assert rows_used(about) == (
        f" (of the rows {many['train']} to learn from, {many['val']} to choose settings by, {many['test']} to test on)"
    )
    assert asked_of({}) == rows_used({}) == ""
