from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
import torch

from graphcollab.naming import ByName, close, few, find_node, find_nodes, numbered

NAMES = ("Cleveland", "Budapest", "Zurich", "Long Beach")


@pytest.mark.parametrize("node", ["Zurich", 2, np.int64(2), torch.tensor(2)])
def test_by_name_or_position(node):
    assert find_node(node, NAMES) == 2


@pytest.mark.parametrize(
    ("node", "error", "says"),
    [
        (
            "Clevland",
            KeyError,
            "no node 'Clevland'; did you mean 'Cleveland'? The nodes are Cleveland, Budapest, Zurich, Long Beach",
        ),
        ("zurich", KeyError, "did you mean 'Zurich'?"),
        ("x", KeyError, "no node 'x'; the nodes are Cleveland, Budapest, Zurich, Long Beach"),
        (4, IndexError, "no node 4; the 4 nodes are counted from 0: Cleveland"),
        (-1, IndexError, "no node -1"),
        (1.0, TypeError, "by its name or its position, got 1.0 (a float)"),
        (True, TypeError, "got True (a bool)"),
        (None, TypeError, "got None"),
    ],
)
def test_there_is_none(node, error, says):
    with pytest.raises(error, match=re.escape(says)):
        find_node(node, NAMES)


def test_several():
    assert find_nodes(["Long Beach", 0, "Budapest"], NAMES) == [3, 0, 1]
    with pytest.raises(KeyError, match="Paris"):
        find_nodes(["Paris"], NAMES)


@pytest.mark.parametrize("node", ["2", 2, np.int64(2), torch.tensor(2)])
def test_numbers_are_names_where_all_names_are_numbers(node):
    names = ("1", "2", "3")
    assert numbered(names)
    assert not numbered(NAMES)
    assert find_node(node, names) == 1
    assert find_nodes([node, 3, 1], names) == [1, 2, 0]


def test_a_number_that_no_node_is_called_is_no_position():
    with pytest.raises(KeyError, match=re.escape("no site 0; the sites are 1, 2, 3 (where names are numbers,")):
        find_node(0, ("1", "2", "3"), "site")
    with pytest.raises(KeyError, match="no node 0"):
        find_nodes([1, 0], ("1", "2", "3"))
    with pytest.raises(TypeError, match="got True"):
        find_nodes([True], ("1", "2", "3"))


def test_a_number_that_may_be_either_is_an_error():
    mixed = ("1", "north", "south")
    with pytest.raises(ValueError, match="give the name as text, '1', or for the node at that position 'north'"):
        find_node(1, mixed)
    with pytest.raises(ValueError, match="give the name as text, '1'"):
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
    with pytest.raises(KeyError, match=r"there is no 'dito'; did you mean 'ditto'\? There are ditto, local"):
        found["dito"]


def test_names_with_commas_are_quoted():
    with pytest.raises(KeyError, match="the nodes are 'Cleveland, OH', 'Bern'"):
        find_node("x", ["Cleveland, OH", "Bern"])
    with pytest.raises(KeyError, match="the nodes are Cleveland, Bern"):
        find_node("x", ["Cleveland", "Bern"])
