"""Contrastive losses by hand, against double loops in numpy and finite differences, padded and in both backends."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F

from graphcollab.engine import Loss, Proximal, SupervisedContrast
from graphcollab.engine.contrastive import PrototypeContrast, PrototypeUniformity
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Context, FirstView
from graphcollab.engine.plan import Plan
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.vmap_backend import VmapBackend
from graphcollab.models import SplitModel
from tests.raising import raises

CROSS_ENTROPY = as_objective("cross_entropy")
SQUARED_ERROR = as_objective("mse")

NO_OUTPUTS = torch.zeros(0)
SUPERVISED = [
    SupervisedContrast(temperature, form, normalize)
    for temperature in (0.1, 1.0)
    for form in ("out", "in")
    for normalize in (True, False)
]
ALL = [*SUPERVISED, PrototypeContrast(), PrototypeContrast(normalize=False), PrototypeUniformity(),
       PrototypeUniformity("exp"), FirstView(CROSS_ENTROPY), FirstView(PrototypeContrast()),
       CROSS_ENTROPY + 0.5 * SupervisedContrast() + PrototypeContrast(0.5) + 2.0 * PrototypeUniformity()]  # fmt: skip


def supervised_contrast(vectors, targets, temperature, form, normalize):
    """Equations 2 and 3 of Khosla et al., term by term, for a list of vectors."""
    unit = [v / np.linalg.norm(v) if normalize else v for v in np.asarray(vectors, dtype=float)]
    losses = []
    for q, label in enumerate(targets):
        positive = [r for r in range(len(unit)) if r != q and targets[r] == label]
        below = sum(math.exp(unit[q] @ unit[m] / temperature) for m in range(len(unit)) if m != q)
        shares = [math.exp(unit[q] @ unit[r] / temperature) / below for r in positive]
        if not positive:
            losses.append(0.0)
        elif form == "out":
            losses.append(-sum(map(math.log, shares)) / len(positive))
        else:
            losses.append(-math.log(sum(shares) / len(positive)))
    return sum(losses) / len(losses)


def settings_of(objective):
    return objective.temperature, objective.form, objective.normalize


def of_projections(objective, projection, targets, weight=None, **fields):
    context = Context(weight, {}, projection=torch.as_tensor(projection), **fields)
    return objective(NO_OUTPUTS, torch.as_tensor(targets), context)


def of_prototypes(objective, prototypes, projection=None, targets=(), **fields):
    context = Context(None, {"prototypes": torch.as_tensor(prototypes)}, projection=projection, **fields)
    return float(objective(NO_OUTPUTS, torch.as_tensor(targets), context))


# Among samples


def test_four_samples_on_two_axes_by_hand():
    """Two pairs at right angles, τ = 1: every sample has one positive with e, and two negatives with 1.

    The loss of each is -log(e / (e + 2)) = 0.5514; lengths play no part.
    """
    projection = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 4.0]]
    targets = [0, 1, 0, 1]
    for form in ("out", "in"):
        assert float(of_projections(SupervisedContrast(1.0, form), projection, targets)) == pytest.approx(0.5514447)


def test_forms_differ_where_positives_do():
    """The first of (1, 0), (1, 0), (0, 1), all of one class: shares e / (e + 1) and 1 / (e + 1).

    out: -(log e/(e+1) + log 1/(e+1)) / 2 = log(e + 1) - ½ = 0.8133; in: -log ½ = 0.6931. The second is like the first;
    the third has the shares ½ and ½: log 2 under either form.
    """
    projection, targets = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [5, 5, 5]
    out = of_projections(SupervisedContrast(1.0), projection, targets)
    assert float(out) == pytest.approx((2 * (math.log(math.e + 1) - 0.5) + math.log(2)) / 3)
    assert float(of_projections(SupervisedContrast(1.0, "in"), projection, targets)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("objective", SUPERVISED, ids=repr)
def test_supervised_contrast_is_its_equation(objective):
    @settings(max_examples=25)
    @given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**31))
    def check(count, classes, seed):
        draw = np.random.default_rng(seed)
        vectors, targets = draw.normal(size=(count, 3)), draw.integers(classes, size=count)
        got = of_projections(objective, vectors, targets)
        assert float(got) == pytest.approx(supervised_contrast(vectors, targets, *settings_of(objective)), abs=1e-10)
        order = draw.permutation(count)
        again = of_projections(objective, vectors[order], targets[order])
        assert float(again) == pytest.approx(float(got), abs=1e-10)

    check()


def test_latents_are_compared_where_that_is_asked_for():
    latent, projection = torch.randn(5, 3), torch.randn(5, 2)
    context = Context(None, {}, latent=latent, projection=projection)
    targets = torch.tensor([0, 1, 0, 1, 1])
    got = SupervisedContrast(of="latent")(NO_OUTPUTS, targets, context)
    torch.testing.assert_close(got, of_projections(SupervisedContrast(), latent, targets))


@pytest.mark.parametrize("form", ["out", "in"])
@pytest.mark.parametrize("targets", [[0], [0, 1, 2]])
def test_samples_alone_with_their_class_add_nothing(form, targets):
    projection = torch.randn(len(targets), 4, requires_grad=True)
    loss = of_projections(SupervisedContrast(form=form), projection, targets)
    (gradient,) = torch.autograd.grad(loss, projection)
    assert loss.item() == 0
    assert gradient.abs().max() == 0


@pytest.mark.parametrize("form", ["out", "in"])
def test_projections_of_zeros_have_no_direction_and_a_finite_loss(form):
    projection = torch.zeros(4, 3, requires_grad=True)
    loss = of_projections(SupervisedContrast(form=form), projection, [0, 0, 1, 1])
    assert loss.item() == pytest.approx(math.log(3))
    assert torch.isfinite(torch.autograd.grad(loss, projection)[0]).all()


@pytest.mark.parametrize("form", ["out", "in"])
def test_low_temperatures_in_single_precision(form):
    projection = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], requires_grad=True)
    loss = of_projections(SupervisedContrast(1e-3, form), projection, [0, 0, 1, 1])
    assert loss.item() == pytest.approx(1000 + math.log(2), rel=1e-6)
    assert torch.isfinite(torch.autograd.grad(loss, projection)[0]).all()


# Against prototypes


def test_prototype_contrast_by_hand():
    """ξ^k = e_k, p = e_y, τ = 1, ten classes: -1 + log(e + 9) = 1.4612."""
    eye = torch.eye(10, dtype=torch.float64)
    assert of_prototypes(PrototypeContrast(1.0), eye, eye[[3]], [3]) == pytest.approx(-1 + math.log(math.e + 9))
    assert of_prototypes(PrototypeContrast(1.0), eye, eye[[3]], [3]) == pytest.approx(1.4611, abs=1e-4)
    far = of_prototypes(PrototypeContrast(1.0), eye, eye[[3]], [4])
    assert far == pytest.approx(math.log(math.e + 9))
    assert of_prototypes(PrototypeContrast(1.0), eye, eye[[3, 3]], [3, 4]) == pytest.approx(far - 0.5)


@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 2**31), st.sampled_from([0.1, 1.0, 100.0]))
def test_prototype_contrast_is_its_equation(count, classes, seed, temperature):
    draw = np.random.default_rng(seed)
    vectors, prototypes = draw.normal(size=(count, 3)), draw.normal(size=(classes, 3))
    targets = draw.integers(classes, size=count)

    def expected(scale):
        losses = []
        for p, y in zip(vectors, targets, strict=True):
            powers = [math.exp(scale(p / np.linalg.norm(p), x)) for x in prototypes]
            losses.append(-math.log(powers[y] / sum(powers)))
        return sum(losses) / count

    cosine = of_prototypes(PrototypeContrast(temperature), prototypes, torch.tensor(vectors), targets)
    assert cosine == pytest.approx(expected(lambda p, x: p @ x / np.linalg.norm(x) / temperature), abs=1e-10)
    plain = PrototypeContrast(temperature, normalize=False)  # the temperature cancels, prototypes keep their lengths
    assert of_prototypes(plain, prototypes, torch.tensor(vectors), targets) == pytest.approx(
        expected(lambda p, x: p @ x), abs=1e-10
    )


# Among prototypes


@pytest.mark.parametrize("length", [1.0, 7.0])
def test_uniformity_by_hand(length):
    eye = torch.eye(5, 6, dtype=torch.float64)
    assert of_prototypes(PrototypeUniformity(), length * eye) == pytest.approx(0.0)  # at right angles
    assert of_prototypes(PrototypeUniformity(), length * eye[[0] * 5]) == pytest.approx(4.0)  # all the same: C - 1
    triangle = [[1.0, 0.0], [-0.5, 3**0.5 / 2], [-0.5, -(3**0.5) / 2]]
    assert of_prototypes(PrototypeUniformity(), length * torch.tensor(triangle)) == pytest.approx(-1.0)
    assert of_prototypes(PrototypeUniformity(), [[1.0, 0.0], [1.0, 1.0]]) == pytest.approx(2**-0.5)


def test_uniformity_of_the_published_code_by_hand():
    """e^(ξ·ξ'/τ): with τ = 100 almost C - 1 whatever the prototypes are; lengths count."""
    code = PrototypeUniformity("exp")
    assert of_prototypes(code, torch.eye(10)) == pytest.approx(9.0)
    assert of_prototypes(code, [[10.0, 0.0], [10.0, 0.0]]) == pytest.approx(math.e)
    assert of_prototypes(PrototypeUniformity("exp", 2.0), [[1.0, 0.0], [4.0, 3.0]]) == pytest.approx(math.e**2)
    long = torch.tensor([[20.0, 0.0], [0.0, 20.0]], requires_grad=True)  # e^400 is not a number of single precision
    loss = PrototypeUniformity("exp", 1.0)(NO_OUTPUTS, NO_OUTPUTS, Context(None, {"prototypes": long}))
    assert loss.item() == 1.0
    assert torch.autograd.grad(loss, long)[0].tolist() == [[0.0, 20.0], [20.0, 0.0]]


# Of the first view


def test_first_view_by_hand():
    """Two views of two samples: errors 1 and 3, then 100 and 100."""
    outputs, targets = torch.tensor([1.0, 3.0, 100.0, 100.0]), torch.zeros(4)
    assert float(SQUARED_ERROR(outputs, targets, Context(None, {}, views=2))) == 5002.5
    assert float(FirstView(SQUARED_ERROR)(outputs, targets, Context(None, {}, views=2))) == 5.0
    padded = torch.tensor([0.5, 0.0, 0.5, 0.0])  # of weights that sum to one, as two views have them
    assert float(FirstView(SQUARED_ERROR)(outputs, targets, Context(padded, {}, views=2))) == 1.0
    assert float(FirstView(SQUARED_ERROR)(outputs, targets, Context(None, {}))) == 5002.5  # there is one view only
    assert float(FirstView(FirstView(SQUARED_ERROR))(outputs, targets, Context(None, {}, views=2))) == 5.0


def test_first_view_cuts_what_belongs_to_samples_and_nothing_else():
    projection, targets = torch.randn(6, 3), torch.tensor([0, 1, 0, 0, 1, 0])
    objective = FirstView(SupervisedContrast() + PrototypeContrast())
    params = {"prototypes": torch.randn(2, 3)}
    context = Context(None, params, latent=torch.randn(6, 4), projection=projection, views=2)
    half = replace(context, latent=context.latent[:3], projection=projection[:3], views=1)
    expected = (SupervisedContrast() + PrototypeContrast())(NO_OUTPUTS, targets[:3], half)
    torch.testing.assert_close(objective(torch.zeros(6, 2), targets, context), expected)


def test_first_view_says_of_itself_what_the_objective_says():
    for of in (CROSS_ENTROPY, SupervisedContrast(), PrototypeContrast(), Proximal(1.0), Loss(F.cross_entropy)):
        assert FirstView(of).reads == of.reads
        assert FirstView(of).embeds == of.embeds
    with raises("range", "targets"):
        FirstView(CROSS_ENTROPY).check(torch.zeros(2, 3), torch.arange(5), "MLP", "train")


# Gradients, padding, many nodes, both backends


def random_context(objective, seed=0, count=6, weight=None, nodes=()):
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*nodes, *shape, generator=draw, dtype=torch.float64)

    context = Context(
        weight, {"prototypes": normal(3, 4)}, latent=normal(count, 5), projection=normal(count, 4), views=2
    )
    targets = torch.randint(3, (*nodes, count // 2), generator=draw)
    return normal(count, 3), torch.cat([targets, targets], -1), context


@pytest.mark.parametrize("objective", ALL, ids=repr)
def test_gradients_are_finite_differences(objective):
    outputs, targets, context = random_context(objective)

    def loss(logits, projection, prototypes):
        own = replace(context, projection=projection, params={"prototypes": prototypes})
        return objective(logits, targets, own)

    given = outputs, context.projection, context.params["prototypes"]
    assert torch.autograd.gradcheck(loss, [value.clone().requires_grad_() for value in given])


@pytest.mark.parametrize("objective", ALL, ids=repr)
def test_padding_of_weight_zero_changes_nothing(objective):
    """Two views of three samples, padded to five samples a view by others."""
    outputs, targets, context = random_context(objective, count=10)
    kept = torch.tensor([0, 1, 2, 5, 6, 7])
    weight = torch.zeros(10, dtype=torch.float64).index_fill(0, kept, 1 / 6)
    short = replace(context, latent=context.latent[kept], projection=context.projection[kept])
    plain = objective(outputs[kept], targets[kept], short)
    torch.testing.assert_close(objective(outputs, targets, replace(context, weight=weight)), plain)


@pytest.mark.parametrize("objective", ALL, ids=repr)
@pytest.mark.parametrize("padded", [False, True])
def test_losses_of_many_nodes_are_those_of_each(objective, padded):
    weight = torch.tensor([0.25, 0.25, 0.0]).double().repeat(4, 2) if padded else None
    outputs, targets, context = random_context(objective, nodes=(4,), weight=weight)
    losses = objective.rows(outputs, targets, context)
    assert losses.shape == (4,)
    for k, loss in enumerate(losses):
        own = replace(
            context,
            weight=None if weight is None else weight[k],
            params={"prototypes": context.params["prototypes"][k]},
            latent=context.latent[k],
            projection=context.projection[k],
        )
        torch.testing.assert_close(loss, objective(outputs[k], targets[k], own))


def split_models(norm):
    model = SplitModel(nn.Sequential(nn.Linear(4, 5), nn.Tanh()), (4,), 3, latent=6, projection=4, norm=norm).double()
    spec = ParamSpec.from_module(model)
    draw = torch.Generator().manual_seed(1)
    rows = spec.flatten(model).repeat(3, 1)
    rows[:, : spec.num_parameters] = torch.randn(3, spec.num_parameters, generator=draw, dtype=torch.float64)
    inputs = torch.randn(3, 6, 4, generator=draw, dtype=torch.float64)
    return model, spec, rows, inputs, torch.randint(3, (3, 6), generator=draw)


@pytest.mark.parametrize("kind", [VmapBackend, LoopBackend])
@pytest.mark.parametrize("objective", ALL, ids=repr)
def test_gradients_of_models_are_autograds_padded_or_not(objective, kind):
    """Losses and gradients with respect to all parameters, against the plain module; four of six samples count."""
    model, spec, rows, inputs, targets = split_models("layer")
    backend = kind(model, spec, Plan(kind.name, 3, "by hand"))
    weight = torch.tensor([0.25] * 4 + [0.0] * 2).double().expand(3, -1)
    losses, gradients, _ = backend.gradient(rows, inputs, targets, weight, objective)
    short = backend.gradient(rows, inputs[:, :4], targets[:, :4], None, objective)
    torch.testing.assert_close((losses, gradients), short[:2])
    for k, row in enumerate(rows):
        params = {n: v.clone().requires_grad_() for n, v in zip(spec.names, spec.views(row), strict=True)}
        out = torch.func.functional_call(model, params, (inputs[k, :4],), {"embed": True})
        context = Context(None, params, latent=out.latent, projection=out.projection, spec=spec)
        loss = objective(out.logits, targets[k, :4], context)
        own = torch.autograd.grad(loss, list(params.values()), materialize_grads=True)
        torch.testing.assert_close(losses[k], loss.detach())
        torch.testing.assert_close(gradients[k], torch.cat([g.flatten() for g in own]))


# What is refused


@pytest.mark.parametrize("kind", [SupervisedContrast, PrototypeContrast, PrototypeUniformity])
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_bad_temperatures(kind, temperature):
    with raises("value", "temperature"):
        kind(temperature=temperature)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: SupervisedContrast(form="both"), ("value", "form", "'out'", "'in'", "'both'")),
        (lambda: SupervisedContrast(of="logits"), ("value", "of", "'projection'", "'latent'", "'logits'")),
        (lambda: PrototypeUniformity("l2"), ("value", "form", "'cosine'", "'exp'", "'l2'")),
    ],
)
def test_unknown_settings(make, wanted):
    with raises(*wanted):
        make()


@pytest.mark.parametrize(
    ("objective", "wanted"),
    [
        (SupervisedContrast(), ("missing", "projection")),
        (SupervisedContrast(of="latent"), ("missing", "latent")),
        (PrototypeContrast(), ("missing", "projection")),
        (PrototypeUniformity(), ("missing", "parameter 'prototypes'")),
        (PrototypeUniformity(name="centers"), ("missing", "parameter 'centers'")),
    ],
)
def test_what_a_context_lacks_is_named(objective, wanted):
    with raises(*wanted):
        objective(torch.zeros(2, 3), torch.tensor([0, 1]), Context(None, {}))


def test_which_objectives_read_what():
    assert SupervisedContrast().embeds
    assert PrototypeContrast().embeds
    assert not PrototypeUniformity().embeds  # of parameters alone
    assert PrototypeUniformity().reads.whole
    assert (CROSS_ENTROPY + 0.1 * SupervisedContrast()).embeds
    assert SupervisedContrast().reads.whole  # it compares samples, so it needs all at once
