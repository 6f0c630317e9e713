from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphcollab import Phases, Tasks, build_model, join, load, load_dataset, methods, run
from graphcollab.data.partition import shard_tasks
from graphcollab.methods import cobo, dpsgd, fedavg, l2c, local, meta_l2c, random_peers
from graphcollab.methods.method import NonFiniteLossError
from graphcollab.models import MLP
from graphcollab.persistence.save_models import briefly
from graphcollab.testing import Scene, differences
from graphcollab.train import Compute
from graphcollab.train.newcomers import names_among
from tests.methods import plain_attention
from tests.methods.quick import early
from tests.raising import raises, warns

QUICK = {"epochs": 1, "lr": 0.1, "batch_size": 4}


def make():
    return MLP(4, (6,), 3)


@pytest.fixture(scope="module")
def joined():
    tasks = Scene.small(torch.float32).tasks
    old, new = tasks.select(range(4)), replace(tasks.select([4, 5]), names=("dora", "emil"))
    result = run(meta_l2c(**QUICK, mixer_lr=0.03), old, make, rounds=3, seed=2)
    assert abs(float(result.data.mixer.tensors["temperature"])) > 0.01
    assert abs(float(result.data.mixer.gate) + 4) > 0.001
    before = [t.clone() for t in (result.data.x.tensors[0], *result.data.mixer.tensors.values())]
    told = join(result, new, warmup=2, finetune=0)
    after = [result.data.x.tensors[0], *result.data.mixer.tensors.values()]
    assert differences(before, after) == [], "old nodes and their mixer stay as they are"
    return result, new, told


def weights_of_the_first(joined, senders):
    """The weights of the first newcomer, node 4, if it hears some nodes, itself the last of them, in plain loops."""
    result, new, _ = joined
    alone = run(local(**QUICK), new, result.modules[0], rounds=2, seed=2)
    changes = torch.cat([result.data.x.tensors[0], alone.data.x.tensors[0]]) - result.data.x_init.tensors[0][0]
    return plain_attention.weights(result.data.mixer, changes[senders], result.data.x.specs[0])[-1]


def test_the_mixers_gate_and_temperature_are_used(joined):
    """With p = σ(0) half is the own model's, and near temperature 0 the rest is even."""
    result, new, _ = joined
    there = result.data.mixer
    cold = there.with_tensors({**there.tensors, "temperature": torch.tensor(-2.0)})
    result.data.mixer = replace(cold, gate=torch.tensor([0.0], dtype=torch.float64))
    try:
        told = join(result, new, warmup=2, finetune=0)
    finally:
        result.data.mixer = there
    own = told.edge_index[0] >= 4
    assert told.edge_weight[own].tolist() == pytest.approx([0.6, 0.6], abs=1e-6)
    assert told.edge_weight[~own].tolist() == pytest.approx([0.1] * 8, abs=1e-6)


def test_model_is_the_attention_weighted_sum_of_changes(joined):
    """The definition, with plain modules and dense tensors."""
    result, new, told = joined
    start = result.data.x_init.tensors[0][0]
    alone = run(local(**QUICK), new, result.modules[0], rounds=2, seed=2)
    assert torch.equal(alone.data.x_init.tensors[0][0], start)
    changes = torch.cat([result.data.x.tensors[0], alone.data.x.tensors[0]]) - start
    for k in range(2):
        senders = [0, 1, 2, 3, 4 + k]
        weight = plain_attention.weights(result.data.mixer, changes[senders], result.data.x.specs[0])[4]
        mine = told.edge_index[1] == k
        assert told.edge_index[0, mine].sort().values.tolist() == senders
        order = told.edge_index[0, mine].argsort()
        assert told.edge_weight[mine][order].tolist() == pytest.approx(weight.tolist(), abs=1e-6)
        expected = start + weight @ changes[senders]
        assert told.stacks.tensors[0][k].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_models_are_plain_modules(joined):
    _, _, told = joined
    assert told.names == ("dora", "emil")
    by_name, by_place = told.model("emil"), told.model(1)
    assert type(by_name) is MLP
    assert differences(dict(by_name.state_dict()), dict(by_place.state_dict())) == []
    assert not by_name.training
    with raises("unknown", "new node", "'otto'", kind=KeyError):
        told.model("otto")


def test_finetuning_is_local_training(joined):
    result, new, told = joined
    further = join(result, new, warmup=2, finetune=1)
    assert torch.equal(further.edge_weight, told.edge_weight)
    assert not torch.equal(further.stacks.tensors[0], told.stacks.tensors[0])


