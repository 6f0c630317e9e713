"""Adapters over a frozen base, whose samples go through it in one pass with those of other nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab.data.schedule import make_schedule
from graphcollab.engine import SGD, AdamW, Engine, LocalSteps, Objective, Proximal, Rows, shared_backend as shared
from graphcollab.engine.choice import check_plan, make_plan
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises

SIZES = (7, 4, 10, 5)
TOKENS = 6
FIT = LocalSteps(batch_size=4, epochs=2, optimizer=AdamW(lr=0.05, weight_decay=0.1))


class Adapted(nn.Module):
    """Tokens, attention and a head that are frozen, with a low-rank adapter between them."""

    def __init__(self, dropout=0.0, bias=False):
        super().__init__()
        self.tokens, self.norm = nn.Embedding(9, 8), nn.LayerNorm(8)
        self.participation = nn.MultiheadAttention(8, 2, dropout=dropout, batch_first=True)
        self.head = nn.Linear(8, 3)
        self.requires_grad_(False)
        self.drop, self.down, self.up = nn.Dropout(dropout), nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=bias)

    def forward(self, inputs):
        seen = self.norm(self.tokens(inputs))
        seen = seen + self.participation(seen, seen, seen, need_weights=False)[0]
        return self.head((seen + self.up(self.down(self.drop(seen)))).mean(1))


@pytest.fixture
def adapted(make_engine):
    """Return a function that makes an engine for such a module, and models of four nodes."""
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randint(9, (sum(SIZES), TOKENS), generator=draw)

    def make(module=None, **settings):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = Adapted() if module is None else module()
        return make_engine(module, inputs=inputs, sizes=SIZES, **settings)

    return make


def fitted(engine, models, steps=FIT, objective=None, **more):
    return engine.fit(Rows.own(models), steps, seed=3, round_=2, objective=objective, **more)


def assert_equal(one, other, atol=1e-12):
    torch.testing.assert_close(one, other, rtol=0, atol=atol)


def test_it_is_chosen_where_nodes_share_most(adapted):
    engine, _ = adapted(lambda: Adapted(0.5))
    assert engine.plans[0].backend == "shared"
    assert engine.plans[0].microbatch == 171  # 1,024 tokens are 170.7 samples


def test_a_model_of_its_own_is_stacked_as_before(make_engine):
    engine, _ = make_engine()
    assert (engine.plans[0].backend, engine.plans[0].microbatch) == ("vmap", None)


def test_models_are_those_of_plain_pytorch(adapted):
    engine, models = adapted(backend="shared")
    split, pool, spec = engine.tasks.splits["train"], engine.tasks.pools["all"], models.specs[0]
    schedule = make_schedule(split.sizes, engine.tasks.ids, 3, 2, FIT.batch_size, FIT.epochs)
    found = fitted(engine, models)
    for node in range(len(SIZES)):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = Adapted().double()
        spec.load_into(module, models.tensors[0][node])
        trained = [p for p in module.parameters() if p.requires_grad]
        stepper = torch.optim.AdamW(trained, lr=0.05, weight_decay=0.1)
        losses = []
        for step in range(int(schedule.steps[node])):
            batch = split.of(node)[schedule.position[node, step, : int(schedule.size[node, step])]]
            stepper.zero_grad()
            loss = F.cross_entropy(module(pool.inputs[batch]), pool.targets[batch])
            loss.backward()
            stepper.step()
            losses.append(loss.item())
        assert_equal(found.models.tensors[0][node], spec.flatten(module))
        assert float(found.told()[0][node]) == pytest.approx(sum(losses) / len(losses), abs=1e-12)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_all_is_as_the_loop_computes_it(adapted, dropout, bias, dtype):
    found, steps = [], LocalSteps(batch_size=4, epochs=2, optimizer=SGD(lr=0.1, momentum=0.9))
    for backend in ("loop", "shared"):
        engine, models = adapted(lambda: Adapted(dropout, bias), backend=backend, dtype=dtype)
        rows = Rows.own(models)
        fit = fitted(engine, models, steps, engine.objective + Proximal(0.3), anchor=models)
        batch = engine.batch_gradient(rows, seed=5, round_=1, batch_size=3)
        outputs = [out.outputs for out in engine.predict(rows, "val")]
        found.append([fit.models.tensors[0], fit.told()[0], *engine.grad(rows, "train"), *batch, *outputs])
    for one, other in zip(*found, strict=True):
        assert_equal(one, other, 1e-12 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_how_many_rows_are_taken_at_a_time_changes_nothing(adapted, dropout, monkeypatch):
    found = []
    for positions, chunk in ((2**10, None), (8 * TOKENS, None), (2**10, 2)):
        monkeypatch.setattr(shared, "CPU_POSITIONS", positions)
        engine, models = adapted(lambda: Adapted(dropout), backend="shared", chunk=chunk, microbatch=7)
        rows = Rows.own(models)
        outputs = torch.cat([o.outputs[:, :4] for o in engine.predict(rows, "val")])
        batch = engine.batch_gradient(rows, seed=5, round_=1, batch_size=3)[:2]
        found.append((fitted(engine, models).models.tensors[0], outputs.sum((0, 1)), *batch))
    for other in found[1:]:
        assert_equal(found[0], other)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("backend", ["shared", "loop", "vmap"])
@pytest.mark.parametrize("most", [1, 3])
def test_gradients_of_parts_of_a_batch_add_up(adapted, backend, most):
    """Also with weights of samples, and with a penalty, which counts once."""
    found = []
    for microbatch in (None, most):
        engine, models = adapted(backend=backend, microbatch=microbatch or 100)
        pool = engine.tasks.pools["all"]
        weighted = replace(pool, weight=torch.linspace(0.2, 3.0, len(pool.inputs)).double())
        module, settings = engine.backends[0].module, {"backend": backend, "microbatch": microbatch or 100}
        engine = Engine(replace(engine.tasks, pools={"all": weighted}), [module], models.specs, **settings)
        objective = engine.objective + Proximal(0.3)
        fit = fitted(engine, models, objective=objective, anchor=models)
        found.append([fit.models.tensors[0], fit.told()[0], *engine.grad(Rows.own(models), "train")])
    for one, other in zip(*found, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize(
    ("length", "microbatch", "context", "rows"),
    [
        (4, 16, 65, 4),  # 3.9 batches of 260 tokens
        (16, 16, 65, 1),
        (17, 16, 65, 2),  # in parts of 9 and 8 samples, so that a node has 585 tokens at most
        (50, 2, 513, 1),
        (100, None, 65, 1),
        (1, 16, 65, 16),
    ],
)
def test_rows_at_a_time_have_about_a_thousand_tokens_in_a_pass(adapted, length, microbatch, context, rows):
    backend = adapted(backend="shared")[0].backends[0]
    backend.microbatch = microbatch
    samples = torch.zeros(2, context, dtype=torch.int64)
    assert backend._rows_at_once(torch.zeros(1), length, samples) == rows


class Whole(Objective):
    """A loss that is no mean over samples: batches are not divided for it."""

    def __call__(self, outputs, targets, context):
        return outputs.square().mean().sqrt()


def test_what_a_frozen_embedding_does_with_padding_is_no_obstacle(adapted):
    """Its row of padding gets no gradient anyway; a trained one is computed by the loop."""
    for frozen, expected in ((True, "vmap"), (False, "loop")):

        def make(frozen=frozen):
            tokens = nn.Embedding(9, 8, padding_idx=0).requires_grad_(not frozen)
            return nn.Sequential(tokens, nn.LayerNorm(8), nn.Flatten(), nn.Linear(8 * TOKENS, 3))

        engine, _ = adapted(make)
        assert engine.plans[0].backend == expected


def test_what_is_no_mean_over_samples_is_computed_whole(adapted):
    results = []
    for microbatch in (1, 100):
        engine, models = adapted(backend="shared", microbatch=microbatch)
        results.append(fitted(engine, models, objective=Whole()).models.tensors[0])
    assert_equal(*results)


class Passing(nn.Module):
    """What a module makes of a sample depends on the others."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8).requires_grad_(False)
        self.head = nn.Linear(8, 3)

    def forward(self, inputs):
        seen = self.body(inputs)
        return self.head(seen - seen.mean(0) if self.training else seen)


