"""Every method holds the contract; methods declare what they are, and nothing here asks for a name."""

from __future__ import annotations

import functools

import pytest

from graphcollab import Phases, methods
from graphcollab.testing.contract import CONTRACT, check_declared, check_membership, check_two_architectures
from graphcollab.testing.edge_checks import check_forbidden_edges
from tests.methods.quick import early

# After a phase that plays the first round, those of the method itself must begin later.
LATER = {"warmup": 2, "explore_rounds": 2, "learn_rounds": 2}

# Checks of a method look at the same plays, which are found again by the method.
made = functools.cache(functools.partial(early, epochs=1))


@functools.cache
def last(name):
    """The method as a later phase."""
    return Phases(made("local"), 1, early(name, **LATER, epochs=1))


def pieces(method):
    return {type(piece) for piece in method.walk()}


def lasting_fields(method):
    return {field.name for field in method.fields if field.lifetime != "round"}


# By default a method is made of other pieces: others are at work in a round, or edges are dropped.
OTHER_BY_DEFAULT = [name for name in methods.__all__ if pieces(methods.get_method(name)()) != pieces(made(name))]
# As a later phase a method begins from other models and in another round: what it keeps itself may go wrong. That such
# runs go on from a checkpoint, and what they find, tests/golden tells.
KEEPING = [name for name in methods.__all__ if lasting_fields(made(name)) - lasting_fields(made("fedavg"))]
OF_PHASES = [(check_declared, name) for name in methods.__all__]
OF_PHASES += [(check, name) for name in KEEPING for check in (check_forbidden_edges, check_membership)]


def named(checks):
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


@named(CONTRACT)
@pytest.mark.parametrize("name", methods.__all__)
def test_contract(name, check):
    check(made(name))


@pytest.mark.parametrize("name", OTHER_BY_DEFAULT)
def test_nothing_goes_along_forbidden_edges_by_default(name):
    check_forbidden_edges(methods.get_method(name)())


@pytest.mark.parametrize("name", methods.__all__)
def test_two_architectures_share_a_head(name):
    check_two_architectures(early(name, part="head", epochs=1))


@pytest.mark.parametrize(("check", "name"), OF_PHASES, ids=lambda one: getattr(one, "__name__", one))
def test_contract_of_phases(check, name):
    check(last(name))