def test_nodes_left_behind_are_not_listened_to():
    tasks = Scene.small(torch.float32).tasks
    result = run(meta_l2c(**QUICK), tasks.select(range(4)), make, rounds=2)
    result.data.isolated = torch.tensor([False, True, False, False])
    told = join(result, tasks.select([4, 5]))
    assert sorted(set(told.edge_index[0].tolist())) == [0, 2, 3, 4, 5]
    assert torch.zeros(2).index_add(0, told.edge_index[1], told.edge_weight).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.filterwarnings("ignore:.*never played")
def test_the_mixer_of_the_phase_that_played_last_counts(joined):
    _, new, _ = joined
    old = Scene.small(torch.float32).tasks.select(range(4))
    result = run(Phases(local(**QUICK), 1, meta_l2c(**QUICK)), old, make, rounds=2)
    assert join(result, new).names == ("dora", "emil")
    early = run(Phases(local(**QUICK), 5, meta_l2c(**QUICK)), old, make, rounds=2)
    with raises("unsupported", "result"):
        join(early, new)


def test_only_allowed_edges_are_used(joined):
    result, new, _ = joined
    some = join(result, new, allowed=torch.tensor([[3, 0], [0, 0]]), warmup=2, finetune=0)
    assert some.edge_index.tolist() == [[0, 3, 4, 5], [0, 0, 0, 1]]
    assert some.edge_weight[:3].tolist() == pytest.approx(weights_of_the_first(joined, [0, 3, 4]).tolist())
    assert float(some.edge_weight[3]) == 1.0
    for allowed, message in [
        (torch.tensor([[4], [0]]), ("unknown", "node", "4")),
        (torch.tensor([[0], [2]]), ("unknown", "node", "2")),
        (torch.tensor([[-1], [0]]), ("unknown", "node", "-1")),
        (torch.zeros(2, 1), ("type", "node")),
    ]:
        with raises(*message, kind=LookupError if message[0] == "unknown" else TypeError):
            join(result, new, allowed=allowed)
    with pytest.raises(ValueError, match="unpack"):
        join(result, new, allowed=torch.zeros(3, 1, dtype=torch.int64))
    double = join(result, new, allowed=torch.tensor([[3, 0, 3], [0, 0, 0]]), warmup=2, finetune=0)
    assert torch.equal(double.edge_index, some.edge_index)


def test_newcomers_compute_in_the_number_type_of_the_run(joined):
    _, new, _ = joined
    old = Scene.small(torch.float32).tasks.select(range(4))
    alone, rows = torch.empty(2, 0, dtype=torch.int64), []
    for autocast in (False, True):
        result = run(meta_l2c(**QUICK), old, make, rounds=1, compute=Compute(autocast=autocast))
        rows.append(join(result, new, allowed=alone, finetune=0).stacks.tensors[0])
    assert float((rows[0] - rows[1]).abs().max()) > 1e-5


def test_bad_input(joined):
    result, new, _ = joined
    pull = dpsgd(**QUICK).replace(name="pull")
    with raises("unsupported", "result"):
        join(run(cobo(), new, make, rounds=1), new)
    with raises("unsupported", "result"):
        join(run(Phases(l2c(**QUICK), 1, pull), new, make, rounds=2), new)
    with raises("value", "warmup", "0", "1"):
        join(result, new, warmup=-1)
    other = replace(new, pools={"train": replace(new.pools["train"], targets=new.pools["train"].targets + 2)})
    with raises("range", "targets", "4", "0", "2"):
        join(result, other)
    huge = new.pools["train"].inputs.clone()
    huge[new.splits["train"].of(1)] *= 1e30
    with raises("diverged", "node 'emil'", kind=NonFiniteLossError):
        join(result, replace(new, pools={"train": replace(new.pools["train"], inputs=huge)}))


def test_what_was_saved_cannot_be_joined_and_a_checkpoint_can(tmp_path):
    x, y = torch.randn(3, 20, 2), torch.arange(20) % 2
    old = Tasks.from_samples([(one, y) for one in x[:2]], names=["a", "b"])
    new = Tasks.from_samples([(x[2], y)], names=["c"])
    again = lambda: run(fedavg(), old, lambda: torch.nn.Linear(2, 2), rounds=2, checkpoint=tmp_path / "run")  # noqa: E731
    first = again()
    with raises("value", "result"):
        join(load(first.save(tmp_path / "saved"), model=first.model), new)
    second = again()
    assert second.history.rounds == first.history.rounds
    assert torch.equal(join(second, new).stacks.tensors[0], join(first, new).stacks.tensors[0])


