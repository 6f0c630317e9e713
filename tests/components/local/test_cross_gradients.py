from __future__ import annotations

import copy
import dataclasses
import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.transforms import BaseTransform, Compose

from graphcollab import Method, Tasks
from graphcollab.components import (
    ClippedMean,
    Combine,
    CrossGradients,
    Exchange,
    Fit,
    KeepWeights,
    NoExchange,
    ProjectedGradient,
    Uniform,
)
from graphcollab.data.samples import Pool, Split
from graphcollab.engine import SGD, Adam
from graphcollab.methods.method import NonFiniteLossError
from graphcollab.nn.functional.projections import bundle_sum
from graphcollab.testing import Scene
from graphcollab.transforms import WithSelfLoops
from graphcollab.transforms._edges import select_edges
from tests.raising import raises, warns

MEAN = ClippedMean(tau=math.inf, iterations=1)
PLAIN = SGD(lr=0.1)
NOT_FROM_TWO = torch.tensor([[1, 3, 0, 3, 0, 1, 0, 1, 3], [0, 0, 1, 1, 3, 3, 2, 2, 2]])


@dataclass(frozen=True)
class Listen(Combine):
    """Gives every neighbor's gradient a weight of its own, by rank, and notes what it was given."""

    seen: list

    def __call__(self, own, others, sizes, lost):
        self.seen.append((own, others, sizes))
        weight = torch.tensor([[1.0, *(0.5**j for j in range(1, others.shape[1] + 1))]]).double()
        return bundle_sum(weight.expand(len(own), -1), own, others), weight.expand(len(own), -1)


class Only(BaseTransform):
    """Keeps some edges, of which not all have one back, although that one would be allowed."""

    def __init__(self, edges):
        self.edges = edges

    def forward(self, data):
        kept = (data.edge_index.T[:, None] == self.edges.T).all(2).any(1)
        return select_edges(data, kept)


def method(combine=MEAN, batch_size=100, optimizer=PLAIN, part="all", exchange=None, edges=None, **settings):
    local = CrossGradients(combine, batch_size, optimizer, part, **settings)
    prepare = WithSelfLoops() if edges is None else Compose([Only(torch.as_tensor(edges)), WithSelfLoops()])
    return Method("cross", local, KeepWeights(), exchange or NoExchange(shown=part), prepare=prepare)


def gradient(scene, data, model, owner, part):
    """Return the gradient of one node's data at its model with another's part, by plain autograd."""
    kinds = scene.architecture or (0,) * data.num_nodes
    module = copy.deepcopy(scene.modules[kinds[owner]]).train()
    spec, row = data.x.row(owner)
    row = row.clone()
    row[spec.columns(part)] = data.x.part(part)[model]
    spec.load_into(module, row)
    split = scene.tasks.splits["train"]
    pool, mine = scene.tasks.pools[split.pool], split.of(owner)
    named = dict(module.named_parameters())
    names = spec.names[: spec.num_named_parameters]
    loss = nn.functional.cross_entropy(module(pool.inputs[mine]), pool.targets[mine])
    grads = torch.autograd.grad(loss, [named[name] for name in names])
    return torch.cat([g.flatten() for g in grads])[spec.columns(part)]


@pytest.mark.parametrize("part", ["all", "head"])
@pytest.mark.parametrize("chunk", [2, 7, 100])
def test_gradients_are_those_of_plain_autograd(part, chunk):
    """Of every neighbor's data, at the node's own model; with a shared head, through the neighbor's backbone."""
    scene = Scene.small(shared_head=part == "head").replace(backend="vmap", chunk=chunk)
    edges = torch.tensor([[1, 2, 0, 3, 4, 0, 1, 5], [0, 0, 2, 2, 2, 3, 5, 4]])  # 2, 3, 1, 1 and 1 neighbors, none
    combine = Listen([])
    start = method(combine, part=part, edges=edges)
    data, _ = scene.play(start)  # models have moved apart
    combine.seen.clear()
    env = scene.begin(start)[1]
    after = start.play(data, env)
    neighbors = {0: [1, 2], 2: [0, 3, 4], 3: [0], 5: [1], 4: [5]}
    found = {
        tuple(own.tolist()): others for many, every, _ in combine.seen for own, others in zip(many, every, strict=True)
    }
    assert len(found) == 5
    for node, theirs in neighbors.items():
        own = gradient(scene, data, node, node, part)
        key = min(found, key=lambda g: float((torch.tensor(g).double() - own).abs().max()))
        torch.testing.assert_close(torch.tensor(key).double(), own)
        expected = torch.stack([gradient(scene, data, node, owner, part) for owner in theirs])
        torch.testing.assert_close(found[key], expected)
        weight = 0.5 ** torch.arange(1, len(theirs) + 1).double()
        direction = own + (weight[:, None] * expected).sum(0)
        moved = data.x.part(part)[node] - after.x.part(part)[node]
        torch.testing.assert_close(moved, 0.1 * direction, atol=1e-12, rtol=1e-7)
    assert all(sum(sizes) == own.shape[1] for own, _, sizes in combine.seen)
    assert max(others.shape[0] * others.shape[1] for _, others, _ in combine.seen) <= max(chunk, 3)


