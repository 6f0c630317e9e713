"""Every method holds the contract; methods declare what they are, and nothing here asks for a name."""

from __future__ import annotations

import pytest

from graphcollab import methods
from graphcollab.phases import Phases
from graphcollab.testing import (
    CONTRACT,
    check_declared,
    check_direction,
    check_forbidden_edges,
    check_input_untouched,
    check_membership,
    check_relabelling,
    check_resume,
    check_runs,
    check_sends,
    check_two_architectures,
)
from tests.methods.quick import early

# After a phase that plays the first round, those of the method itself must begin later.
LATER = {"warmup": 2, "explore_rounds": 2, "learn_rounds": 2}

# By its default settings and as a later phase a method goes other ways in these checks only.
OF_DEFAULTS = (check_runs, check_forbidden_edges, check_resume)
OF_PHASES = (
    check_runs,
    check_input_untouched,
    check_relabelling,
    check_forbidden_edges,
    check_direction,
    check_resume,
    check_membership,
    check_declared,
    check_sends,
)


def named(checks):
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


@named(CONTRACT)
@pytest.mark.parametrize("name", methods.__all__)
def test_contract(name, check):
    check(early(name, epochs=1))


@named(OF_DEFAULTS)
@pytest.mark.parametrize("name", methods.__all__)
def test_contract_of_the_defaults(name, check):
    check(methods.get_method(name)())


@pytest.mark.parametrize("name", methods.__all__)
def test_two_architectures_share_a_head(name):
    check_two_architectures(early(name, part="head", epochs=1))


@named(OF_PHASES)
@pytest.mark.parametrize("last", methods.__all__)
def test_contract_of_phases(last, check):
    check(Phases(early("local", epochs=1), 1, early(last, **LATER, epochs=1)))