REFUSED = {"cga", "cobo", "fc", "fedproto", "local"}


def run_and_newcomers(method, **settings):
    scene = Scene.small(torch.float32, embeds=method.embeds)
    old, new = scene.tasks.select(range(4)), replace(scene.tasks.select([4, 5]), names=("dora", "emil"))
    return run(method, old, scene.modules, rounds=2, seed=2, **settings), new


@pytest.mark.filterwarnings("ignore:.*its learned weights")
@pytest.mark.parametrize("name", methods.__all__)
def test_who_can_join_which_method(name):
    result, new = run_and_newcomers(early(name))
    before = result.data.clone()
    if name in REFUSED:
        with raises("unsupported", "result", f"cannot join {name}: "):
            join(result, new)
        return
    told = join(result, new)
    assert differences(result.data, before) == []  # nobody else is trained
    sender, receiver = told.edge_index
    assert bool(((sender < 4) | (sender == receiver + 4)).all())
    assert told.stacks.num_nodes == told.alone.num_nodes == 2
    assert bool(torch.isfinite(told.stacks.tensors[0]).all())
    assert told.scores(split="val").names == told.scores(split="val", alone=True).names == ("dora", "emil")


@pytest.mark.parametrize("weights", ["counts", "uniform"])
def test_a_server_gives_its_average(weights):
    result, new = run_and_newcomers(fedavg(**QUICK, weights=weights))
    result = replace(result, data=result.data.clone())
    result.data.x = result.data.x.map(lambda x: x + torch.arange(4.0)[:, None])  # else all are the average already
    counts = {"counts": [6.0, 10.0, 7.0, 9.0], "uniform": [1.0] * 4}[weights]
    assert weights == "uniform" or result.tasks.sizes("train").tolist() == counts
    told = join(result, new, allowed=[("node 0", "dora"), (2, "dora"), (3, "emil")], finetune=0)
    share = counts[0] / (counts[0] + counts[2])
    x = result.data.x.tensors[0]
    assert told.stacks.tensors[0][0].tolist() == pytest.approx((share * x[0] + (1 - share) * x[2]).tolist(), abs=1e-6)
    assert told.stacks.tensors[0][1].tolist() == pytest.approx(x[3].tolist(), abs=1e-6)
    assert [edge for edge in told.graph().named_edges() if edge[2] > 0] == [
        ("node 0", "dora", pytest.approx(share)),
        ("node 2", "dora", pytest.approx(1 - share)),
        ("node 3", "emil", 1.0),
    ]


def test_newcomers_play_rounds_with_nodes_at_rest():
    """D-PSGD after whole passes: the mean of the node's own model and four others, w = 1 / (1 + 4), as they are."""
    result, new = run_and_newcomers(dpsgd(**QUICK))
    told = join(result, new, warmup=0, finetune=1)
    old = result.data.x.tensors[0]
    alone = run(local(**QUICK), new, result.modules[0], rounds=1, seed=2)
    for k in range(2):
        expected = 0.2 * (old.sum(0) + alone.data.x.tensors[0][k])
        assert told.stacks.tensors[0][k].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
        assert torch.equal(told.alone.tensors[0][k], alone.data.x.tensors[0][k])
    assert told.edge_weight.tolist() == pytest.approx([0.2] * 10)


def test_newcomers_hear_only_whom_they_may_and_nobody_isolated():
    result, new = run_and_newcomers(random_peers(**QUICK, samples=3))
    result.data.isolated[3] = True
    told = join(result, new, allowed=[("node 1", "dora"), ("node 3", "dora"), ("node 2", "emil")])
    heard = {(j, i) for j, i, _ in told.graph().named_edges() if j != i}
    assert heard == {("node 1", "dora"), ("node 2", "emil")}
    with raises("unknown", "node", "'nod 1'", "'node 1'", kind=KeyError):
        join(result, new, allowed=[("nod 1", "dora")])


def test_a_newcomer_that_has_an_old_nodes_name_is_told_from_it():
    result, new = run_and_newcomers(dpsgd(**QUICK))
    told = join(result, replace(new, names=("node 0", "emil")), allowed=[(0, 0), (1, 0)], warmup=0, finetune=1)
    third = pytest.approx(1 / 3)
    assert told.names == ("node 0", "emil")
    assert sorted(told.graph().named_edges()) == [
        ("emil", "emil", 1.0),
        ("new node 0", "new node 0", third),
        ("node 0", "new node 0", third),
        ("node 1", "new node 0", third),
    ]
    assert told.graph().num_nodes == told.graph().to_networkx().number_of_nodes() == 6
    assert names_among(["a", "b", "new a"], ["a", "new new a", "c"]) == ["new new new a", "b", "new a"]


