"""Every method holds the contract; methods declare what they are, and nothing here asks for a name."""

from __future__ import annotations

import pytest

from graphcollab import methods
from graphcollab.phases import Phases
from graphcollab.testing import CONTRACT, check_two_architectures
from tests.methods.quick import early

# After a phase that plays the first round, those of the method itself must begin later.
LATER = {"warmup": 2, "explore_rounds": 2, "learn_rounds": 2}


def defaults(name):
    return methods.get_method(name)()


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [defaults, early])
@pytest.mark.parametrize("name", methods.__all__)
def test_contract(name, make, check):
    check(make(name))


@pytest.mark.parametrize("name", methods.__all__)
def test_two_architectures_share_a_head(name):
    check_two_architectures(early(name, part="head"))


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("last", methods.__all__)
def test_contract_of_phases(last, check):
    check(Phases(early("local"), 1, early(last, **LATER)))
