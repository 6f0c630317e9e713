from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Method
from graphcollab.components import Fit
from graphcollab.data.losses import LOSSES, LossName
from graphcollab.engine import SGD, LocalSteps, Loss, Objective, Proximal, Rows
from graphcollab.engine.losses import NAMED, as_objective
from graphcollab.engine.objective import Context, Reads
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from tests.raising import raises

CROSS_ENTROPY = as_objective("cross_entropy")
SQUARED_ERROR = as_objective("mse")

SMOOTH = Loss(partial(F.cross_entropy, reduction="none", label_smoothing=0.1), per_sample=True)
PLAIN = Context(None, {})
PADDED = Context(torch.tensor([0.5, 0.5, 0.0]), {})


@pytest.mark.parametrize(
    ("objective", "outputs", "targets", "plain"),
    [
        (CROSS_ENTROPY, torch.randn(3, 4), torch.tensor([0, 3, 1]), F.cross_entropy),
        (SQUARED_ERROR, torch.randn(3), torch.randn(3), F.mse_loss),
        (SQUARED_ERROR, torch.randn(3, 1), torch.randn(3), lambda o, t: F.mse_loss(o[:, 0], t)),
        (SQUARED_ERROR, torch.randn(3, 2), torch.randn(3, 2), F.mse_loss),
        (Loss(partial(F.l1_loss, reduction="none"), per_sample=True), torch.randn(3), torch.randn(3), F.l1_loss),
        (as_objective("bce"), torch.randn(3), torch.tensor([0, 1, 1]),
         lambda o, t: F.binary_cross_entropy_with_logits(o, t.float())),
        (as_objective("bce"), torch.randn(3, 1), torch.tensor([[0.0], [1], [1]]), F.binary_cross_entropy_with_logits),
        (as_objective("bce"), torch.randn(3, 2), torch.tensor([[0.0, 1], [1, 1], [1, 0]]),
         F.binary_cross_entropy_with_logits),
    ],
)  # fmt: skip
def test_losses_average_over_the_samples_that_count(objective, outputs, targets, plain):
    torch.testing.assert_close(objective(outputs, targets, PLAIN), plain(outputs, targets))
    torch.testing.assert_close(objective(outputs, targets, PADDED), plain(outputs[:2], targets[:2]))


@pytest.mark.parametrize(
    "objective",
    [CROSS_ENTROPY, SQUARED_ERROR, Loss(F.cross_entropy), SMOOTH, CROSS_ENTROPY + Proximal(2.0)],
)
@pytest.mark.parametrize("padded", [False, True])
def test_losses_of_many_nodes_are_those_of_each(objective, padded):
    draw = torch.Generator().manual_seed(0)
    outputs = torch.randn(5, 3, 4, generator=draw)
    targets = torch.randn(5, 3, 4, generator=draw)
    if objective != SQUARED_ERROR:
        targets = targets.argmax(-1)
    if padded and objective.reads.alike:
        return
    weight = torch.tensor([0.5, 0.5, 0.0]).expand(5, 3) if padded else None
    params, anchor = {"a": torch.randn(5, 2, generator=draw)}, {"a": torch.zeros(5, 2)}
    losses = objective.rows(outputs, targets, Context(weight, params, anchor))
    for k, loss in enumerate(losses):
        own = Context(None if weight is None else weight[k], {"a": params["a"][k]}, {"a": anchor["a"][k]})
        torch.testing.assert_close(loss, objective(outputs[k], targets[k], own))


def test_squared_error_refuses_silent_broadcasting():
    with raises("shape", "outputs"):
        SQUARED_ERROR(torch.zeros(3, 2), torch.zeros(3), PLAIN)


def test_proximal():
    context = Context(None, {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3.0)},
                      {"a": torch.tensor([0.0, 0.0]), "b": torch.tensor(1.0)})  # fmt: skip
    assert float(Proximal(2.0)(torch.zeros(1), torch.zeros(1), context)) == 9.0
    with raises("missing", "anchor"):
        Proximal(1.0)(torch.zeros(1), torch.zeros(1), PLAIN)