@pytest.mark.parametrize("method", [fedavg, meta_l2c])
def test_newcomers_take_their_models_away(method, tmp_path):
    result, new = run_and_newcomers(method(**QUICK))
    told = join(result, new)
    models = load(told.save(tmp_path), model=told.model)
    assert models.names == ("dora", "emil")
    assert models.graph().named_edges() == told.graph().named_edges()
    assert models.about["method"] == briefly(result.method)
    assert models.about["values"] == {}
    inputs = new.pools["train"].inputs[:3]
    for name in models.names:
        assert torch.equal(models.outputs(name, inputs), told.model(name)(inputs).detach())
    with raises("unknown", "site", "'node 0'", kind=KeyError):
        models.model("node 0")


def test_running_statistics_are_averaged_where_the_method_does():
    class Normed(torch.nn.Sequential):
        pass

    net = Normed(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3))
    tasks = Scene.small(torch.float32).tasks
    old, new = tasks.select(range(4)), replace(tasks.select([4]), names=("dora",))
    result = run(fedavg(epochs=1, lr=0.1, batch_size=10), old, net, rounds=2)
    told = join(result, new, finetune=0)
    assert float(result.model(0)[1].running_mean.abs().max()) > 0.01
    assert torch.allclose(told.model("dora")[1].running_mean, result.model(0)[1].running_mean)


def test_newcomers_do_better_than_alone_on_digits():
    """Ten of a hundred nodes arrive after training; compared with as many rounds of local training."""
    data = load_dataset("digits")
    tasks = shard_tasks(data, shards=20, classes_per_node=2, seed=0)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0))
    old, new = tasks.select(order[10:]), tasks.select(order[:10])
    module = lambda: build_model("mlp", data.input_shape, data.num_classes, hidden=(64,))  # noqa: E731
    result = run(meta_l2c(lr=0.05, mixer_lr=0.03), old, module, rounds=30, evaluate_every=30)
    told = join(result, new, warmup=1, finetune=2)
    alone = run(local(lr=0.05), new, module, rounds=3, evaluate_every=3)
    right = []
    for k, split in enumerate(new.splits["test"].of(k) for k in range(10)):
        pool = new.pools["test"]
        right.append((told.model(k)(pool.inputs[split]).argmax(1) == pool.targets[split]).double().mean())
    assert float(torch.stack(right).mean()) > float(alone.history.last("test_metric").mean()) + 0.05


def test_it_prints_names_samples_and_scores():
    x = torch.tensor([[2.0], [-2.0], [1.0], [-1.0]])
    y = torch.tensor([1.0, 0.0, 1.0, 0.0])
    old = Tasks.from_samples({"north": (x, y), "south": (x, y)}, loss="bce")
    model = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(model.weight)
    torch.nn.init.zeros_(model.bias)
    trained = run(fedavg(lr=0), old, model, rounds=1)
    new = {"Basel": (x, y), "Bern": (x, y)}
    tested = Tasks.from_samples(new, test={"Basel": (x, y), "Bern": (x[:2], 1 - y[:2])}, loss="bce")
    assert repr(join(trained, tested)) == (
        "Joined(fedavg; Basel (4 test samples): accuracy 1, alone 1; Bern (2 test samples): accuracy 0, alone 0)"
    )
    untested = Tasks.from_samples(new, loss="bce")
    assert repr(join(trained, untested)) == ("Joined(fedavg; Basel (no test samples); Bern (no test samples))")
    half = {"Basel": (x, y), "Bern": (x[:0], y[:0])}
    assert repr(join(trained, Tasks.from_samples(new, test=half, loss="bce"))) == (
        "Joined(fedavg; Basel (4 test samples): accuracy 1, alone 1; Bern (no test samples))"
    )