def test_the_rest_of_a_model_steps_by_itself():
    scene = Scene.small()
    one, _ = scene.play(method(part="head"), rounds=1)
    alone, _ = scene.play(Method("alone", Fit(steps=1, batch_size=100, optimizer=PLAIN)), rounds=1)
    backbone, head = (one.x.specs[0].columns(part) for part in ("backbone", "head"))
    torch.testing.assert_close(one.x.tensors[0][:, backbone], alone.x.tensors[0][:, backbone])
    assert not torch.allclose(one.x.tensors[0][:, head], alone.x.tensors[0][:, head])


@pytest.mark.parametrize("optimizer", [SGD(lr=0.1, momentum=0.9, weight_decay=0.1), Adam(lr=0.1)], ids=["sgd", "adam"])
def test_without_neighbors_it_is_a_local_step(optimizer):
    """Bit for bit, over rounds, with running statistics, state and losses."""
    draw = torch.Generator().manual_seed(0)
    tasks = Tasks.from_samples(
        [(torch.randn(n, 4, generator=draw), torch.randint(3, (n,), generator=draw)) for n in (5, 9, 7)]
    )
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    scene = Scene(tasks, [net], torch.empty(2, 0, dtype=torch.int64))
    fit = Fit(steps=1, batch_size=4, optimizer=optimizer, keep_state=True)
    cross, _ = scene.play(method(batch_size=4, optimizer=optimizer), rounds=3)
    local, _ = scene.play(Method("local", fit), rounds=3)
    assert torch.equal(cross.x.tensors[0], local.x.tensors[0])
    for slot in optimizer.slots:
        assert torch.equal(cross.fit_state[slot].tensors[0], local.fit_state[slot].tensors[0])
    for name in ("train_loss", "bad_step", "fit_step", "bytes_sent"):
        assert torch.equal(cross[name], local[name])
    assert cross.edge_weight.tolist() == [1.0] * 3


class Scaled(nn.Module):
    """Outputs a number times one that is not learned."""

    def __init__(self, scale):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer("scale", torch.tensor([scale]))

    def forward(self, inputs):
        return inputs * self.weight * self.scale


def test_what_is_not_sent_is_the_owners():
    """Outputs w s, targets 0: at w = 1 the gradient of (w s)² is 2 s², with the s of whose data it is."""
    ones = torch.ones(1, 1)
    tasks = Tasks.from_samples([(ones, 0 * ones)] * 2, loss="mse", metric="mse")
    data, env = Scene(tasks, [Scaled(1.0)]).begin(method())
    data.x = data.x_start = data.x.like([torch.tensor([[1.0, 1.0], [1.0, 2.0]])])  # w and s
    after = method().play(data, env)
    assert after.x.tensors[0].tolist() == [pytest.approx([0.5, 1.0]), pytest.approx([0.5, 2.0])]  # (2 + 8) / 2


def test_owners_answer_with_the_batch_of_their_own_step():
    """All start from one model, so the mean of all gradients is the mean of what single local steps would change."""
    scene = Scene.small()
    one, _ = scene.play(method(batch_size=3), rounds=1)
    alone, _ = scene.play(Method("alone", Fit(steps=1, batch_size=3, optimizer=PLAIN)), rounds=1)
    mean = alone.x.tensors[0].mean(0)
    torch.testing.assert_close(one.x.tensors[0], mean.expand(6, -1))
    assert torch.equal(one.train_loss, alone.train_loss)