def test_sums():
    both = SQUARED_ERROR + Loss(lambda o, t: o.sum())
    assert float(both(torch.tensor([1.0]), torch.tensor([3.0]), PLAIN)) == 5.0
    assert both.reads == Reads(alike=True)
    assert (SQUARED_ERROR + Proximal(1.0)).reads == Reads(anchor=True, whole=True)
    assert (SQUARED_ERROR + GivenShift()).reads == Reads(whole=True, fields=("node_id", "table"))


def test_sums_are_walked():
    pull = Proximal(1.0, "head")
    assert list((SQUARED_ERROR + 2.0 * pull).walk())[1:] == [SQUARED_ERROR, pull]
    assert dict(pull.agrees) == {"part": "head"}


def test_proximal_of_a_part():
    """Parts a, b and c are 2, 1 and 2 numbers, each 1, 2 or 3 from its anchor."""
    spec = ParamSpec(("a", "b", "c"), ((2,), (), (2,)), 5, {"a": (0, 2), "b": (2, 3), "c": (3, 5), "all": (0, 5)})
    params = {"a": torch.ones(2), "b": torch.tensor(2.0), "c": torch.full((2,), 3.0)}
    context = Context(None, params, {name: torch.zeros_like(value) for name, value in params.items()}, spec=spec)
    for part, expected in (("a", 2.0), ("b", 4.0), ("c", 18.0), ("a+b", 6.0), ("b+c", 22.0), ("all", 24.0)):
        assert float(Proximal(2.0, part)(torch.zeros(1), torch.zeros(1), context)) == expected
    with raises("unknown", "part 'd'", kind=KeyError):
        Proximal(2.0, "d")(torch.zeros(1), torch.zeros(1), context)
    with raises("missing", "spec", "'a'"):
        Proximal(2.0, "a")(torch.zeros(1), torch.zeros(1), replace(context, spec=None))


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_proximal_pulls_its_part_only(make_engine, backend):
    """The first step begins at the anchor: no pull. The second pulls the head back by lr mu (first step)."""
    module = SplitModel(nn.Linear(4, 6), (4,), 3, norm="none")
    engine, models = make_engine(module, sizes=(4, 6), backend=backend)

    def after(objective, steps):
        how = LocalSteps(steps=steps, batch_size=9, optimizer=SGD(lr=0.1))
        fitted = engine.fit(Rows.own(models), how, seed=0, round_=0, objective=objective, anchor=models)
        return fitted.models.tensors[0]

    pulled = CROSS_ENTROPY + Proximal(0.5, "head")
    assert torch.equal(after(pulled, 1), after(CROSS_ENTROPY, 1))
    expected = after(CROSS_ENTROPY, 2)
    head = models.specs[0].columns("head")
    expected[:, head] -= 0.1 * 0.5 * (after(CROSS_ENTROPY, 1) - models.tensors[0])[:, head]
    torch.testing.assert_close(after(pulled, 2), expected)


def test_scaled():
    context = Context(None, {})
    outputs, targets = torch.tensor([[1.0], [3.0]]), torch.zeros(2, 1)
    assert float((3.0 * SQUARED_ERROR)(outputs, targets, context)) == 15.0
    assert float((2 * (SQUARED_ERROR + 0.5 * SQUARED_ERROR))(outputs, targets, context)) == 15.0
    rows = (2.0 * SQUARED_ERROR).rows(outputs[:, None, 0], targets[:, None, 0], context)
    assert rows.tolist() == [2.0, 18.0]
    assert 2.0 * Proximal(1.0) == 2.0 * Proximal(1.0)
    for scale in (float("nan"), float("inf")):
        with raises("value", "scale"):
            scale * SQUARED_ERROR


def test_scaled_says_of_itself_what_the_term_says():
    for term in (CROSS_ENTROPY, Proximal(1.0), Loss(F.cross_entropy), CROSS_ENTROPY + Proximal(1.0)):
        assert (2.0 * term).reads == term.reads
        assert (2.0 * term).embeds == term.embeds
    with raises("range", "targets"):
        (2.0 * CROSS_ENTROPY).check(torch.zeros(2, 3), torch.arange(5), "MLP", "train")


