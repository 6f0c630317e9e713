"""Augmented views: what an augmentation may do, what draws are keyed by, and training on views by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Method
from graphcollab.components import Fit
from graphcollab.data.schedule import make_schedule
from graphcollab.engine import SGD, AddNoise, LocalSteps, Rows, SupervisedContrast, Views, samples as feed_module
from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Context, FirstView
from graphcollab.engine.samples import Feed
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from tests.raising import raises

CROSS_ENTROPY = as_objective("cross_entropy")

NOISY = Views(AddNoise(0.5))
OBJECTIVE = CROSS_ENTROPY + SupervisedContrast(0.5)
FIT = {"seed": 3, "round_": 2, "batch_size": 3, "epochs": 2}


def split_model(norm="layer"):
    return SplitModel(nn.Sequential(nn.Linear(4, 5), nn.Tanh()), (4,), 3, latent=6, projection=4, norm=norm)


def trained(engine, models, views=NOISY, objective=OBJECTIVE, **changed):
    settings = {**FIT, **changed}
    steps = LocalSteps(settings["epochs"], settings.get("steps"), settings["batch_size"], SGD(lr=0.1))
    key = {name: settings[name] for name in ("seed", "round_")}
    fitted = engine.fit(Rows.own(models), steps, views=views, objective=objective, **key)
    return fitted.models.tensors[0], fitted.told()[0]


def feed_of(engine, views, nodes=(0, 1, 2, 3), **changed):
    """The batches of some nodes' rows, as `Engine.fit` draws them."""
    settings = {**FIT, **changed}
    tasks, nodes = engine.tasks, torch.tensor(nodes)
    split, seed, round_ = tasks.splits["train"], settings["seed"], settings["round_"]
    schedule = make_schedule(
        split.sizes[nodes], tasks.ids[nodes], seed, round_, settings["batch_size"], settings["epochs"]
    )
    index = split.gather(nodes, schedule.position.flatten(1)).view_as(schedule.position)
    return Feed(tasks.pools["all"], index, schedule, tasks.ids[nodes], seed, round_, views)


def all_views(feed):
    """Every row's inputs at every step, one list per row."""
    return [
        [feed.at(row, step, size).inputs for step, size in enumerate(sizes) if size]
        for row, sizes in enumerate(feed.schedule.size.tolist())
    ]


def assert_same(one, two):
    assert len(one) == len(two)
    for mine, other in zip(one, two, strict=True):
        assert len(mine) == len(other)
        assert all(torch.equal(a, b) for a, b in zip(mine, other, strict=True))


# What an augmentation is given, and may return


def test_views_are_calls_on_all_samples_at_once():
    seen = []

    def augment(samples):
        seen.append(samples.clone())
        return samples + torch.arange(len(samples))[:, None]

    samples = torch.tensor([[10.0], [20.0]])
    assert Views(augment, 3)(samples).flatten(1).tolist() == [[10.0, 21.0], [12.0, 23.0], [14.0, 25.0]]
    assert [s.flatten().tolist() for s in seen] == [[10.0, 20.0] * 3]


def test_samples_are_left_alone_and_keep_their_type():
    samples = torch.ones(2, 3, dtype=torch.float64)
    views = Views(lambda many: many.mul_(2).float(), 2)(samples)
    assert views.dtype == torch.float64
    assert views.unique().tolist() == [2.0]
    assert samples.unique().tolist() == [1.0]
    assert not Views(lambda many: many * torch.ones(1, requires_grad=True))(samples).requires_grad


@pytest.mark.parametrize("count", [1, 2, 4])
def test_without_augmentation_views_are_the_samples(count):
    samples = torch.randn(3, 2, 2)
    views = Views(count=count)(samples)
    assert torch.equal(views, samples.expand(count, 3, 2, 2))


@pytest.mark.parametrize(
    ("augment", "wanted"),
    [
        (lambda many: many[:, :1], ("contract", "augment")),
        (lambda many: many[:2], ("contract", "augment")),
        (lambda many: many[None], ("contract", "augment")),
        (lambda many: many.tolist(), ("contract", "augment")),
    ],
)
def test_a_changed_shape_is_refused(augment, wanted):
    with raises(*wanted):
        Views(augment)(torch.zeros(2, 3))


def test_a_changed_shape_is_refused_before_the_first_round():
    method = Method("mine", local=Fit(views=Views(lambda many: many[:, :2])))
    with raises("contract", "augment"):
        Scene.small().begin(method)