def a_table(sites="ab", **columns):
    rows = 12 * len(sites)
    table = {"site": list(sites) * 12, "age": [20 + 7 * k % 50 for k in range(rows)], "sex": list("fm") * (rows // 2)}
    return {**table, "y": [("ill", "well")[k // 3 % 2] for k in range(rows)], **columns}


NEW_SITE = a_table("cd")


@pytest.fixture(scope="module")
def of_a_table():
    return run(fedavg(**QUICK), Tasks.from_frame(a_table()), MLP(3, (4,), 2), rounds=1)


@pytest.mark.parametrize(
    ("new", "settings", "difference"),
    [
        ({"y": ["sick", "healthy"] * 12}, {}, "classes"),
        ({"y": ["well", "ill", "unsure"] * 8}, {}, "classes"),
        ({"y": [0.5, 1.5] * 12}, {}, "classes"),
        (
            {"weight": [1, 2] * 12},
            {"columns": ["weight", "sex"]},
            "column 'age'",
        ),
        ({"sex": ["f", "x"] * 12}, {}, "column 'sex'"),
        ({"age": [20.0, None] * 12}, {}, "column 'age'"),
        ({"age": [10, 30] * 12}, {}, "moments of 'age'"),
        ({}, {"pooled": "per_site"}, "moments of 'age'"),
    ],
)
def test_newcomers_that_were_prepared_in_another_way_are_refused(new, settings, difference, of_a_table):
    table = {**NEW_SITE, **new}
    with raises("mismatch", "newcomers", difference, "Tasks.from_frame(new, preparation=tasks.preparation)"):
        join(of_a_table, Tasks.from_frame(table, val_fraction=0, test_fraction=0, **settings))


def test_newcomers_that_were_prepared_in_the_same_way(of_a_table):
    result, tasks = of_a_table, of_a_table.tasks
    joined = join(result, Tasks.from_frame(NEW_SITE, preparation=tasks.preparation))
    assert joined.names == ("c", "d")
    prepared = tasks.preparation.apply(NEW_SITE), tasks.preparation.targets(NEW_SITE), NEW_SITE["site"]
    assert join(result, Tasks.from_arrays(*prepared)).names == ("c", "d")


@pytest.mark.filterwarnings("ignore:.*its learned weights")
@pytest.mark.parametrize(
    ("method", "old"), [(meta_l2c, "123"), (l2c, "ab"), (fedavg, "123"), (methods.dac, "ab"), (methods.ditto, "123")]
)
def test_names_may_be_numbers(method, old):
    """Positions and names never mix: sites 4 and 5 hear whom "north" and "south" hear."""
    tasks = Tasks.from_frame(a_table(old))
    result = run(method(**QUICK), tasks, MLP(3, (4,), 2), rounds=2)
    told = []
    for new in ([4, 5], ["north", "south"]):
        table = a_table("cd", site=new * 12, part=["train"] * 16 + ["val"] * 8)
        newcomers = Tasks.from_frame(table, preparation=tasks.preparation, split="part")
        one = replace(newcomers, node_id=torch.tensor([104, 105]))  # what is random follows from it
        told.append(join(result, one))
        assert told[-1].names == tuple(map(str, new))
    assert torch.equal(told[0].edge_index, told[1].edge_index)
    assert torch.equal(told[0].stacks.tensors[0], told[1].stacks.tensors[0])
    allowed = [(int(old[0]) if old.isdecimal() else old[0], 4)]
    heard = (
        join(result, Tasks.from_frame(a_table("45"), preparation=tasks.preparation), allowed=allowed)
        .graph()
        .named_edges()
    )
    assert {(j, i) for j, i, _ in heard if j != i} <= {(old[0], "4")}


def test_a_table_of_an_old_site_is_told():
    tasks = Tasks.from_frame(a_table())
    result = run(fedavg(**QUICK), tasks, MLP(3, (4,), 2), rounds=1)
    with warns("duplicate", "newcomers", "'b'"):
        joined = join(result, Tasks.from_frame(a_table("bc"), preparation=tasks.preparation))
    assert joined.graph().name == ["a", "b", "new b", "c"]


def test_newcomers_with_other_inputs_are_at_fault():
    tasks = Tasks.from_frame(a_table())
    result = run(fedavg(**QUICK), tasks, MLP(3, (4,), 2), rounds=1)
    wide = Tasks.from_arrays(torch.zeros(12, 5), [0, 1] * 6, ["c"] * 12)
    with raises("contract", "model", "(5,)"):
        join(result, wide)


def test_newcomers_have_means_of_their_own_where_sites_have():
    tasks = Tasks.from_frame(a_table(), pooled="per_site")
    result = run(fedavg(**QUICK), tasks, MLP(3, (4,), 2), rounds=1)
    how = {"preparation": tasks.preparation, "refit": True, "pooled": "per_site"}
    older = {**NEW_SITE, "age": [60 + k for k in range(24)]}
    assert join(result, Tasks.from_frame(older, **how)).names == ("c", "d")
    with raises("mismatch", "newcomers"):
        join(result, Tasks.from_frame({**older, "y": ["sick", "healthy"] * 12}))