@dataclass(frozen=True)
class GivenShift(Objective):
    """Squared error against targets shifted by the node's identity, and by a table of its own."""

    reads = Reads(whole=True, fields=("node_id", "table"))

    def init(self, data, env):
        data = copy.copy(data)
        data.table = data.node_id[:, None] * torch.arange(3.0, dtype=torch.float64)
        return data

    def __call__(self, outputs, targets, context):
        shift = context.given["node_id"].double() + context.given["table"][targets]
        return context.mean((outputs[:, 0] - shift).square())


class GivenShiftWhole(GivenShift):
    """The same, of batches of one length each."""

    reads = GivenShift.reads | Reads(alike=True)


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("objective", [GivenShift(), GivenShiftWhole()], ids=["padded", "grouped"])
def test_what_nodes_are_given_reaches_their_objective(objective, backend, chunk):
    """Nodes 1 and 4 rest; the others take one step on all their samples, against autograd on their plain module."""
    scene = Scene.small().replace(backend=backend, chunk=chunk)
    method = Method("mine", local=Fit(batch_size=16, optimizer=SGD(lr=0.1), objective=objective))
    data, env = scene.begin(method)
    data.trains = torch.tensor([True, False, True, True, False, True])
    data.x_start = data.x
    after = method.local(data, env)
    pool, split, spec = scene.tasks.pools["train"], scene.tasks.splits["train"], data.x.specs[0]
    for node, row in enumerate(data.x.tensors[0]):
        params = {n: v.clone().requires_grad_() for n, v in zip(spec.names, spec.views(row), strict=True)}
        inputs, targets = pool.inputs[split.of(node)], pool.targets[split.of(node)]
        outputs = torch.func.functional_call(scene.modules[0], params, (inputs,))
        loss = F.cross_entropy(outputs, targets) + (outputs[:, 0] - node - node * targets).square().mean()
        step = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(params.values()))])
        torch.testing.assert_close(after.x.tensors[0][node], row - 0.1 * step * data.trains[node])


def test_contexts_of_many_nodes_say_how_many_views_there_are():
    class Views(Objective):
        def __call__(self, outputs, targets, context):
            return outputs.sum() * 0 + context.views + len(context.spec.names)

    spec = ParamSpec.from_module(nn.Linear(1, 1))
    rows = Views().rows(torch.zeros(2, 4), torch.zeros(2, 4), Context(None, {}, views=3, spec=spec))
    assert rows.tolist() == [5.0, 5.0]


def test_contexts_name_their_tensors():
    context = Context(torch.ones(2), {"a": torch.ones(1)}, given={"b": torch.zeros(1)}, views=3)
    assert {*context.tensors()} == {"weight", "params", "given"}
    assert context.tensors()["given"] == {"b": torch.zeros(1)}


@pytest.mark.parametrize(("value", "wanted"), [(torch.zeros(3), ("type", "loss")), (1.0, ("type", "loss"))])
def test_a_users_loss_must_return_one_number(value, wanted):
    with raises(*wanted, kind=TypeError):
        Loss(lambda o, t: value)(torch.zeros(1), torch.zeros(1), PLAIN)
    with raises("type", "loss", kind=TypeError):
        Loss(lambda o, t: o.mean(), per_sample=True)(torch.zeros(1), torch.zeros(1), PLAIN)


def test_objectives_by_name():
    assert as_objective("bce") is as_objective("bce")
    own = Proximal(1.0)
    assert as_objective(own) is own
    assert as_objective(F.mse_loss) == Loss(F.mse_loss)
    assert [repr(as_objective(loss)) for loss in (F.mse_loss, "mse", partial(F.mse_loss))] == [
        "Loss(mse_loss)",
        "Loss(squared_error, per_sample=True)",
        "Loss(partial)",
    ]
    with raises("unknown", "loss", "'hinge'"):
        as_objective("hinge")


def test_every_named_loss_has_a_function_and_a_meaning():
    assert {*NAMED} == {*LOSSES} == {*get_args(LossName)}