def test_coefficients_are_the_edge_weights(points):
    """At 0 the gradients are 1, 1.1 and 5. One step of the clipped mean with τ = ½ from each of them, by hand."""
    data, env = points([[[-1.0]], [[-1.1]], [[-5.0]]]).begin(method(ClippedMean(0.5, iterations=1)), [[0.0]] * 3)
    after = method(ClippedMean(0.5, iterations=1)).play(data, env)
    expected = {(0, 0): 2 / 3, (0, 1): 1 / 3, (1, 0): 1 / 3, (1, 1): 2 / 3, (2, 2): 1.0}
    found = {(i, j): w for (j, i), w in zip(after.edge_index.T.tolist(), after.edge_weight.tolist(), strict=True) if w}
    assert found == pytest.approx(expected)
    assert after.x.part("all").flatten().tolist() == pytest.approx([-0.31 / 3, -0.32 / 3, -0.5])
    assert after.bytes_sent.tolist() == [16.0] * 3  # a model to and a gradient from each of two others


def test_nodes_at_rest(points):
    """Node 0 is away, node 1 stopped but answers, node 2 is late, node 3 asks the only one there is to ask."""
    start = method(optimizer=SGD(lr=0.1, momentum=0.5))
    data, env = points([[[-1.0]], [[-2.0]], [[-4.0]], [[-8.0]]]).begin(start, [[0.0]] * 4)
    data = start.play(data, env)
    data.trains = torch.tensor([False, False, True, True])
    data.serves = torch.tensor([False, True, False, True])
    after = start.play(data, env)
    before, now = data.x.part("all").flatten(), after.x.part("all").flatten()
    assert before.tolist() == pytest.approx([-0.1 * 3.75] * 4)
    velocity = 0.5 * 3.75
    two = 4 - 0.375 + velocity
    three = (2 - 0.375 + 8 - 0.375) / 2 + velocity
    assert now.tolist() == pytest.approx([-0.375, -0.375, -0.375 - 0.1 * two, -0.375 - 0.1 * three])
    state = after.fit_state["momentum"].tensors[0].flatten()
    assert state.tolist() == pytest.approx([3.75, 3.75, two, three])
    assert after.fit_step.tolist() == [1, 1, 2, 2]
    assert (after.bytes_sent - data.bytes_sent).tolist() == [0.0, 4.0, 0.0, 4.0]
    weight = torch.zeros(4, 4).index_put((after.edge_index[1], after.edge_index[0]), after.edge_weight.float())
    assert weight[:2].tolist() == [[0.25] * 4] * 2, "as it was"
    assert weight[2:].tolist() == [[0.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.5]]


def test_models_that_are_mixed_too_are_sent_once(points):
    """0 and 1 hear each other; 2 hears 0, which does not hear it: its model travels to be tried only."""
    edges = [[1, 0, 0], [0, 1, 2]]
    mix = Exchange("update", "x_start")
    start = method(exchange=mix, mixed=True, edges=edges).replace(weigh=Uniform())
    data, env = points([[[-1.0]]] * 3).begin(start)
    assert start.play(data, env).bytes_sent.tolist() == [4.0 * (2 + 2), 4.0 * (1 + 1), 4.0]
    data.trains, data.serves = torch.tensor([True, False, True]), torch.tensor([True, True, True])
    # 1 does not mix 0's model now, so sending it for its gradient is charged here
    assert start.play(data, env).bytes_sent.tolist() == [4.0 * (1 + 2), 4.0 * (1 + 1), 4.0]


def test_loss_that_is_not_finite_stops_or_isolates(points):
    start = method()
    data, env = points([[[-1.0]], [[-2.0]], [[-4.0]]]).begin(start, [[0.0], [float("nan")], [0.0]])
    data.x_start = data.x
    assert start.local(data, env).bad_step.tolist() == [-1, 0, -1]
    with raises("diverged", "node 'node 1'", kind=NonFiniteLossError):
        start.play(data, env)
    after = start.play(data, env._replace(isolate=True))
    assert after.isolated.tolist() == [False, True, False]
    assert after.x.part("all").flatten().tolist()[::2] == pytest.approx([-0.25, -0.25])  # (1 + 4) / 2 each


def exponential(targets, models, edges=None):
    """Nodes at given points x, whose loss is exp(x y); by plain means of gradients, with a step size of 0.1."""
    pool = Pool(torch.ones(len(targets), 1).double(), torch.tensor(targets, dtype=torch.float64)[:, None])
    split = Split.from_lists("train", [torch.tensor([k]) for k in range(len(targets))])
    tasks = Tasks({"train": pool}, {"train": split}, loss=lambda x, y: (x * y).exp().mean(), metric="mse")
    start = method(edges=edges)
    data, env = Scene(tasks, [nn.Linear(1, 1, bias=False).double()]).begin(start)
    data.x = data.x_start = data.x.like([torch.tensor(models, dtype=torch.float64)[:, None]])
    return start, data, env


