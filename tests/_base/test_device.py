"""On a device the control plane stays on the CPU, and a round does not wait for the device in order to decide."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from examples.benchmark._watch import ProbeSimilarity, WatchMerging
from graphcollab import Method, Tasks, join, load, methods, run
from graphcollab._base.device import read
from graphcollab.analysis.metrics import as_metric
from graphcollab.analysis.metrics.bootstrap import bootstrap_nodes
from graphcollab.comm import Relation
from graphcollab.components import (
    ClippedMean,
    CosineWeights,
    CrossGradients,
    Isolate,
    KeepWeights,
    NoExchange,
    ProjectedGradient,
)
from graphcollab.components.state import LOOP
from graphcollab.engine import SGD, AddNoise, Stacks
from graphcollab.engine.backend import Backend
from graphcollab.nn import MixingEncoder
from graphcollab.testing import Scene
from graphcollab.train import Compute
from graphcollab.transforms import WithSelfLoops
from tests.golden.cases import SIZES
from tests.methods.quick import quick
from tests.pretend import DEVICE, Accelerator
from tests.raising import warns
from tests.testing.test_planes import AMPLIFIED, KINDS

CONTROL = {"per_node", "per_edge", "relation", "scalar"}
ALWAYS = {"fedavg", "dpsgd", "cga", "meta_l2c", "fomo", "ifca", "ditto", "dac", "fedproto"}

# How often a round waits for the device: once for losses and finite models, where nodes train, and
WAITS = {
    "cga": 3,  # for own gradients, new models, and all answers: whether they are finite, and what they weigh
    "cobo": 2,  # for inner products
    "dpsgd": 1,
    "dac": 4,  # for losses of met models, and for distances
    "directed": 2,  # for all trials
    "ditto": 2,  # as two models are trained
    "dpfl": 5,  # for the sets that were found, and three times to see whether all are full
    "fc": 3,  # as cga
    "fedavg": 1,
    "fedamp": 3,  # for distances, and those that are computed anew
    "fedproto": 2,  # for how many classes nodes have
    "fomo": 6,  # for two kinds of losses, distances, and lengths
    "heurfedamp": 4,  # for cosines: lengths too
    "ifca": 3,  # for the losses of every center
    "l2c": 3,  # for validation losses, and the gradient of every edge
    "local": 1,
    "meta_l2c": 7,  # and for products of codes, twice, and as two models are trained and validated
    "panm": 4,
    "pens": 2,  # for losses of met models
    "pfedgraph": 4,
}
MOST = max(WAITS.values())  # of methods that are not listed


def case(name: str, *kind: str):
    return pytest.param(name, *kind, marks=() if name in ALWAYS and kind in ((), ("plain",)) else pytest.mark.slow)


def there(scene: Scene) -> Scene:
    """The scene with samples and models on the device."""
    return scene.replace(
        tasks=scene.tasks.to(DEVICE), modules=[copy.deepcopy(module).to(DEVICE) for module in scene.modules]
    )


def tensors_of(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    for some in value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ():
        yield from tensors_of(some)
    if isinstance(value, Stacks | MixingEncoder):
        yield from tensors_of(value.tensors)
    if isinstance(value, Relation):
        yield from (value.edge_index, value.values)


def require_places(data: Data, method) -> None:
    fields = [*LOOP, *method.fields]
    for name in [*data.keys()]:
        kind = next((f for f in fields if f.name == name), None) or next(f for f in fields if f.covers(name))
        wanted = "cpu" if kind.kind in CONTROL else DEVICE.type
        found = {tensor.device.type for tensor in tensors_of(data[name])}
        assert found <= {wanted}, f"{name!r} is declared {kind.kind!r} and lies on {found}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "kind"),
    [case(name, kind) for kind in KINDS for name in methods.__all__],
)
def test_a_device_finds_what_the_cpu_finds(name, kind):
    method, scene = KINDS[kind](name)
    close = AMPLIFIED if any(isinstance(m, nn.BatchNorm1d) for one in scene.modules for m in one.modules()) else 1e-9
    data, env = scene.begin(method)
    with Accelerator():
        far, far_env = there(scene).begin(method)
        require_places(far, method)
        for _ in range(2):
            data, far = method.play(data, env), method.play(far, far_env)
            require_places(far, method)
        assert torch.equal(data.edge_index, far.edge_index)
        for one, other in ((data.x, far.x), (method.models(data, env), method.models(far, far_env))):
            for a, b in zip(one.tensors, other.tensors, strict=True):
                torch.testing.assert_close(a, b.cpu(), rtol=close, atol=close)
        for field in ("edge_weight", "train_loss"):
            torch.testing.assert_close(data[field], far[field], rtol=close, atol=close, equal_nan=True)
        for field in ("bytes_sent", "messages_sent", "bad_step", "trains", "serves", "isolated"):
            assert torch.equal(data[field], far[field]), field


def waits_of(method, scene: Scene) -> list[int]:
    with Accelerator() as device:
        data, env = there(scene).begin(method)
        counts = []
        for _ in range(2):
            device.waits.clear()
            data = method.play(data, env)
            counts.append(sum(device.waits.values()))
    return counts


@pytest.mark.parametrize("name", [case(name) for name in methods.__all__])
def test_waits_do_not_grow(name):
    """With nodes, edges, local steps and chunks; with candidates."""
    often = {"augment": AddNoise(0.1), "every": 1}
    method, larger = quick(name, **often), quick(name, **often, batch_size=3)
    few = waits_of(method, Scene.small(sizes=SIZES, embeds=method.embeds))
    assert few == [WAITS.get(name, few[0])] * 2
    assert few[0] <= MOST
    assert waits_of(larger, Scene.small(sizes=SIZES + SIZES[:2], embeds=method.embeds).replace(chunk=3)) == few


def exponential(targets, models):
    """Nodes at points x with the loss exp(x y): data of a large y are bad at the models of others."""
    samples = [(torch.ones(1, 1), torch.tensor([[target]])) for target in targets]
    tasks = Tasks.from_samples(samples, loss=lambda x, y: (x * y).exp().mean(), metric="mse", val_fraction=0)
    return Scene(tasks, [nn.Linear(1, 1, bias=False)]), torch.tensor(models)[:, None]


@pytest.mark.parametrize("combine", [ProjectedGradient(), ProjectedGradient(per_layer=True), ClippedMean()], ids=repr)
@pytest.mark.parametrize(("many", "chunk"), [(4, None), (5, 2)])
def test_answers_that_are_not_finite_take_no_more_waits(combine, many, chunk):
    """They are left out, as without a device; nobody is blamed."""
    local = CrossGradients(combine, optimizer=SGD(lr=0.1))
    method = Method("cross", local, KeepWeights(), NoExchange(shown="all"), prepare=WithSelfLoops())
    scene, models = exponential([-1.0, 1e3, *[-1.0] * (many - 2)], [1.0, 0.0, *[1.0] * (many - 2)])
    scene = scene.replace(chunk=chunk)
    data, env = scene.begin(method)
    data.x = data.x_start = data.x.like([models])
    with warns("diverged"):
        near = local(data, env._replace(isolate=Isolate()))
    with Accelerator() as device, warns("diverged"):
        data, env = there(scene).begin(method)
        data.x = data.x_start = data.x.like([models.to(DEVICE)])
        device.waits.clear()
        far = local(data, env._replace(isolate=Isolate()))
        assert sum(device.waits.values()) == WAITS["cga"]
    assert far.bad_step.tolist() == near.bad_step.tolist() == [-1] * many
    assert near.x.part("all").isfinite().all()
    sums = [torch.zeros(many).index_add_(0, one.edge_index[1], one.edge_weight) for one in (far, near)]
    torch.testing.assert_close(*sums)  # which of several gradients that are alike is taken is not said
    torch.testing.assert_close(far.x.tensors[0].cpu(), near.x.tensors[0])


def test_what_is_read_together_is_what_it_was():
    """Of whatever type and shape, beyond what single precision holds, not finite, or nothing at all."""
    values = [
        torch.tensor([[True, False]]),
        torch.tensor([-1, 2**40 + 1]),
        torch.tensor([0.1, float("nan"), float("inf")]),
        torch.tensor(1 / 3, dtype=torch.float64),
        torch.empty(0, 3),
    ]
    with Accelerator() as device:
        found = read(*(value.to(DEVICE) for value in values))
        assert [*device.waits.values()] == [len(values), 1]  # there, and back
    for one, other in zip(values, found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    assert read() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["meta_l2c", "ditto"])
def test_runs_are_resumed_on_a_device(name, tmp_path):
    method, scene = KINDS["parts"](name)
    settings = {
        "graph": scene.edge_index,
        "callbacks": [WatchMerging(), ProbeSimilarity(CosineWeights())],
    }
    one = run(method, scene.tasks, scene.modules, rounds=3, **settings)
    with Accelerator():
        settings |= {"compute": DEVICE, "checkpoint": tmp_path}
        run(method, scene.tasks, scene.modules, rounds=2, **settings)
        other = run(method, scene.tasks, scene.modules, rounds=3, **settings)
        require_places(other.data, method)
        torch.testing.assert_close(one.data.x.tensors[0], other.data.x.tensors[0].cpu(), rtol=1e-9, atol=1e-9)
        for name, values in one.history.values.items():
            torch.testing.assert_close(values, other.history.values[name], rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ditto", "meta_l2c"])
def test_models_are_saved_from_a_device_and_loaded_without_one(name, tmp_path):
    scene = Scene.small()
    with Accelerator():
        result = run(quick(name), scene.tasks, scene.modules, rounds=2, compute=DEVICE)
        assert result.stacks.device.type == DEVICE.type
        result.save(tmp_path / "models")
        expected = [result.model(k).to("cpu") for k in range(2)]
        if name == "meta_l2c":
            join(result, scene.tasks.select([0, 1])).save(tmp_path / "joined")
    models = load(tmp_path / "models", model=lambda name: copy.deepcopy(scene.modules[0]))
    inputs = scene.tasks.pools["train"].inputs[:3]
    for k, module in enumerate(expected):
        torch.testing.assert_close(models.outputs(k, inputs), module(inputs).detach())
    if name == "meta_l2c":
        joined = load(tmp_path / "joined", model=lambda name: copy.deepcopy(scene.modules[0]))
        assert joined.outputs(1, inputs).shape == models.outputs(1, inputs).shape


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_half_precision_is_asked_of_the_device(backend):
    """Of a GPU as of a CPU: bfloat16, in training and in evaluation; trials before a run are in full precision."""
    scene, asked, whole = Scene.small(), [], Backend._autocast

    def autocast(kind, dtype, enabled):
        asked.append((kind, dtype, enabled))
        return nullcontext()

    compute = Compute(DEVICE, backend, autocast=True)
    with Accelerator(), mock.patch.object(Backend, "_autocast", whole), mock.patch("torch.autocast", autocast):
        run(quick("fedavg"), scene.tasks, scene.modules, rounds=1, compute=compute)
        half = {one for one in asked if one[2]}
        assert half == {(DEVICE.type, torch.bfloat16, True)}
        asked.clear()
        run(quick("fedavg"), scene.tasks, scene.modules, rounds=1, compute=Compute(DEVICE, backend))
        assert not any(enabled for _, _, enabled in asked)


@pytest.mark.filterwarnings("ignore")
def test_intervals_of_models_on_a_device():
    scene, metrics = Scene.small(embeds=True), (as_metric("accuracy"),)
    settings = {"rounds": 1, "architecture": scene.architecture}
    one = run(quick("fedproto"), scene.tasks, scene.modules, **settings)
    with Accelerator():
        other = run(quick("fedproto"), scene.tasks, scene.modules, compute=DEVICE, **settings)
        intervals = bootstrap_nodes(other.env.engine, other.stacks, "val", metrics, 5)
    torch.testing.assert_close(
        intervals, bootstrap_nodes(one.env.engine, one.stacks, "val", metrics, 5), equal_nan=True
    )
