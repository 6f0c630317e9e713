"""On a device the control plane stays on the CPU, and a round does not wait for the device in order to decide."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab import join, load, methods, run
from graphcollab.control.state import LOOP
from graphcollab.engine.views import AddNoise
from graphcollab.nn.mixer import Mixer
from graphcollab.relation import Relation
from graphcollab.stack import Stacks
from graphcollab.testing import Scene
from graphcollab.train import HealthCheck, ProbeSimilarity, WatchMerging
from graphcollab.weigh import CosineWeights
from tests.golden.cases import SIZES
from tests.methods.quick import quick
from tests.pretend import DEVICE, Accelerator
from tests.testing.test_planes import AMPLIFIED, KINDS

CONTROL = {"per_node", "per_edge", "relation", "scalar"}
ALWAYS = {"fedavg", "dpsgd", "cga", "meta_l2c", "fomo", "ifca", "ditto", "dac", "fedproto"}

# How often a round waits for the device: once for losses and finite models, where nodes train, and
WAITS = {
    "cga": 5,  # for own gradients, new models, and in every chunk for answers that are finite and what to combine
    "cobo": 2,  # for inner products
    "dpsgd": 1,
    "dac": 4,  # for losses of met models, and for distances
    "directed": 5,  # for every trial and chunk twice, as nodes train there
    "ditto": 2,  # as two models are trained
    "fc": 5,  # as cga
    "fedavg": 1,
    "fedamp": 3,  # for distances, and those that are computed anew
    "fedproto": 2,  # for how many classes nodes have
    "fomo": 6,  # for two kinds of losses, distances, and lengths
    "heurfedamp": 4,  # for cosines: lengths too
    "ifca": 3,  # for the losses of every centre
    "l2c": 3,  # for validation losses, and the gradient of every edge
    "local": 1,
    "meta_l2c": 7,  # and for products of codes, twice, and as two models are trained and validated
    "panm": 4,
    "pens": 2,  # for losses of met models
    "pfedgraph": 4,
}
MOST = max(WAITS.values())  # of methods that are not listed
GROWS = {"cga", "fc", "directed", "dpfl"}  # with chunks; with the candidates that are tried one by one


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
    if isinstance(value, Stacks | Mixer):
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
        for _ in range(3):
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
        for _ in range(3):
            device.waits.clear()
            data = method.play(data, env)
            counts.append(sum(device.waits.values()))
    return counts


@pytest.mark.parametrize("name", [case(name) for name in methods.__all__ if name not in GROWS])
def test_waits_do_not_grow(name):
    """With nodes, edges, local steps and chunks."""
    method, larger = quick(name, augment=AddNoise(0.1)), quick(name, augment=AddNoise(0.1), epochs=3, batch_size=3)
    few = waits_of(method, Scene.small(sizes=SIZES, embeds=method.embeds))
    assert few == [WAITS.get(name, few[0])] * 3
    assert few[0] <= MOST
    assert waits_of(larger, Scene.small(sizes=SIZES * 2, embeds=method.embeds).replace(chunk=3)) == few


@pytest.mark.parametrize("name", sorted(GROWS - {"dpfl"}))
def test_waits(name):
    assert waits_of(quick(name), Scene.small(sizes=SIZES)) == [WAITS[name]] * 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["meta_l2c", "ditto"])
def test_runs_are_resumed_on_a_device(name, tmp_path):
    method, scene = KINDS["parts"](name)
    settings = {
        "graph": scene.edge_index,
        "callbacks": [WatchMerging(), ProbeSimilarity(CosineWeights()), HealthCheck()],
    }
    one = run(method, scene.tasks, scene.modules, rounds=3, **settings)
    with Accelerator():
        settings |= {"device": DEVICE, "checkpoint": tmp_path}
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
        result = run(quick(name), scene.tasks, scene.modules, rounds=2, device=DEVICE)
        assert result.stacks.device.type == DEVICE.type
        result.save(tmp_path / "models")
        expected = [result.model(k).to("cpu") for k in range(2)]
        if name == "meta_l2c":
            join(result, scene.tasks.select([0, 1])).save(tmp_path / "joined")
    models = load(tmp_path / "models")
    inputs = scene.tasks.pools["train"].inputs[:3]
    for k, module in enumerate(expected):
        torch.testing.assert_close(models.outputs(k, inputs), module(inputs).detach())
    if name == "meta_l2c":
        assert load(tmp_path / "joined").outputs(1, inputs).shape == models.outputs(1, inputs).shape
