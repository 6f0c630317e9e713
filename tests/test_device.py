"""On a device the control plane stays on the CPU, and a round does not wait for the device in order to decide."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab import methods
from graphcollab.control.state import LOOP
from graphcollab.nn.mixer import Mixer
from graphcollab.nn.mixers import Mixers
from graphcollab.relation import Relation
from graphcollab.stack import Stacks
from graphcollab.testing import Scene
from tests.pretend import DEVICE, Accelerator
from tests.testing.test_planes import KINDS

CONTROL = {"per_node", "per_edge", "relation", "scalar"}
ALWAYS = {"fedavg", "dpsgd", "cga", "meta_l2c", "fomo", "ifca", "ditto", "dac", "fedproto"}

# How often a round waits: once for the losses of the local steps, and
WAITS = {
    "cga": 6,  # twice for gradients, and in every chunk for what to combine
    "cobo": 3,
}


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
    if isinstance(value, Mixers):
        yield from tensors_of(value.mixers)
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
    [
        pytest.param(name, kind, marks=() if kind == "plain" and name in ALWAYS else pytest.mark.slow)
        for kind in KINDS
        for name in methods.__all__
    ],
)
def test_a_device_finds_what_the_cpu_finds(name, kind):
    method, scene = KINDS[kind](name)
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
                torch.testing.assert_close(a, b.cpu(), rtol=1e-9, atol=1e-9)
        for field in ("edge_weight", "train_loss"):
            torch.testing.assert_close(data[field], far[field], rtol=1e-9, atol=1e-9, equal_nan=True)
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