def test_bad_settings():
    for count in (0, -1, 1.5, True):
        with raises("value", "count"):
            Views(count=count)
    with raises("value", "augment", "'crop'"):
        Views("crop")


# What a batch of views is


def test_one_view_is_behind_the_other_with_targets_repeated(make_engine):
    engine, _ = make_engine()
    plain, double = feed_of(engine, None), feed_of(engine, Views(count=2))
    assert (plain.num_views, double.num_views) == (1, 2)
    for rows in (0, slice(0, 2), torch.tensor([2, 0])):
        one, two = plain.at(rows, 0, 3), double.at(rows, 0, 3)
        inputs, targets, twice, labels = one.inputs, one.targets, two.inputs, two.targets
        along = 0 if isinstance(rows, int) else 1
        assert torch.equal(twice, torch.cat([inputs, inputs], along))
        assert torch.equal(labels, torch.cat([targets, targets], along))


def test_padding_repeats_a_view_of_the_last_sample(make_engine):
    """Node 1 has 4 samples, so its second batch of 3 has one, in two views that differ."""
    engine, _ = make_engine()
    feed = feed_of(engine, NOISY)
    padded, short = feed.at(1, 1, 3).inputs.view(2, 3, 4), feed.at(1, 1, 1).inputs.view(2, 1, 4)
    assert torch.equal(padded, short.expand(2, 3, 4))
    assert not torch.equal(short[0], short[1])


# What draws depend on


@pytest.mark.parametrize("at_once", [12, 1024])
def test_views_differ_between_each_other_nodes_steps_rounds_and_seeds(make_engine, monkeypatch, at_once):
    monkeypatch.setattr(feed_module, "VIEWS_AT_ONCE", at_once)
    engine, _ = make_engine()
    noise = Views(lambda many: torch.rand_like(many))  # nothing of the samples is left
    seen = [batch for row in all_views(feed_of(engine, noise)) for batch in row]
    for changed in ({"seed": 4}, {"round_": 1}):
        seen += [batch for row in all_views(feed_of(engine, noise, **changed)) for batch in row]
    numbers = torch.cat([batch.flatten() for batch in seen])
    assert numbers.unique().numel() == numbers.numel()


def test_views_do_not_depend_on_other_rows_or_their_order(make_engine):
    engine, _ = make_engine()
    together = all_views(feed_of(engine, NOISY))
    alone = [all_views(feed_of(engine, NOISY, nodes=(node,)))[0] for node in range(4)]
    assert_same(together, alone)
    assert_same([together[n] for n in (2, 0, 3, 1)], all_views(feed_of(engine, NOISY, nodes=(2, 0, 3, 1))))
    assert_same([together[1], together[1]], all_views(feed_of(engine, NOISY, nodes=(1, 1))))  # models may meet it twice


@dataclass
class Counting:
    """Noise that knows how many samples it was given, call by call."""

    lengths: list[int] = field(default_factory=list)

    def __call__(self, samples):
        self.lengths.append(len(samples))
        return samples + torch.randn_like(samples)


def test_samples_of_several_steps_are_drawn_at_once(make_engine, monkeypatch):
    """Ten samples in batches of 3, 3, 3 and 1, twice: all eight steps fit into 1024 images; into 18, three do."""
    engine, _ = make_engine()
    once, blocks = Counting(), Counting()
    all_views(feed_of(engine, Views(once), nodes=(2,)))
    assert once.lengths == [40]
    monkeypatch.setattr(feed_module, "VIEWS_AT_ONCE", 18)
    all_views(feed_of(engine, Views(blocks), nodes=(2,)))
    assert blocks.lengths == [18, 14, 8]


@pytest.mark.parametrize("at_once", [1, 12, 18, 1024])
def test_views_do_not_depend_on_which_steps_were_asked_for_before(make_engine, monkeypatch, at_once):
    monkeypatch.setattr(feed_module, "VIEWS_AT_ONCE", at_once)
    engine, _ = make_engine()
    in_order = all_views(feed_of(engine, NOISY, nodes=(2,)))[0]
    feed = feed_of(engine, NOISY, nodes=(2,))
    sizes = feed.schedule.size[0].tolist()
    for step in (7, 0, 3, 3, 5, 1, 6, 2, 4):
        assert torch.equal(feed.at(0, step, sizes[step]).inputs, in_order[step])


def test_the_callers_generator_is_left_as_it_was(make_engine):
    engine, models = make_engine(split_model())
    before = torch.get_rng_state()
    trained(engine, models)
    assert torch.equal(torch.get_rng_state(), before)


