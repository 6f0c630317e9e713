from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from graphcollab._base.naming import ByName, close, few, find_node, find_nodes, numbered
from tests.raising import raises

NAMES = ("Cleveland", "Budapest", "Zurich", "Long Beach")


@pytest.mark.parametrize("node", ["Zurich", 2, np.int64(2), torch.tensor(2)])
def test_by_name_or_position(node):
    assert find_node(node, NAMES) == 2


@pytest.mark.parametrize(
    ("node", "code", "facts"),
    [
        ("Clevland", "unknown", ("'Clevland'", "'Cleveland'", "Cleveland, Budapest, Zurich, Long Beach")),
        ("zurich", "unknown", ("did you mean 'Zurich'?",)),
        ("x", "unknown", ("'x'", "Cleveland, Budapest, Zurich, Long Beach")),
        (4, "range", ("no node 4", "Cleveland")),
        (-1, "range", ("no node -1",)),
        (1.0, "type", ("1.0 (a float)",)),
        (True, "type", ("True (a bool)",)),
        (None, "type", ("None",)),
    ],
)
def test_there_is_none(node, code, facts):
    with raises(code, "node", *facts):
        find_node(node, NAMES)


def test_several():
    assert find_nodes(["Long Beach", 0, "Budapest"], NAMES) == [3, 0, 1]
    with raises("unknown", "node", kind=KeyError):
        find_nodes(["Paris"], NAMES)


@pytest.mark.parametrize("node", ["2", 2, np.int64(2), torch.tensor(2)])
def test_numbers_are_names_where_all_names_are_numbers(node):
    names = ("1", "2", "3")
    assert numbered(names)
    assert not numbered(NAMES)
    assert find_node(node, names) == 1
    assert find_nodes([node, 3, 1], names) == [1, 2, 0]


def test_a_number_that_no_node_is_called_is_no_position():
    with raises("unknown", "site", "no site 0", "1, 2, 3"):
        find_node(0, ("1", "2", "3"), "site")
    with raises("unknown", "node", kind=KeyError):
        find_nodes([1, 0], ("1", "2", "3"))
    with raises("type", "node", kind=TypeError):
        find_nodes([True], ("1", "2", "3"))


def test_a_number_that_may_be_either_is_an_error():
    mixed = ("1", "north", "south")
    with raises("ambiguous", "node", "'1'", "'north'"):
        find_node(1, mixed)
    with raises("ambiguous", "node", "'1'"):
        find_nodes([1], mixed)
    assert find_nodes([0, 2], mixed) == [0, 2]


def test_dots_only_where_there_are_more():
    assert few("abcdefgh") == "a, b, c, d, e, f, g, h"
    assert few("abcdefghi") == "a, b, c, d, e, f, g, h, … (9 in all)"


def test_what_others_call_otherwise_and_what_begins_alike_comes_first() -> None:
    assert close("learning_rate", ["epochs", "lr"], 1) == "did you mean 'lr'? "
    assert close("acc", ["auc", "accuracy"]) == "did you mean 'accuracy' or 'auc'? "
    assert close("round", ["tuned", "rounds"], 1) == "did you mean 'rounds'? "


def test_by_name() -> None:
    found = ByName({"ditto": 1, "local": 2})
    assert found["ditto"] == 1
    assert found == {"ditto": 1, "local": 2}
    assert pickle.loads(pickle.dumps(found)) == found
    with raises("unknown", "name", "'dito'", "'ditto'", kind=KeyError):
        found["dito"]


def test_names_with_commas_are_quoted():
    with raises("unknown", "node", "'Cleveland, OH'", "'Bern'", kind=KeyError):
        find_node("x", ["Cleveland, OH", "Bern"])
    with raises("unknown", "node", kind=KeyError):
        find_node("x", ["Cleveland", "Bern"])