@pytest.mark.parametrize("target", [1e3, 1e200], ids=["at others", "everywhere"])
def test_answers_that_are_not_finite_stop_the_run_or_are_left_out(target):
    """Node 2 has a finite loss at its own model 0, and at those of the others none, or gradients that overflow."""
    start, data, env = exponential([-1.0, -1.0, target, -1.0], [1.0, 1.0, 0.0, 1.0])
    with raises("diverged", "node 'node 2'", "node 2", "node 0", "round 0", kind=NonFiniteLossError):
        start.play(data, env)
    with warns("diverged", "node 'node 2'", "node 2", "node 0") as seen:
        local = start.local(data, env._replace(isolate=True))
    assert len(seen) == 1
    assert local.bad_step.tolist() == [-1, -1, 0 if target > 1e100 else -1, -1]
    assert local.bytes_sent.tolist() == [24.0] * 4  # who cannot answer is asked before anybody knows
    # the others step along the mean of three gradients, -exp(-1) each
    step = 0.1 * math.exp(-1)
    assert local.x.part("all").flatten()[[0, 1, 3]].tolist() == pytest.approx([1 + step] * 3, abs=1e-12)
    sender, receiver = local.edge_index
    given = {(s, r): w for s, r, w in zip(sender.tolist(), receiver.tolist(), local.edge_weight.tolist(), strict=True)}
    assert [given[s, 0] for s in range(4)] == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])


def test_a_projection_leaves_out_answers_that_are_not_finite():
    start, data, env = exponential([-1.0, -1.0, 1e200, -1.0], [1.0, 1.0, 0.0, 1.0])
    less, other, other_env = exponential([-1.0, -1.0, 1.0, -1.0], [1.0, 1.0, 0.0, 1.0], NOT_FROM_TWO)
    projects = ProjectedGradient(margin=0.0)
    with warns("diverged", "node 'node 2'", "node 2", "node 0"):
        found = dataclasses.replace(start.local, combine=projects)(data, env._replace(isolate=True))
    expected = dataclasses.replace(less.local, combine=projects)(other, other_env)
    assert torch.equal(found.x.part("all")[[0, 1, 3]], expected.x.part("all")[[0, 1, 3]])


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor has."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


@pytest.mark.parametrize("combine", [ClippedMean(), ProjectedGradient(), ProjectedGradient(per_layer=True)], ids=repr)
@pytest.mark.parametrize(("nodes", "edges"), [(8, None), (24, "ring")])
def test_gradients_of_all_edges_never_exist(combine, nodes, edges):
    """The largest tensors are rows of all nodes, or one receiver's gradients; there are 7 or 2 of these at a time."""
    node = torch.arange(nodes)
    ring = torch.cat([torch.stack([node, (node + 1) % nodes]), torch.stack([(node + 1) % nodes, node])], 1)
    tasks = Tasks.from_samples([(torch.randn(2, 300), torch.randint(2, (2,))) for _ in range(nodes)], val_fraction=0)
    scene = Scene(tasks, [nn.Linear(300, 2)], ring if edges else None, chunk=4)
    start = method(combine)
    data, env = scene.begin(start)
    with Largest() as largest:
        start.play(data, env)
    assert largest.numbers <= nodes * 602


def test_a_receiver_is_not_split_and_many_share_a_chunk():
    edges = [[1, 2, 3, 4, 5, 0, 0, 0], [0, 0, 0, 0, 0, 1, 2, 3]]
    combine = Listen([])
    Scene.small().replace(chunk=2).play(method(combine, edges=edges), rounds=1)
    assert [tuple(others.shape[:2]) for _, others, _ in combine.seen] == [(2, 1), (1, 1), (1, 5)]


def test_refusals():
    with raises("value", "batch_size"):
        CrossGradients(MEAN, batch_size=0)
    with raises("value", "optimizer", "lbfgs"):
        CrossGradients(MEAN, optimizer="LBFGS")
    with raises("unknown", "part 'neck'", kind=KeyError):
        Scene.small().begin(method(part="neck"))
