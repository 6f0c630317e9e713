"""Blueprints: modules as JSON, built again without their constructors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from graphcollab.models import MODELS, build_model, torchvision_backbone
from graphcollab.train.blueprint import NotDrawnError, build, draw

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))  # files of tests do not form a package
from module_families import FAMILIES

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
INPUTS = {
    "flat": torch.linspace(-1, 1, 8).view(2, 4),
    "image": torch.linspace(-1, 1, 72).view(2, 1, 6, 6),
    "sequence": torch.linspace(-1, 1, 30).view(2, 5, 3),
    "tokens": torch.tensor([[0, 1, 2, 3], [5, 4, 1, 0]]),
}
NOT_DRAWN = ("hooks", "script itself", "inside a function", "made while a program runs", "keeps a ")


class Net(nn.Module):
    """A user's module, whose constructor takes something that it does not keep."""

    made = 0

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        type(self).made += 1
        self.first, self.second = layers
        self.scale, self.sizes, self.limits = 0.5, (2, 3), {"low": -float("inf"), 1: torch.float64}
        self.activation, self.norm = torch.tanh, nn.LayerNorm
        self.register_buffer("table", torch.tensor([2, 3]), persistent=False)
        self.register_buffer("nothing", None)

    def forward(self, inputs):
        return self.scale * self.second(self.activation(self.first(inputs))) + self.table.sum()


def again(module):
    """A module built from its blueprint, which has been through JSON, and copies of its tensors."""
    blueprint, tensors = draw(module)
    blueprint = json.loads(json.dumps(blueprint, allow_nan=False))
    return build(blueprint, {name: tensor.detach().clone() for name, tensor in tensors.items()})


def test_a_module_of_ones_own():
    net = Net([nn.Linear(4, 2), nn.Linear(2, 3)])
    net.first.weight.requires_grad_(False)
    calls, built = Net.made, again(net)
    assert Net.made == calls  # no constructor was called
    inputs = INPUTS["flat"]
    assert torch.equal(built(inputs), net(inputs))
    assert built.limits == {"low": -float("inf"), 1: torch.float64}
    assert built.sizes == (2, 3)
    assert built.norm is nn.LayerNorm
    assert built.nothing is None
    assert [*built.state_dict()] == [*net.state_dict()]  # the table is not persistent there either
    assert [p.requires_grad for p in built.parameters()] == [False, True, True, True]
    assert not {p.data_ptr() for p in built.parameters()} & {p.data_ptr() for p in net.parameters()}


def test_what_is_shared_stays_shared():
    layer, tied = nn.Linear(3, 3), nn.Linear(3, 3)
    tied.bias = layer.bias
    built = again(nn.Sequential(layer, nn.ReLU(), layer, tied))
    assert built[0] is built[2]
    assert built[3].bias is built[0].bias
    assert built[3].weight is not built[0].weight


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_by_name(name):
    model = build_model(name, (3, 32, 32), 5).eval()
    inputs = torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
    assert torch.equal(again(model).eval()(inputs), model(inputs))
    assert str(again(model)) == str(model)
    assert type(again(model)) is type(model)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=[*FAMILIES])
def test_families_are_equal_or_not_drawn(family):
    torch.manual_seed(0)
    module = family.make().eval()
    try:
        built = again(module).eval()
    except NotDrawnError:
        with pytest.raises(NotDrawnError, match="|".join(NOT_DRAWN)):
            draw(module)
        return
    try:
        expected = module(INPUTS[family.takes].clone())
    except Exception:
        pytest.skip("this one is refused by a run")
    assert torch.equal(built(INPUTS[family.takes].clone()), expected)


class Holder(nn.Linear):
    def __init__(self, held):
        super().__init__(2, 2)
        self.held = held


def local_class():
    class Inner(nn.Linear):
        pass

    return Inner(2, 2)


def hooked():
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda *args: None)
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (hooked, "layer '0', Linear, has hooks"),
        (local_class, "Inner is of a class that is defined inside a function"),
        (lambda: parametrizations.weight_norm(nn.Linear(2, 2)), "made while a program runs"),
        (lambda: Holder(lambda x: x), "Holder keeps a function as its attribute 'held'"),
        (lambda: Holder([torch.load]), "Holder keeps a function as its attribute 'held'"),
        (lambda: Holder(open), "keeps a builtin_function_or_method as its attribute 'held'"),
        (lambda: Holder(Path()), "keeps a PosixPath as its attribute 'held'"),
        (lambda: Holder(torch.zeros(2)), "keeps a Tensor as its attribute 'held'"),
    ],
)
def test_not_drawn(make, says):
    with pytest.raises(NotDrawnError, match=says.replace("(", r"\(")):
        draw(make())


@pytest.mark.parametrize(
    ("blueprint", "error", "says"),
    [
        ({"class": "subprocess:Popen"}, ValueError, "no class of modules"),
        ({"class": "os:system"}, ImportError, "no class"),
        ({"class": "torch.nn:Nonsense"}, ImportError, "torch.nn has no class Nonsense"),
        ({"class": "no_such_package:Net"}, ImportError, "no_such_package"),
        ({"class": "torch.nn:Linear", "attributes": {"a": {"function": "torch.load"}}}, ValueError, "no operation"),
        ({"class": "torch.nn:Linear", "attributes": {"a": {"function": "os.system"}}}, KeyError, "os"),
        ({"class": "torch.nn:Linear", "parameters": {"weight": ["weight", True]}}, KeyError, "weight"),
    ],
)
def test_blueprints_that_are_made_up(blueprint, error, says):
    with pytest.raises(error, match=says):
        build(blueprint, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "alexnet", "shufflenet", "googlenet"])
def test_networks_of_torchvision(name):
    network = torchvision_backbone(name).eval()
    inputs = torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
    assert torch.equal(again(network).eval()(inputs), network(inputs))
