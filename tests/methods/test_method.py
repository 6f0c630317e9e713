from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from graphcollab import Method, Phases, Tasks, get_method
from graphcollab.comm import Plane
from graphcollab.components import (
    ApplyTransform,
    ClippedMean,
    CrossGradients,
    Env,
    Exchange,
    Exchanger,
    Field,
    Fit,
    FitPersonal,
    Judge,
    Local,
    Rewiring,
    ThroughServer,
    Uniform,
    Weigher,
)
from graphcollab.engine import SGD, Engine, Proximal
from graphcollab.engine.losses import as_objective
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import ditto, dpsgd, fedavg, l2c, local, meta_l2c
from graphcollab.methods.method import NonFiniteLossError
from graphcollab.testing import Scene, differences
from graphcollab.train.start import build_graph
from graphcollab.transforms import TopK
from tests.raising import raises

CROSS_ENTROPY = as_objective("cross_entropy")

EXCHANGING = ("dpsgd", "fedavg", "l2c", "meta_l2c")


def poisoned(outputs, targets):
    """Cross-entropy, but not a number for a batch with a sample of class 2."""
    loss = nn.functional.cross_entropy(outputs, targets)
    return loss * torch.where((targets == 2).any(), float("nan"), 1.0)


def begin(method, loss=poisoned, lr=None, isolate=False, backend="auto", bad=1):
    """Four nodes, of which one has samples of class 2."""
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(10, 2, generator=draw), torch.arange(10) % 2 + (k == bad)) for k in range(4)]
    tasks = Tasks.from_samples(samples, names=["north", "east", "south", "west"], loss=loss)
    module = nn.Linear(2, 3)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3, generator=draw)
    env = Env(Engine(tasks, [module], [ParamSpec.from_module(module)], backend=backend), Plane(), 0, isolate)
    return method.start(build_graph(tasks, [module]), env), env


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_a_loss_that_is_not_finite_names_node_round_and_step(backend):
    method = local(epochs=1, batch_size=1)
    data, env = begin(method, backend=backend)
    with raises("diverged", "node 'east'", kind=NonFiniteLossError):
        method.play(data, env)
    data.round = 7
    with raises("diverged", "node 'east'", kind=NonFiniteLossError):
        method.play(data, env)


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_the_step_is_the_first_that_is_not_finite(backend):
    """The step at which it happens is the one at which the batch with the sample of class 2 is drawn."""
    from graphcollab.data.schedule import make_schedule

    method = local(epochs=1, batch_size=1, lr=0.0)
    data, env = begin(method, backend=backend)
    split = env.engine.tasks.splits["train"]
    order = split.of(1)[make_schedule(split.sizes[1:2], env.engine.tasks.ids[1:2], 0, 0, 1).position[0, :, 0]]
    first = int((env.engine.tasks.pools["train"].targets[order] == 2).nonzero()[0])
    with raises("diverged", "node 'east'", f"step {first}:", kind=NonFiniteLossError):
        method.play(data, env)


def test_all_such_nodes_are_counted():
    method = local(lr=1e30, epochs=3)
    data, env = begin(method, loss="cross_entropy")
    with raises("diverged", "node 'north'", kind=NonFiniteLossError):
        method.play(data, env)


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_a_model_broken_by_the_last_step_is_found_before_it_is_mixed(backend):
    def explode(outputs, targets):
        return (outputs * torch.where(targets[:, None] == 2, 1e30, 1.0)).mean()

    method = fedavg(epochs=1, batch_size=10, lr=1e30)
    data, env = begin(method, loss=explode, isolate=True, backend=backend)
    after = method.play(data, env)
    assert after.isolated.tolist() == [False, True, False, False]
    assert after.bad_step.tolist() == [-1] * 4  # the node was found in a trial update, before the round
    assert all(bool(torch.isfinite(t).all()) for t in after.x.tensors)


