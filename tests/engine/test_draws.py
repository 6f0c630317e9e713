"""Generators of one's own are at work only where something is drawn, and nothing is drawn unkeyed."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab.engine import LocalSteps, Rows
from graphcollab.engine.draws import Draws
from graphcollab.engine.keyed_checkpoint import keyed_checkpoint
from graphcollab.engine.modules import copy_module
from graphcollab.engine.randomness import own_randomness
from tests.engine.test_randomness import seeded

X = torch.linspace(-1, 1, 24).view(4, 6)
CPU = torch.device("cpu")


def counted(numbers, aside=lambda: None):
    """A computation, and whether it might draw whenever it was made; it draws where its next number is not 0."""
    made, draws = [], Draws()

    def compute():
        made.append(draws.active)
        aside()
        with draws.keyed(own_randomness(7)) if draws.active else nullcontext():
            return torch.rand(2) if next(numbers) else torch.zeros(2)

    return made, lambda: draws.settle("it", CPU, compute)


def test_what_draws_nothing_is_made_without_from_the_second_time_on():
    made, settle = counted(iter([0, 0, 0]))
    for _ in range(3):
        settle()
    assert made == [True, False, False]


def test_what_draws_is_always_made_under_generators_of_its_own():
    made, settle = counted(iter([1, 1]))
    assert torch.equal(settle(), settle())
    assert made == [True, True]


def test_what_begins_to_draw_is_made_once_more_under_generators_of_its_own():
    made, settle = counted(iter([0, 0, 1, 1, 1]))
    settle(), settle()
    assert torch.equal(settle(), settle())
    assert made == [True, False, False, True, True]


def test_what_another_thread_draws_is_noticed_once():
    def aside():
        thread = threading.Thread(target=torch.rand, args=(1,))
        thread.start()
        thread.join()

    made, settle = counted(iter([0] * 4), aside)
    settle(), settle(), settle()
    assert made == [True, False, True, False]


class Other(nn.Dropout):
    """Draws once more beside what its type draws."""

    def forward(self, x):
        return super().forward(x) + torch.rand(1)


LAYERS = {
    "dropout": nn.Dropout(0.5),
    "in place": nn.Sequential(nn.Tanh(), nn.Dropout(0.5, inplace=True)),
    "of channels": nn.Dropout1d(0.5),
    "alpha": nn.AlphaDropout(0.5),
    "of features": nn.FeatureAlphaDropout(0.5),
    "another": Other(0.5),
}


class Ops(own_randomness):
    """Counts the operations that it sees."""

    def __init__(self, seed):
        super().__init__(seed)
        self.seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return super().__torch_dispatch__(func, types, args, kwargs)


def keyed_by(draws, compute, kind="it", made=None):
    """What computations are settled to, each under generators with the same seed."""

    def under():
        randomness = Ops(11)
        with draws.keyed(randomness) if draws.active else nullcontext():
            found = compute()
        if made is not None:
            made.append(randomness.seen)
        return found

    return draws.settle(kind, CPU, under)


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_layers_draw_the_same_where_generators_are_at_work_in_them_alone(name):
    layer = copy_module(LAYERS[name])

    def compute():
        return [torch.cos(layer(torch.sin(X).exp()).abs() + 1) for _ in range(2)]

    expected, state, made = seeded(compute, 11)[0], torch.get_rng_state(), []
    draws = Draws(layer)
    for _ in range(3):
        assert all(map(torch.equal, keyed_by(draws, compute, made=made), expected))
    assert torch.equal(state, torch.get_rng_state())
    assert made[1] == made[2] < made[0] - 5  # sin, exp, abs, the sum and cos of either pass


ELSEWHERE = {
    "a function": lambda x: F.dropout(x, 0.5),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)[0],
    "noise": lambda x: x + torch.randn_like(x),
}


@pytest.mark.parametrize("first", [True, False], ids=["from the first time on", "later"])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_drawn_elsewhere_is_keyed_too(name, first):
    layer = copy_module(nn.Dropout(0.5))
    draws, made = Draws(layer), []

    def compute(both):
        return ELSEWHERE[name](layer(X)) if both else layer(X)

    for both in (first, first, True, True, True):
        expected = seeded(lambda both=both: compute(both), 11)[0]
        assert torch.equal(keyed_by(draws, lambda both=both: compute(both), made=made), expected)
    if first:  # then it was known from the first time on, and the global generator was never read
        assert len(made) == 5
    else:
        assert len(made) == 6


def test_after_a_draw_of_another_thread_all_is_watched_over():
    """Nobody knows which of the two it was, so generators are at work everywhere from then on."""
    layer = copy_module(nn.Dropout(0.5))
    draws, made, threads = Draws(layer), [], iter([False, False, True, False, False])

    def compute():
        if next(threads, False):
            thread = threading.Thread(target=torch.rand, args=(1,))
            thread.start()
            thread.join()
        return torch.cos(layer(torch.sin(X)))

    expected = seeded(lambda: torch.cos(layer(torch.sin(X))), 11)[0]
    for _ in range(4):
        assert torch.equal(keyed_by(draws, compute, made=made), expected)
    assert made[0] > made[1] == made[2] < made[3] == made[4]  # the third is made twice


def test_an_instance_with_a_forward_of_its_own_draws_as_before():
    layer = nn.Dropout(0.5)
    layer.forward = lambda x: F.dropout(x, 0.25)
    draws, made = Draws(layer), []
    expected = seeded(lambda: torch.cos(layer(X)), 11)[0]
    for _ in range(2):
        assert torch.equal(keyed_by(draws, lambda: torch.cos(layer(X)), made=made), expected)
    assert made[0] == made[1]


def test_a_module_and_its_copies_are_prepared_once():
    layer = nn.Sequential(nn.Dropout(0.5))
    Draws(layer)
    forward = layer[0].forward
    Draws(layer)
    assert layer[0].forward is forward
    twin = copy_module(layer)
    assert twin[0].forward.args[0].__self__ is twin[0]


def test_without_generators_layers_draw_as_they_are():
    layer = nn.Dropout(0.5)
    expected = seeded(lambda: layer(X), 3)
    Draws(layer)
    assert all(map(torch.equal, seeded(lambda: layer(X), 3), expected))


def test_activation_checkpointing_repeats_what_layers_drew():
    body = copy_module(nn.Sequential(nn.Dropout(0.5), nn.Tanh(), nn.Dropout(0.3)))
    draws, found = Draws(body), []
    for again in (False, False, True, True):

        def compute(again=again):
            x = X.clone().requires_grad_()
            out = (keyed_checkpoint(body, x) if again else body(x)).square() + body(x)
            return torch.autograd.grad(out.sum(), x)[0]

        found.append(keyed_by(draws, compute, again))
    assert all(torch.equal(found[0], other) for other in found[1:])


class Dropping(nn.Module):
    """A frozen body and a trained head, with dropout as a layer, and on demand as a function, too."""

    def __init__(self):
        super().__init__()
        with own_randomness(0):
            self.body, self.drop, self.head = nn.Linear(4, 30), nn.Dropout(0.4), nn.Linear(30, 3)
        self.body.requires_grad_(False)
        self.more = 0.0

    def forward(self, x):
        x = self.drop(torch.tanh(self.body(x)))
        return self.head(F.dropout(x, self.more, self.training) if self.more else x)


@pytest.mark.parametrize("backend", ["shared", "loop", "vmap"])
def test_steps_stay_the_same_to_the_bit(make_engine, backend):
    """Of the first time, when generators are at work everywhere, and later; and once a function begins to draw."""
    module = Dropping().double()
    engine, models = make_engine(module, backend=backend)
    state, steps = torch.get_rng_state(), LocalSteps(batch_size=3, epochs=2)

    def fitted(times):
        return [engine.fit(Rows.own(models), steps, seed=3, round_=1).models.tensors[0] for _ in range(times)]

    first, *others = fitted(3)
    assert all(torch.equal(first, other) for other in others)
    assert torch.equal(state, torch.get_rng_state())
    engine.backends[0].module.more = 0.5
    first, *others = fitted(3)
    assert all(torch.equal(first, other) for other in others)
    module.more = 0.5
    fresh, _ = make_engine(module, backend=backend)
    expected = fresh.fit(Rows.own(models), steps, seed=3, round_=1).models.tensors[0]
    assert torch.equal(first, expected)
