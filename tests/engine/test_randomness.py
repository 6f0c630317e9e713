"""A thread's own generator gives what a seeded global one would give, and leaves that alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from graphcollab import build_model
from graphcollab.engine import ImageAugment
from graphcollab.engine.randomness import own_randomness
from tests.raising import raises

X = torch.linspace(-1, 1, 24).view(4, 6)
IMAGES = torch.linspace(0, 1, 4 * 3 * 64).view(4, 3, 8, 8)

DRAWS = {
    "rand": lambda: torch.rand(3, 4),
    "randn": lambda: torch.randn(20, dtype=torch.float64),
    "randint": lambda: torch.randint(7, (5,)),
    "randint from": lambda: torch.randint(2, 7, (5,)),
    "randperm": lambda: torch.randperm(9),
    "rand_like": lambda: torch.rand_like(X),
    "randn_like": lambda: torch.randn_like(X),
    "randint_like": lambda: torch.randint_like(X, 9),
    "randint_like from": lambda: torch.randint_like(X, 3, 9),
    "rand out": lambda: torch.rand(4, out=torch.empty(4)),
    "random_": lambda: torch.empty((), dtype=torch.int64).random_(),
    "uniform_": lambda: torch.empty(5).uniform_(-2, 3),
    "normal_": lambda: torch.empty(17).normal_(1, 2),
    "normal": lambda: torch.normal(X, 2.0),
    "exponential_": lambda: torch.empty(5).exponential_(),
    "geometric_": lambda: torch.empty(5).geometric_(0.3),
    "cauchy_": lambda: torch.empty(5).cauchy_(),
    "log_normal_": lambda: torch.empty(5).log_normal_(),
    "bernoulli": lambda: torch.bernoulli(X.abs()),
    "bernoulli_": lambda: torch.empty(50).bernoulli_(0.3),
    "poisson": lambda: torch.poisson(5 * X.abs()),
    "binomial": lambda: torch.binomial(torch.full((5,), 9.0), torch.full((5,), 0.5)),
    "multinomial": lambda: torch.multinomial(X.abs() + 0.1, 3),
    "gamma": lambda: torch.distributions.Gamma(2.0, 1.0).sample((3,)),
    "dirichlet": lambda: torch.distributions.Dirichlet(torch.ones(3)).sample((3,)),
    "beta": lambda: torch.distributions.Beta(2.0, 3.0).sample((3,)),
    "native_dropout": lambda: torch.native_dropout(X, 0.5, True)[0],
    "dropout": lambda: F.dropout(X, 0.5),
    "dropout of all": lambda: F.dropout(X, 1.0),
    "dropout in place": lambda: F.dropout(X.clone(), 0.5, inplace=True),
    "alpha_dropout": lambda: F.alpha_dropout(X, 0.5, training=True),
    "feature_alpha_dropout": lambda: F.feature_alpha_dropout(X[..., None], 0.5, training=True),
    "dropout2d": lambda: F.dropout2d(X.view(2, 3, 2, 2), 0.5),
    "rrelu": lambda: F.rrelu(X, training=True),
    "rrelu in place": lambda: F.rrelu(X.clone(), training=True, inplace=True),
    "gumbel_softmax": lambda: F.gumbel_softmax(X),
    "fractional_max_pool": lambda: F.fractional_max_pool2d(torch.arange(36.0).view(1, 1, 6, 6), 2, output_size=3),
    "attention": lambda: F.scaled_dot_product_attention(X[None], X[None], X[None], dropout_p=0.5),
    "lstm": lambda: nn.LSTM(6, 4, 2, dropout=0.5)(X[None])[0].detach(),
    "transformer": lambda: nn.TransformerEncoderLayer(6, 2, 8)(X[None]).detach(),
    "linear": lambda: nn.Linear(30, 9).weight.detach(),
    "orthogonal": lambda: nn.init.orthogonal_(torch.empty(5, 5)),
    "trunc_normal": lambda: nn.init.trunc_normal_(torch.empty(50), std=0.7),
    "embedding": lambda: nn.Embedding(9, 4).weight.detach(),
    "augmentations by kornia": lambda: ImageAugment()(IMAGES),
    "convolutions": lambda: nn.utils.parameters_to_vector(
        build_model("fedavg_cnn", (1, 28, 28), 10).parameters()
    ).detach(),
}


def seeded(draw, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [draw(), draw()]  # where a stream stands after a draw counts too


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_the_global_generator_with_the_seed(name):
    expected, before = seeded(DRAWS[name], 11), torch.get_rng_state()
    with own_randomness(11) as own:
        found = [DRAWS[name](), DRAWS[name]()]
    assert all(map(torch.equal, found, expected))
    assert own.draws >= 2 or name == "dropout of all"  # which PyTorch computes without a draw
    assert torch.equal(before, torch.get_rng_state())


def test_gradients_are_those_of_the_global_generator_with_the_seed():
    def draw():
        x = X.clone().requires_grad_()
        return torch.autograd.grad(F.dropout(F.rrelu(x, training=True), 0.4).square().sum(), x)[0]

    expected = seeded(draw, 3)
    with own_randomness(3):
        assert torch.equal(draw(), expected[0])


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.Dropout1d(0.5)], ids=str)
def test_draws_under_vmap_are_those_of_the_global_generator(layer):
    stacked = torch.func.vmap(layer, randomness="different")
    expected = seeded(lambda: stacked(X.view(2, 2, 6)), 3)
    with own_randomness(3):
        assert torch.equal(stacked(X.view(2, 2, 6)), expected[0])


def test_what_draws_nothing_is_not_counted():
    attention = nn.MultiheadAttention(6, 2)
    with own_randomness(0) as own:
        F.dropout(X, 0.5, training=False), F.dropout(X, 0.0), F.rrelu(X), nn.LSTM(6, 4, 2, dropout=0.5).eval()(X)
        drawn = own.draws  # parameters of the LSTM
        attention(X[None], X[None], X[None], need_weights=False), torch.native_dropout(X, 0.5, False)
        assert own.draws == drawn


def test_tensors_without_numbers_are_left_alone():
    with own_randomness(0) as own, torch.device("meta"):
        assert nn.Dropout()(nn.Linear(3, 4)(torch.rand(2, 3))).shape == (2, 4)
    assert own.draws == 0


def test_a_generator_that_is_given_is_used_and_the_inner_of_two_counts():
    theirs, expected = torch.Generator().manual_seed(4), torch.rand(3, generator=torch.Generator().manual_seed(4))
    drawn = seeded(lambda: torch.rand(3), 1)[0]
    with own_randomness(0) as outer, own_randomness(1) as inner:
        assert torch.equal(torch.rand(3, generator=theirs), expected)
        assert inner.draws == 0
        assert torch.equal(torch.rand(3), drawn)
    assert (outer.draws, inner.draws) == (0, 1)


def test_every_operation_marked_as_random_gets_a_generator_or_is_refused():
    """New ones of another PyTorch version show here."""
    from graphcollab.engine import randomness

    without = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for form in packet.overloads() if hasattr(packet, "overloads") else ():
            func = getattr(packet, form)
            if torch.Tag.nondeterministic_seeded in func.tags:
                assert randomness._may_draw(func)
                if randomness._with_generator(func) is None:
                    without.add(name)
    fused = {name for name in without if "attention" in name or "rnn" in name}
    made_of_others = {"dropout", "alpha_dropout", "gru", "lstm"}
    assert without - fused - made_of_others - {*randomness.LIKE} == {"native_dropout"}


def test_what_takes_no_generator_is_refused_by_name():
    """Attention as GPUs compute it, which there is no kernel for here."""
    own, qkv = own_randomness(0), X.view(1, 1, 4, 6)
    fused = torch.ops.aten._scaled_dot_product_flash_attention.default
    with raises("unsupported", "operation aten._scaled_dot_product_flash_attention.default", kind=NotImplementedError):
        own.__torch_dispatch__(fused, (), (qkv, qkv, qkv, 0.5))


@pytest.mark.parametrize("reentrant", [True, False])
def test_draws_under_activation_checkpointing_are_refused(reentrant):
    """It repeats the forward pass from the state of the global generator: gradients would be of other draws."""
    x = X.clone().requires_grad_()
    with own_randomness(0), raises("unsupported", "operation aten.bernoulli_.float", kind=NotImplementedError):
        checkpoint(F.dropout, x, 0.5, use_reentrant=reentrant)
