"""Every method holds the contract; methods declare what they are, and nothing here asks for a name."""

from __future__ import annotations

import inspect

import pytest

from graphcollab import methods
from graphcollab.methods._peers import Training
from graphcollab.phases import Phases
from graphcollab.testing import CONTRACT, check_two_architectures

# Settings under which two small rounds show what a method does; each is given to the methods that have it. Its phases
# begin in the second round.
QUICK = {"epochs": 2, "batch_size": 4, "lr": 0.1, "drop_round": 0, "drop_fraction": 0.5, "fraction": 0.5, "samples": 2}
QUICK |= {"chosen": 1, "neighbors": 2, "every": 1, "warmup": 1, "explore_rounds": 1, "learn_rounds": 1}


def build(name, **settings):
    function = methods.get_method(name)
    known = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        known = {*known, *Training.__annotations__}
    return function(**{key: value for key, value in {**QUICK, **settings}.items() if key in known})


# After a phase that plays the first round, those of the method itself must begin later.
AFTER = {"warmup": 2, "explore_rounds": 2, "learn_rounds": 2}


def defaults(name):
    return methods.get_method(name)()


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [defaults, build], ids=["default", "quick"])
@pytest.mark.parametrize("name", methods.__all__)
def test_contract(name, make, check):
    check(make(name))


@pytest.mark.parametrize("name", methods.__all__)
def test_two_architectures_share_a_head(name):
    check_two_architectures(build(name, part="head"))


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("last", methods.__all__)
def test_contract_of_phases(last, check):
    check(Phases(build("local"), 1, build(last, **AFTER)))