class Noisy(Passing):
    def forward(self, inputs):
        noise = torch.rand_like(inputs) if self.training else 0.0
        return self.head(self.body(inputs + noise))


def tuned_norm():
    module = nn.Sequential(nn.Linear(4, 8).requires_grad_(False), nn.LayerNorm(8), nn.Linear(8, 3))
    module[2].requires_grad_(False)
    return module


def running():
    return nn.Sequential(nn.Linear(4, 8).requires_grad_(False), nn.BatchNorm1d(8, affine=False), nn.Linear(8, 3))


def hooked():
    module = nn.Sequential(nn.Linear(4, 8).requires_grad_(False), nn.Linear(8, 3))
    module[1].weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    return module


REFUSED = {
    Passing: "samples change what it makes of others",
    Noisy: "samples change what it makes of others",
    tuned_norm: "'1.bias' is trained, and is not of a linear layer",
    running: "every node has its own '1.running_mean', a buffer",
    hooked: "the hook on the gradient of '1.weight' must see one node at a time",
}


@pytest.mark.parametrize("make", REFUSED)
def test_what_cannot_share_a_pass_says_why(make_engine, make):
    with raises("unsupported", "backend", REFUSED[make]):
        make_engine(make(), backend="shared")
    engine, models = make_engine(make(), targets=torch.zeros(sum(SIZES), dtype=torch.int64))
    assert engine.plans[0].backend != "shared"
    assert fitted(engine, models, LocalSteps(batch_size=100)).told()[0].isfinite().all()


def test_batches_whose_samples_depend_on_each_other_are_not_divided(make_engine):
    engine, _ = make_engine(Passing())
    assert engine.plans[0].microbatch is None
    with raises("unsupported", "microbatch"):
        make_engine(Passing(), microbatch=2)


def test_a_stored_plan_is_checked(make_engine):
    spec = ParamSpec.from_module(module := Adapted())
    sample = torch.randint(9, (5, TOKENS)), torch.randint(3, (5,))
    engine, _ = make_engine()
    plan = make_plan(module, spec, sample, engine.objective)
    check_plan(plan, module, spec, sample, engine.objective)
    other = Passing()
    sample = torch.randn(5, 4), torch.randint(3, (5,))
    with raises("mismatch", "plan"):
        check_plan(plan, other, ParamSpec.from_module(other), sample, engine.objective)