# Training on views


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_training_is_plain_sgd_on_both_views(make_engine, backend, norm):
    """Every node's module trained by hand, with nodes of 7, 4, 10 and 5 samples in batches of 3."""
    engine, models = make_engine(split_model(norm), backend=backend)
    spec, module, feed = models.specs[0], split_model(norm).double().train(), feed_of(engine, NOISY)
    got, losses = trained(engine, models)
    for node, row in enumerate(models.tensors[0]):
        spec.load_into(module, row)
        stepper, seen = torch.optim.SGD(module.parameters(), lr=0.1), []
        for step, size in enumerate(feed.schedule.size[node].tolist()):
            if size:
                batch = feed.at(node, step, size)
                inputs, targets = batch.inputs, batch.targets
                assert inputs.shape == (2 * size, 4)
                out = module(inputs, embed=True)
                contrast = SupervisedContrast(0.5)(out.logits, targets, Context(None, {}, projection=out.projection))
                loss = F.cross_entropy(out.logits, targets) + contrast
                stepper.zero_grad()
                loss.backward()
                stepper.step()
                seen.append(loss.item())
        torch.testing.assert_close(got[node], spec.flatten(module))
        assert losses[node].item() == pytest.approx(sum(seen) / len(seen))


@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("objective", [OBJECTIVE, FirstView(CROSS_ENTROPY) + SupervisedContrast(0.5, "in")], ids=repr)
def test_neither_backend_nor_chunk_matters(make_engine, norm, objective):
    every = [
        trained(*make_engine(split_model(norm), **settings), objective=objective)
        for settings in ({"backend": "vmap", "chunk": c} for c in (1, 4))
    ]
    every.append(trained(*make_engine(split_model(norm), backend="loop"), objective=objective))
    for other in every[1:]:
        torch.testing.assert_close(other, every[0], rtol=0, atol=1e-10)


def test_the_order_of_nodes_does_not_matter():
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    scene = Scene.small(embeds=True)
    method = Method("mine", local=Fit(epochs=2, batch_size=4, objective=SupervisedContrast(), views=NOISY))
    one, _ = scene.play(method)
    two, _ = scene.replace(tasks=scene.tasks.select(order)).play(method)
    torch.testing.assert_close(one.x.tensors[0][order], two.x.tensors[0], rtol=0, atol=1e-10)
    assert not torch.allclose(one.x.tensors[0], Scene.small(embeds=True).replace(seed=1).play(method)[0].x.tensors[0])


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_one_view_without_augmentation_is_no_view(make_engine, backend):
    engine, models = make_engine(split_model(), backend=backend)
    plain = trained(engine, models, views=None)
    for views in (Views(count=1), Views(AddNoise(0.0), 1)):
        assert all(torch.equal(a, b) for a, b in zip(trained(engine, models, views=views), plain, strict=True))


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_the_same_view_twice_is_the_same_mean(make_engine, backend):
    engine, models = make_engine(backend=backend)
    plain = trained(engine, models, views=None, objective=CROSS_ENTROPY)
    torch.testing.assert_close(trained(engine, models, Views(count=2), CROSS_ENTROPY), plain)
    torch.testing.assert_close(trained(engine, models, Views(count=2), FirstView(CROSS_ENTROPY)), plain)


def test_views_draw_apart_from_layers(make_engine):
    """The draws of a dropout layer are the same whether samples are augmented or not."""
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    engine, models = make_engine(module)
    plain = trained(engine, models, views=None, objective=CROSS_ENTROPY)
    silent = trained(engine, models, Views(AddNoise(0.0), 1), CROSS_ENTROPY)
    assert torch.equal(plain[0], silent[0])


def test_a_batch_of_one_sample_in_two_views_can_be_normalized():
    """Thirteen samples in batches of four leave one over."""
    scene = Scene.small(embeds=True).replace(modules=[SplitModel(nn.Flatten(), (1, 2, 2), 3, latent=6).double()])
    local = Fit(batch_size=4, objective=SupervisedContrast(), views=Views(AddNoise(0.1)))
    data, _ = scene.play(Method("mine", local=local))
    assert all(torch.isfinite(rows).all() for rows in data.x.tensors)
    for views in (None, Views(AddNoise(0.1), 1)):
        with raises("too-few", "batch_size"):
            scene.begin(Method("mine", local=Fit(batch_size=4, objective=SupervisedContrast(), views=views)))
