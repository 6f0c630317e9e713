from __future__ import annotations

import pytest

from graphcollab.components import Fit
from graphcollab.engine import SGD, Adam, AdamW, LocalSteps
from tests.raising import raises


def test_pieces_that_let_nodes_train_have_its_settings():
    steps, fit = LocalSteps(2, None, 5, SGD(lr=0.3)), Fit(2, None, 5, SGD(lr=0.3))
    assert isinstance(fit, LocalSteps)
    assert all(getattr(fit, name) == value for name, value in vars(steps).items())


def test_an_optimizer_by_name_or_class():
    assert LocalSteps(optimizer="adam").optimizer == Adam()
    assert LocalSteps(optimizer="adamw").optimizer == AdamW()
    assert LocalSteps().optimizer in LocalSteps().walk()


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"epochs": 0}, ("value", "epochs")),
        ({"steps": 1.5}, ("value", "steps", "1.5")),
        ({"batch_size": "10"}, ("value", "batch_size", "'10'")),
        ({"optimizer": 0.1}, ("value", "optimizer")),
    ],
)
def test_settings_are_checked(settings, wanted):
    with raises(*wanted):
        LocalSteps(**settings)