@pytest.mark.parametrize("name", ["local", *EXCHANGING])
def test_isolating_such_a_node_goes_on_without_it(name):
    method = get_method(name)()
    data, env = begin(method, isolate=True)
    start = data.x.part("all")
    for _ in range(3):
        data = method.play(data, env)
    assert data.isolated.tolist() == [False, True, False, False]
    assert torch.equal(data.x.part("all")[1], start[1]), "it keeps its last good model"
    assert torch.isfinite(data.x.part("all")).all()
    assert torch.isfinite(data.edge_weight).all()
    assert not torch.equal(data.x.part("all")[0], start[0])
    sender, receiver = data.edge_index
    assert not ((sender != receiver) & ((sender == 1) | (receiver == 1))).any(), "its edges are gone"


@pytest.mark.parametrize("name", EXCHANGING)
def test_nodes_go_on_as_if_an_isolated_one_had_never_been_there(name):
    settings = {"drop_round": None} if "drop_round" in get_method(name).__code__.co_varnames else {}
    method = get_method(name)(**settings)
    data, env = begin(method, isolate=True)
    rest = torch.tensor([0, 2, 3])
    tasks = env.engine.tasks.select(rest)
    module = env.engine.backends[0].module
    spec = data.x.specs[0]
    spec.load_into(module, data.x.tensors[0][0])
    other_env = Env(Engine(tasks, [module], [spec]), Plane(), 0)
    other = method.start(build_graph(tasks, [module]), other_env)
    for _ in range(2):
        data, other = method.play(data, env), method.play(other, other_env)
    torch.testing.assert_close(data.x.part("all")[rest], other.x.part("all"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("isolate", [False, True])
def test_a_validation_loss_that_is_not_finite(isolate):
    """East's training samples are fine, its validation samples are not."""
    method = l2c(epochs=1)
    data, env = begin(method, isolate=isolate, bad=None)
    tasks = env.engine.tasks
    tasks.pools["train"].targets[tasks.splits["val"].of(1)] = 2
    if not isolate:
        with raises("diverged", "node 'east'", kind=NonFiniteLossError):
            method.play(data, env)
        return
    after = method.play(method.play(data, env), env)
    assert after.isolated.tolist() == [False, True, False, False]
    assert torch.isfinite(after.edge_logit).all()
    assert torch.isfinite(after.x.part("all")).all()


def test_replace_shares_no_state():
    one = l2c()
    two = one.replace(name="mine", exchange=Exchange("zero", "x"))
    assert (one.name, two.name) == ("l2c", "mine")
    assert one.exchange != two.exchange
    with pytest.raises(AttributeError):
        one.name = "other"


def test_a_transform_can_rewire_every_round():
    method = l2c(epochs=1).replace(rewire=TopK(1))
    assert method.rewire == ApplyTransform(method.rewire.transform)
    assert method.replace(name="again").rewire == method.rewire
    data, _ = Scene.small().play(method, rounds=2)
    sender, receiver = data.edge_index
    assert torch.bincount(receiver[sender != receiver], minlength=6).tolist() == [1] * 6


def test_the_part_is_said_once():
    assert l2c(part="head").part == fedavg(part="head").part == "head"
    assert dpsgd().replace(exchange=Exchange(part="head", route=ThroughServer())).part == "head"
    assert local().part == "all"
    with raises("mismatch", "part", "'head'", "'all'"):
        meta_l2c().replace(exchange=Exchange(part="head"))


def test_slots_that_share_different_things_may_name_different_parts():
    """Gradients of the head alone may be combined where whole models are averaged, or none are."""
    gradients = CrossGradients(ClippedMean(), part="head")
    assert Method("m", gradients, Uniform(), Exchange()).part == "all"
    assert Method("m", FitPersonal(part="head")).part == "all"
    with raises("mismatch", "part", "'all'", "'head'"):
        Method("m", replace(gradients, mixed=True), Uniform(), Exchange())


def test_objectives_pull_the_part_that_is_exchanged():
    pull = Fit(objective=CROSS_ENTROPY + 0.1 * Proximal(1.0, "head"))
    assert fedavg(part="head").replace(local=pull).part == "head"
    with raises("mismatch", "part", "'all'", "'head'"):
        fedavg().replace(local=pull)


def test_slots_are_played_in_order():
    seen = []

    class Spy:
        def init(self, data, env):
            seen.append(f"init {type(self).__name__}")
            return data

        def __call__(self, data, env):
            seen.append(type(self).__name__)
            data.bad_step = torch.full((6,), -1)
            return data

    class Trains(Spy, Local):
        pass

    class Weighs(Spy, Weigher):
        learns = True

        def learn(self, data, env, gradient):
            seen.append(f"learn {tuple(gradient.shape)}")
            return data

    class Exchanges(Spy, Exchanger):
        along_edges = True

        def weight_gradient(self, data, env, cotangent):
            seen.append(f"gradient {tuple(cotangent.shape)}")
            return torch.zeros(30)

    class Rewires(Spy, Rewiring):
        pass

    method = Method("spy", Trains(), Weighs(), Exchanges(), Rewires())
    data, env = Scene.small().begin(method)
    assert seen == ["init Trains", "init Weighs", "init Exchanges", "init Rewires"]
    seen.clear()
    after = method.play(data, env)
    assert seen == ["Trains", "Weighs", "Exchanges", "gradient (6, 51)", "learn (30,)", "Rewires"]
    assert (data.round, after.round) == (0, 1)
    assert "x_start" not in after


def test_every_piece_may_say_that_models_travel_along_edges():
    class Visits(Fit):
        along_edges = True

    assert Method("m", Visits()).along_edges
    assert not Method("m", Fit()).along_edges


@dataclass(frozen=True)
class FitAndNote(Fit):
    """A local update that keeps something of every kind."""

    keeps = (
        Field("note", "per_node", "noted", "round"),
        Field("x_note", "models", "noted", "round"),
        Field("memo_*", "per_node", "noted"),
        Field("diary", "per_node", "noted", "run"),
    )

    def __call__(self, data, env):
        data = super().__call__(data, env)
        data.note = data.memo_a = data.memo_b = data.diary = torch.full((6,), data.round)
        data.x_note = data.x
        return data


NOTES = {"note", "x_note", "memo_a", "memo_b", "diary"}


def notes_of(data):
    return NOTES & set(data.keys())


def test_what_a_round_leaves_can_be_looked_at_until_the_next():
    """Models are large: they go at once, unless nodes are judged by them."""
    data, env = Scene.small().play(Method("m", FitAndNote()))
    assert notes_of(data) == NOTES - {"x_note"}
    method = Method("m", FitAndNote(), judge=Judge(field="x_note"))
    data, env = Scene.small().play(method)
    assert notes_of(data) == NOTES
    assert method.models(data, env) is data.x_note


def test_nothing_of_the_last_round_is_there_when_the_next_begins():
    began = []

    class Looks(FitAndNote):
        def __call__(self, data, env):
            began.append(notes_of(data))
            return super().__call__(data, env)

    Scene.small().play(Method("m", Looks(), judge=Judge(field="x_note")), rounds=2)
    assert began == [set(), {"memo_a", "memo_b", "diary"}]


def test_what_a_phase_keeps_ends_with_it_unless_the_next_declares_it():
    plain, notes = Method("a", Fit()), Method("b", FitAndNote())
    data, _ = Scene.small().play(Phases(notes, 1, plain), rounds=2)
    assert notes_of(data) == {"diary"}
    data, _ = Scene.small().play(Phases(notes, 1, notes.replace(name="c")), rounds=1)
    assert data.memo_a.tolist() == [0] * 6
    data, _ = Scene.small().play(Phases(notes, 1, Phases(notes, 2, plain)), rounds=2)
    assert notes_of(data) == NOTES - {"x_note"}


def test_personal_models_go_on_only_under_who_declares_them():
    data, _ = Scene.small().play(Phases(ditto(epochs=1), 2, local(epochs=1)), rounds=3)
    assert "x_personal" not in data
    two, _ = Scene.small().play(ditto(epochs=1), rounds=2)
    again, _ = Scene.small().play(Phases(ditto(epochs=1), 2, ditto(epochs=1, lr=1e-30)), rounds=3)
    torch.testing.assert_close(again.x_personal.part("all"), two.x_personal.part("all"), rtol=0, atol=1e-12)


def test_judged_by():
    data, env = Scene.small().begin(local())
    assert Judge()(data, env) is Judge(field="x_local")(data, env) is data.x
    with raises("unknown", "judge", "'x_personal'"):
        local().replace(judge=Judge(field="x_personal"))


def test_judged_before_mixing():
    """Nothing but the models that nodes are judged by is other than in the same method that judges after it."""
    method = fedavg(epochs=1)
    before, scene = method.replace(judge=Judge(field="x_local")), Scene.small()
    data, env = scene.play(before, rounds=2)
    after, _ = scene.play(method, rounds=2)
    assert torch.equal(data.x.part("all"), after.x.part("all"))
    assert "x_local" not in after
    one, _ = scene.play(method, rounds=1)
    trained = method.local(one.clone().update({"x_start": one.x}), env).x
    assert torch.equal(before.models(data, env).part("all"), trained.part("all"))


def test_phases_play_the_first_method_then_the_next():
    warm, main = local(epochs=1), fedavg(epochs=1)
    phases, scene = Phases(warm, 2, main), Scene.small()
    assert phases.name == "local→fedavg"
    assert phases.beyond_edges
    data, env = scene.play(phases, rounds=3)
    by_hand, _ = scene.play(warm, rounds=2)
    by_hand = main.play(main.start(by_hand, env), env)
    assert differences(data, by_hand) == []
    two, _ = scene.play(phases, rounds=2)
    assert len(two.x.part("all").unique(dim=0)) == 6, "nobody has averaged yet"


def test_a_phase_starts_with_all_nodes_at_work():
    """Those that client sampling left at rest work again, isolated ones do not."""
    data, env = Scene.small().begin(fedavg(fraction=0.25))
    assert int(data.trains.sum()) == 2
    data.isolated = torch.tensor([True] + [False] * 5)
    started = local().start(data, env)
    assert started.trains.tolist() == started.serves.tolist() == [False] + [True] * 5
    phases = Phases(fedavg(epochs=1, fraction=0.25), 2, local(epochs=1))
    before, after = (Scene.small().models(phases, rounds).part("all") for rounds in (2, 3))
    assert bool((before != after).any(1).all())


def test_rounds_of_a_method_count_from_its_start():
    scene, after = Scene.small(), l2c(epochs=1, drop_round=1, drop_fraction=0.5)
    edges = [scene.play(Phases(local(epochs=1), 3, after), rounds)[0].num_edges for rounds in (4, 5)]
    assert edges[0] == 36 > edges[1]


def test_phases_can_have_three_stages():
    phases = Phases(local(epochs=1), 1, Phases(dpsgd(), 2, meta_l2c(epochs=1)))
    data, env = Scene.small().begin(phases)
    kinds = []
    for _ in range(4):
        data = phases.play(data, env)
        kinds.append(("mixer" in data, bool(data.edge_weight.any())))
    assert kinds == [(False, False), (False, True), (True, True), (True, True)]
    assert phases.at(0).name == "local"
    assert phases.next.at(1).name == "dpsgd"


def test_phases_must_end_one_after_the_other():
    with raises("conflict", "until", "10", "5"):
        Phases(local(), 10, Phases(dpsgd(), 5, fedavg()))


def test_a_later_phase_that_cannot_start_is_refused_at_once():
    scene = Scene.small().replace(edge_index=torch.tensor([[0, 1], [1, 2]]))
    with raises("disconnected", "graph"):
        scene.begin(Phases(local(), 5, Phases(local(), 7, dpsgd())))


def test_phases_check_what_every_method_needs():
    scene = Scene.small()
    tasks = Tasks(scene.tasks.pools, {"train": scene.tasks.splits["train"]})
    with raises("empty", "split 'val'"):
        scene.replace(tasks=tasks).begin(Phases(local(), 5, l2c()))


def test_optimizer_state_can_live_through_rounds():
    """With kept momentum the second round starts with velocity; without it, from rest."""
    fit = Fit(steps=1, optimizer=SGD(lr=0.1, momentum=0.9))
    kept, fresh = (Method("m", Fit(1, 1, optimizer=fit.optimizer, keep_state=keep)) for keep in (True, False))
    scene = Scene.small()
    one, two = scene.play(kept, rounds=1)[0], scene.play(fresh, rounds=1)[0]
    assert torch.equal(one.x.part("all"), two.x.part("all"))
    assert one.fit_step.tolist() == [1] * 6
    assert not torch.equal(scene.models(kept).part("all"), scene.models(fresh).part("all"))
