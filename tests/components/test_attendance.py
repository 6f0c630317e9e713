"""Who takes part in a round: nodes that are away, late, have not joined yet or have left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphcollab import Method, Phases
from graphcollab._base.keyed import keyed_uniform
from graphcollab.components import CountChosen, EarlyStopping, Env, Exchange, Fit, Participation, SampleNodes, Uniform
from graphcollab.engine import SGD
from graphcollab.methods import dac, fedavg, l2c, local, meta_l2c, panm, pens, random_peers
from graphcollab.testing import Scene
from graphcollab.transforms import WithSelfLoops
from tests.raising import raises

# A node's model is a point x, its loss half the squared distance to its target; a step with lr ½ halves that. Then
# everybody takes the mean.


def mean_of_all(**slots):
    train = Fit(steps=1, batch_size=10, optimizer=SGD(lr=0.5))
    return Method("mean", train, Uniform(), Exchange("zero", "x"), prepare=WithSelfLoops(), **slots)


def values(data):
    return data.x.part("all").flatten().tolist()


def play(scene, method, rounds=1):
    return scene.play(method, rounds)[0]


class Away(Participation):
    """Some nodes are away, and some late, in some rounds: {round: (away, late)}."""

    def __init__(self, plan):
        super().__init__()
        object.__setattr__(self, "plan", plan)

    def at_work(self, data, env):
        away, late = self.plan.get(data.round, ((), ()))
        there, in_time = (~torch.isin(data.node_id, torch.tensor(out, dtype=torch.int64)) for out in (away, late))
        return there, there & in_time


def test_a_node_that_is_away_rests_and_the_others_go_on_by_hand(points):
    # Targets 0, 4, 8, all at 0: steps lead to 0, 2, 4; node 2 stays at 0.
    scene = points([[[0.0]], [[4.0]], [[8.0]]]).scene.replace(participation=Away({0: ((2,), ())}))
    data = play(scene, mean_of_all())
    # self-loops take what node 2 would have been given: ⅔ · own + ⅓ · other
    assert values(data) == pytest.approx([2 / 3, 4 / 3, 0], abs=1e-6)
    assert data.bytes_sent.tolist() == [4, 4, 0]
    assert data.trains.tolist() == data.serves.tolist() == [True] * 3  # as rewire left them


def test_a_late_node_trains_and_listens_but_is_not_heard_by_hand(points):
    scene = points([[[0.0]], [[4.0]], [[8.0]]]).scene.replace(participation=Away({0: ((), (2,))}))
    data = play(scene, mean_of_all())
    assert values(data) == pytest.approx([2 / 3, 4 / 3, 2], abs=1e-6)  # node 2: (0 + 2 + 4) / 3
    assert data.bytes_sent.tolist() == [8, 8, 0]


def test_nodes_join_and_leave_by_hand(points):
    # Node 1 is there in round 1 only. Targets 8 and 0, both at 0.
    scene = points([[[8.0]], [[0.0]]]).scene.replace(participation=Participation(joins={1: 1}, leaves={1: 2}))
    data, env = scene.begin(mean_of_all())
    assert data.present.tolist() == [True, False]
    seen = []
    for _ in range(3):
        data = mean_of_all().play(data, env)
        seen.append((values(data), data.present.tolist()))
    # round 0: node 0 steps to 4, alone. Round 1: 4 → 6, node 1 stays at 0, both take 3. Round 2: node 0 to 5.5.
    assert seen == [([4, 0], [True, True]), ([3, 3], [True, False]), ([5.5, 3], [True, False])]
    assert data.bytes_sent.tolist() == [4, 4]


def test_stragglers_are_drawn_by_seed_node_id_and_round(make_graph):
    data = make_graph([[0.0]] * 500)
    data.node_id = torch.arange(500).flip(0) + 7
    stragglers, env = Participation(drop=0.3, late=0.2), Env(None, None, 5)
    data.round = 9
    trains, serves = stragglers.at_work(data, env)
    assert torch.equal(trains, keyed_uniform(5, 121, data.node_id, 9) >= 0.3)
    assert torch.equal(serves, trains & (keyed_uniform(5, 122, data.node_id, 9) >= 0.2))
    assert 0.64 < float(trains.double().mean()) < 0.76
    assert 0.49 < float(serves.double().mean()) < 0.63  # .7 · .8 = .56
    data.round = 10
    assert not torch.equal(trains, stragglers.at_work(data, env)[0])


def test_stragglers_among_members_only(make_graph):
    data, env = make_graph([[0.0]] * 3), Env(None, None, 0)
    among = Participation(joins={0: 4})
    assert among.members(data, 3).tolist() == [False, True, True]
    assert [mask.tolist() for mask in among.at_work(data, env)] == [[False, True, True]] * 2


def test_all_away_and_all_late():
    scene = Scene.small().replace(participation=Participation(drop=1.0))
    start, data = scene.begin(l2c())[0], play(scene, l2c(), 2)
    assert torch.equal(start.x.tensors[0], data.x.tensors[0])
    assert float(data.bytes_sent.sum()) == 0
    settings = {"epochs": 1, "lr": 0.1, "batch_size": 4}
    alone = play(Scene.small(), local(**settings))
    late = play(Scene.small().replace(participation=Participation(late=1.0)), fedavg(**settings))
    assert torch.equal(alone.x.tensors[0], late.x.tensors[0])  # the server hears from nobody


def test_masks_of_client_sampling_survive_the_round():
    scene = Scene.small()
    method = mean_of_all(rewire=SampleNodes(0.5))
    plain, _ = scene.play(method, 3)
    data, _ = scene.replace(participation=Participation(0.5, 0.5)).play(method, 3)
    assert torch.equal(plain.trains, data.trains)
    assert torch.equal(plain.serves, data.serves)


def test_clients_are_sampled_among_members():
    scene = Scene.small().replace(participation=Participation(leaves={0: 1, 1: 1, 2: 1}))
    data, _ = scene.play(mean_of_all(rewire=SampleNodes(0.67)), 3)
    assert not bool(data.trains[:3].any())
    assert int(data.trains.sum()) == 2


def test_nodes_that_stop_stay_stopped_and_rounds_away_do_not_count(points):
    # Node 0 stands at its optimum: nothing gets better. With a patience of 2 it stops in its third round at work.
    plan = {1: ((0,), ()), 3: ((1,), ())}
    scene = points([[[0.0]], [[4.0]]]).scene.replace(participation=Away(plan))
    method = mean_of_all(stop=EarlyStopping(2))
    data, env = scene.begin(method)
    stopped, stale = [], []
    for _ in range(5):
        data = method.play(data, env)
        stopped.append(data.stopped[0].item())
        stale.append(data.stale[0].item())
    assert stale[:4] == [0, 0, 1, 2]
    assert stopped == [False, False, False, True, True]
    assert data.trains.tolist() == [False, True]
    assert data.serves.tolist() == [True, True]


def test_a_node_is_isolated_while_another_is_away(points):
    three = points([[[0.0]], [[4.0]], [[8.0]]])
    three = replace(three, scene=three.scene.replace(participation=Away({0: ((2,), ())})))
    data, env = three.begin(mean_of_all(), [[0.0], [1e200], [0.0]])
    data = mean_of_all().play(data, env._replace(isolate=True))
    assert data.isolated.tolist() == [False, True, False]
    assert data.trains.tolist() == data.serves.tolist() == [True, False, True]


@pytest.mark.parametrize("method", [random_peers(samples=2), dac(samples=2)])
def test_nobody_draws_or_is_drawn_who_is_not_there(method):
    scene = Scene.small().replace(participation=Participation(joins={0: 2}, leaves={5: 1}))
    data, env = scene.begin(method)
    for absent in ({0}, {0, 5}, {5}, {5}):
        sender, receiver = data.edge_index[:, data.edge_index[0] != data.edge_index[1]]
        met = set(sender.tolist()) | set(receiver.tolist())
        assert met == set(range(6)) - absent
        data = method.play(data, env)


def test_peers_that_do_not_serve_are_neither_measured_nor_chosen_nor_charged():
    scene = Scene.small().replace(participation=Away({0: ((1,), (2,))}))
    method = dac(metric="inverse_loss", samples=5)
    data, env = scene.begin(method)
    data = method.play(data, env)
    sender, receiver = data.scores.edge_index
    assert set(sender.tolist()) == {0, 3, 4, 5}
    assert set(receiver.tolist()) == {0, 2, 3, 4, 5}
    assert data.bytes_sent[[1, 2]].tolist() == [0, 0]
    last = data.last_graph
    used = last.edge_index[:, last.values > 0]
    assert set(used[0, used[0] != used[1]].tolist()) == {0, 3, 4, 5}


def test_pens_counts_the_rounds_in_which_a_node_chose():
    scene = Scene.small().replace(participation=Away({0: ((1,), ()), 1: ((1,), ())}))
    data, _ = scene.play(pens(samples=3, explore_rounds=9), 3)
    assert isinstance(pens().method.rewire, CountChosen)
    assert data.chosen_rounds.tolist() == [3, 1, 3, 3, 3, 3]


def test_panm_remembers_whom_it_knew_over_a_round_away():
    method = panm(samples=2, neighbors=2, explore_rounds=9)
    scene = Scene.small().replace(participation=Away({1: ((1,), ())}))
    data, env = scene.begin(method)
    data = method.play(data, env)
    knew = data.edge_index[:, data.edge_member]
    data = method.play(data, env)
    knows = data.edge_index[:, data.edge_member]
    assert sorted(knows[0, knows[1] == 1].tolist()) == sorted(knew[0, knew[1] == 1].tolist()) != []


def test_logits_of_edges_to_and_from_nodes_that_are_away_stay_as_they_are():
    scene = Scene.small().replace(participation=Away({1: ((1,), ())}))
    method = l2c(epochs=1, batch_size=4, lr=0.1)
    data, env = scene.begin(method)
    one = method.play(data, env)
    two = method.play(one, env)
    own = (one.edge_index == 1).any(0)
    for name in ("edge_logit", *(key for key in one.keys() if key.startswith("edge_logit_"))):  # noqa: SIM118
        assert torch.equal(one[name][own], two[name][own])
        assert not torch.equal(one[name][~own], two[name][~own])


def test_nodes_at_work_pay_for_the_all_reduce_of_encoders():
    data = play(Scene.small().replace(participation=Away({0: ((1,), (2,))})), meta_l2c(epochs=1, batch_size=4, lr=0.1))
    assert data.bytes_sent[[1, 2]].tolist() == [0, 0]
    # 4 nodes at work send changes and updates to all others that train, and 2 · 3 / 4 of the encoders' parameters
    width, encoders = data.x.part("all").shape[1], data.mixer.num_parameters + 1  # two losses in place of a gate
    assert data.bytes_sent[0].item() == pytest.approx(4 * (2 * 4 * width + 1.5 * encoders))


def test_phases_share_one_membership():
    scene = Scene.small().replace(participation=Participation(joins={0: 3}))
    method = Phases(local(lr=0.1), 2, mean_of_all())
    data, env = scene.begin(method)
    start = data.x.tensors[0][0]
    for there in (False, False, False, True):
        data = method.play(data, env)
        assert torch.equal(data.x.tensors[0][0], start) is not there


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"drop": 1.1}, ("value", "drop", "1.1")),
        ({"late": -0.1}, ("value", "late")),
        ({"drop": True}, ("value", "drop")),
        ({"drop": "often"}, ("value", "drop")),
        ({"joins": {1: True}}, ("value", "joins", "{1: True}")),
        ({"joins": {"ada": 0}}, ("value", "joins", "{'ada': 0}")),
        ({"leaves": {True: 1}}, ("value", "leaves", "{True: 1}")),
        ({"joins": {1: 0}}, ("value", "joins", "{1: 0}")),
        ({"leaves": {1: 2.5}}, ("value", "leaves", "{1: 2.5}")),
        ({"joins": {1: 5}, "leaves": {1: 5}}, ("conflict", "node 1", "5")),
        ({"joins": [3]}, ("value", "joins", "[3]")),
    ],
    ids=str,
)
def test_bad_settings(settings, error):
    with raises(*error):
        Participation(**settings)


def test_any_integers_may_say_who_joins_when():
    given = Participation(joins={np.int64(4): np.int64(3)}, leaves={torch.tensor(4): torch.tensor(5)})
    plain = Participation(joins={4: 3}, leaves={4: 5})
    assert given == plain
    assert repr(given) == repr(plain)  # which a resumed run is told by


def test_by_name():
    given = Participation(joins={"cy": 3, 7: 2}, leaves={"ada": 4}, drop=0.5)
    names, ids = ["ada", "bob", "cy"], torch.tensor([7, 8, 9])
    assert given.by_id(names, ids) == Participation(joins={9: 3, 7: 2}, leaves={7: 4}, drop=0.5)
    with raises("unknown", "node", "'rob'", "'bob'", kind=KeyError):
        Participation(joins={"rob": 1}).by_id(names, ids)
    with raises("duplicate", "joins"):
        Participation(joins={"ada": 1, 7: 2}).by_id(names, ids)
    with raises("conflict", "node 7", "3"):
        Participation(joins={"ada": 3}, leaves={7: 2}).by_id(names, ids)


def test_unknown_nodes_are_named():
    with raises("unknown", "participation", "6", "9"):
        Scene.small().replace(participation=Participation(joins={9: 1}, leaves={6: 2})).begin(local())


def test_members_do_not_depend_on_the_order_of_nodes():
    membership = Participation(joins={3: 2}, leaves={1: 4})
    data = Data(node_id=torch.tensor([3, 1, 2]), isolated=torch.zeros(3).bool())
    assert [membership.members(data, r).tolist() for r in (0, 2, 4)] == [
        [False, True, True],
        [True, True, True],
        [True, False, True],
    ]
