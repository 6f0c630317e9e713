"""MAPL as a whole: the order of a round, what travels, who is dropped, and nodes with few or no samples of a class."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab import Tasks, load_dataset, run
from graphcollab.analysis.metrics import in_cluster_share, recovery_auc
from graphcollab.components import ClassifierSimilarity, Fit, NoExchange
from graphcollab.data.partition import class_clusters
from graphcollab.engine import AddNoise, SupervisedContrast, Views
from graphcollab.engine.losses import as_objective
from graphcollab.methods import fedavg, local, mapl
from graphcollab.models import MLP, SplitModel, small_backbones, split_models
from graphcollab.testing import Scene
from tests.methods.forms import check_form
from tests.raising import raises

CROSS_ENTROPY = as_objective("cross_entropy")

QUICK = {"lr": 0.01, "batch_size": 4, "augment": AddNoise(0.1)}


def play(method, rounds, **scene):
    data, env = Scene.small(embeds=True, **scene).play(method, rounds)
    return data, env


def test_a_round_learns_weights_from_new_classifiers_and_mixes_prototypes_with_them():
    method = mapl(warmup=0, **QUICK)
    data, env = Scene.small(embeds=True).begin(method)
    data.x_start = data.x
    trained = method.local(data, env)
    weighed = method.weigh(trained, env)
    after = method.exchange(weighed, env)
    matrix = torch.zeros(6, 6, dtype=torch.float64)
    matrix[weighed.edge_index[1], weighed.edge_index[0]] = weighed.edge_weight
    torch.testing.assert_close(after.x.part("prototypes"), matrix @ trained.x.part("prototypes"))
    for part in ("backbone", "projection", "head"):
        assert torch.equal(after.x.part(part), trained.x.part(part))
    own = method.weigh(data, env).edge_weight  # from the classifiers before the local update: all alike
    assert not torch.allclose(own, weighed.edge_weight)
    played, _ = play(method, 1)
    torch.testing.assert_close(played.x.part("prototypes"), after.x.part("prototypes"))


def test_mapl_plus_mixes_backbones_too():
    plain, plus = (play(mapl(warmup=5, part=part, **QUICK), 1)[0] for part in ("prototypes", "backbone+prototypes"))
    backbones = plus.x.part("backbone")
    torch.testing.assert_close(backbones, plain.x.part("backbone").mean(0).expand_as(backbones))
    assert torch.equal(plus.x.part("head"), plain.x.part("head"))
    torch.testing.assert_close(plus.x.part("prototypes"), plain.x.part("prototypes"))
    assert mapl(part="backbone+prototypes").name == "mapl+"


def test_prototypes_travel_from_the_start_and_classifiers_after_the_warm_up():
    method = mapl(warmup=2, graph=ClassifierSimilarity(lr=1e-3), **QUICK)
    data, _ = play(method, 2)
    prototypes, head = (data.x.part(part).shape[1] for part in ("prototypes", "head"))
    assert data.bytes_sent.tolist() == [2 * 5 * 4 * prototypes] * 6
    data, _ = play(method, 3)
    assert data.bytes_sent.tolist() == [5 * 4 * (3 * prototypes + head)] * 6


def test_neighbors_of_weight_zero_are_dropped_for_good_unless_asked():
    fierce = ClassifierSimilarity(lr=50.0)
    start, _ = Scene.small(embeds=True).begin(mapl(warmup=0, graph=fierce, **QUICK))
    after, _ = play(mapl(warmup=0, graph=fierce, **QUICK), 1)
    assert 6 < after.edge_index.shape[1] < start.edge_index.shape[1] == 36
    assert after.edge_index[0, after.edge_index[0] == after.edge_index[1]].tolist() == list(range(6))
    later, _ = play(mapl(warmup=0, graph=fierce, **QUICK), 3)
    assert later.edge_index.shape[1] <= after.edge_index.shape[1]
    kept, _ = play(mapl(warmup=0, graph=fierce, drop=False, **QUICK), 1)
    assert kept.edge_index.shape[1] == 36
    assert int((kept.edge_weight == 0).sum()) > 0


def test_a_node_alone_keeps_its_prototypes():
    method = mapl(warmup=1, **QUICK)
    nobody = torch.empty(2, 0, dtype=torch.int64)
    data, _ = Scene.small(embeds=True).replace(edge_index=nobody).play(method)
    other, _ = play(method.method.replace(exchange=NoExchange()), 2)
    torch.testing.assert_close(data.x.tensors[0], other.x.tensors[0])


def test_losses_that_weigh_nothing_are_left_out():
    bare = mapl(warmup=0, contrast=0, prototype=0, uniformity=0)
    assert bare.local.objective is None
    assert len(mapl(warmup=0).local.objective.terms) == 3
    data, _ = play(mapl(warmup=3, contrast=0, prototype=0, uniformity=0, augment=None, lr=0.01, batch_size=4), 1)
    plain = Fit(batch_size=4, optimizer=mapl(lr=0.01).method.local.optimizer, views=Views(None, 2))
    same, _ = play(local().replace(local=plain), 1)
    torch.testing.assert_close(data.x.part("backbone"), same.x.part("backbone"))


def test_the_published_form_trains_and_never_drops():
    data, _ = play(mapl(warmup=1, published=True, **QUICK), 4)
    assert data.edge_index.shape[1] == 36
    contrast, prototype, uniformity = mapl(published=True).next.local.objective.terms
    assert (contrast.form, contrast.temperature, prototype.normalize, uniformity.form) == ("in", 100.0, False, "exp")


def labeled(*labels):
    """Return tasks whose nodes have 6 samples each of the classes named, with inputs that tell classes apart."""
    draw = torch.Generator().manual_seed(0)
    samples = []
    for own in labels:
        y = torch.tensor(own).repeat_interleave(6)
        samples.append((torch.randn(len(y), 4, generator=draw) + y[:, None], y))
    return Tasks.from_samples(samples)


def models(latents=(3, 3)):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [SplitModel(nn.Linear(4, width), (4,), 4, latent=width, norm="layer") for width in latents]


def test_a_single_class_and_a_class_nobody_has_are_well_defined():
    tasks = labeled((0, 1), (0, 1), (2,))  # node 2 has one class, class 3 is nobody's
    result = run(mapl(warmup=1, lr=0.01, augment=None), tasks, models()[:1], rounds=3, seed=0)
    assert all(bool(t.isfinite().all()) for t in result.data.x.tensors)
    prototypes = result.data.x.part("prototypes").view(3, 4, -1)
    assert bool((prototypes[:, 3] != result.data.x_init.part("prototypes").view(3, 4, -1)[:, 3]).any())  # pushed apart


def test_unequal_latents_are_refused_by_name():
    tasks = labeled((0, 1), (0, 1))
    with raises("mismatch", "part 'prototypes'"):
        run(mapl(augment=None), tasks, models((3, 5)), architecture=[0, 1], rounds=1, seed=0)


def test_models_without_latents_are_refused_by_name():
    tasks = labeled((0, 1), (0, 1))
    with raises("missing", "node 'node 0'"):
        run(mapl(augment=None), tasks, MLP(4, 3, 4), rounds=1, seed=0)


def test_samples_that_cannot_be_augmented_are_refused_before_the_first_round():
    tasks = labeled((0, 1), (0, 1))
    with raises("shape", "augment"):
        run(mapl(), tasks, models()[:1], rounds=1, seed=0)


@pytest.mark.filterwarnings("ignore:.*mixes models, and architectures 0, 1:RuntimeWarning")
def test_methods_without_prototypes_train_the_same_models():
    tasks = labeled((0, 1), (0, 1), (2, 3))
    result = run(fedavg(part="head"), tasks, models(), architecture=[0, 1, 0], rounds=1, seed=0)
    head = result.data.x.part("head")
    assert torch.equal(head[0], head[1])


@pytest.mark.slow
def test_clusters_of_digits_are_recovered_by_nodes_with_four_architectures():
    data = load_dataset("digits")
    tasks = class_clusters(data, nodes=8, per_class=24, val=4, test=15, seed=0)
    method = mapl(lr=3e-3, warmup=8, batch_size=32, graph=ClassifierSimilarity(lr=10.0), augment=AddNoise(0.1))

    def build():
        return split_models(small_backbones(data.input_shape), data.input_shape, 10, latent=32)

    result = run(method, tasks, build, architecture=torch.arange(8) % 4, rounds=20, seed=0)
    graph = result.data.edge_index, result.data.edge_weight
    assert recovery_auc(*graph, tasks.cluster) > 0.95
    assert in_cluster_share(*graph, tasks.cluster) > 0.7  # a half if all were alike
    assert float(result.history.table("messages_sent")[-1].sum()) < 8 * 7 * 20
    assert float(result.history.table("test_metric")[-1].mean()) > 0.8


def test_contract_of_learned_weights():
    check_form(mapl(warmup=0, epochs=1, **QUICK))


def test_moments_outlive_the_warm_up_where_they_are_kept():
    short, long = (play(mapl(warmup=n, keep_state=True, **QUICK), 4)[0] for n in (2, 5))
    assert torch.equal(short.fit_step, long.fit_step)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"warmup": -1}, "value"),
        ({"published": True, "temperature": 0.1}, "conflict"),
        ({"published": True, "graph": ClassifierSimilarity()}, "conflict"),
        ({"temperature": 0.0}, "value"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, code):
    with raises(code, next(iter(wrong))):
        mapl(**wrong)


def test_a_graph_that_is_none_is_refused():
    with raises("value", "graph", "'complete'"):
        mapl(graph="complete")


class OddPrototypes(SplitModel):
    """A model whose prototypes do not go with its classes or projections."""

    def __init__(self, *shape):
        super().__init__(nn.Linear(4, 3), (4,), 4, latent=3, norm="layer")
        self.prototypes = nn.Parameter(torch.zeros(*shape))


@pytest.mark.parametrize("shape", [(2, 3), (4, 5)])
def test_prototypes_that_do_not_fit_are_refused_before_the_first_round(shape):
    with torch.random.fork_rng(devices=[]), raises("shape", "parameter 'prototypes'"):
        run(mapl(warmup=0, augment=None), labeled((0, 1), (0, 1)), OddPrototypes(*shape), rounds=1)


@pytest.mark.parametrize("targets", [torch.zeros(6), torch.zeros(6, 4)])
def test_regression_is_refused_before_the_first_round(targets):
    tasks = Tasks.from_samples([(torch.randn(6, 4), targets)] * 2, loss="mse", metric="mse")
    model = models()[0] if targets.dim() > 1 else SplitModel(nn.Linear(4, 3), (4,), 1, latent=3, norm="layer")
    with raises("shape", "targets"):
        run(mapl(warmup=0, augment=None), tasks, model, rounds=1, seed=0)


def test_a_loss_of_the_tasks_that_reads_latents_is_refused():
    tasks = labeled((0, 1), (0, 1))
    tasks = replace(tasks, loss=CROSS_ENTROPY + SupervisedContrast())
    with raises("contract", "loss"):
        run(local(), tasks, models()[:1], rounds=1, seed=0)


def test_the_defaults_learn():
    data = load_dataset("digits")
    tasks = class_clusters(data, nodes=2, per_class=24, val=4, test=15, seed=0)

    def build():
        return split_models([nn.Flatten()], data.input_shape, 10, latent=32)

    result = run(mapl(), tasks, build, seed=0, rounds=60, evaluate_every=60)
    assert float(result.history.table("test_metric")[-1].mean()) > 0.4  # 0.2 by chance
