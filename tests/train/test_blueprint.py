"""Blueprints: modules as JSON, built again without their constructors."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from graphcollab.models import MODELS, build_model, torchvision_backbone
from graphcollab.train.blueprint import NotDrawnError, build, draw
from graphcollab.train.trust import FUNCTIONS, foreign

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))  # files of tests do not form a package
from module_families import FAMILIES

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
INPUTS = {
    "flat": torch.linspace(-1, 1, 8).view(2, 4),
    "image": torch.linspace(-1, 1, 72).view(2, 1, 6, 6),
    "sequence": torch.linspace(-1, 1, 30).view(2, 5, 3),
    "tokens": torch.tensor([[0, 1, 2, 3], [5, 4, 1, 0]]),
}
NOT_DRAWN = ("hooks", "script itself", "inside a function", "made while a program runs", "keeps a ", "name of a method")


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
    """A module built from its blueprint, which has been through JSON, and copies of its tensors; trusted."""
    blueprint, tensors = draw(module)
    blueprint = json.loads(json.dumps(blueprint, allow_nan=False))
    mine = {path.partition(":")[0] for path in foreign(blueprint)}
    return build(blueprint, {name: tensor.detach().clone() for name, tensor in tensors.items()}, mine)


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


class Restored(nn.Linear):
    def __setstate__(self, state):
        super().__setstate__({**state, "called": True})


class Named(nn.Linear):
    """Has a method, a property, a value that is computed once, and a setting with a default."""

    activation = None

    def pool(self):
        return 1

    @property
    def width(self):
        return self.out_features

    @functools.cached_property
    def area(self):
        return self.in_features * self.out_features


def named(**attributes):
    module = Named(2, 2)
    vars(module).update(attributes)
    return module


def test_defaults_of_a_class_and_what_is_computed_once_may_be_kept():
    built = again(named(activation=torch.tanh, area=7))
    assert (built.activation, built.area) == (torch.tanh, 7)


def test_recurrent_layers_keep_track_of_their_weights():
    built = again(nn.LSTM(3, 2, num_layers=2, bidirectional=True))
    assert all(map(torch.equal, built._flat_weights, built.parameters()))
    assert [one() for one in built._flat_weight_refs] == built._flat_weights
    built.weight_ih_l0 = nn.Parameter(torch.zeros(8, 3))
    assert not built._flat_weights[0].any()


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
        (lambda: Holder(torch.from_file), "keeps a builtin_function_or_method as its attribute 'held'"),
        (lambda: Holder(functools.partial(nn.Linear, 2)), "keeps a partial as its attribute 'held'"),
        (lambda: Restored(2, 2), "Restored restores itself by code of its own, `__setstate__`"),
        (lambda: named(pool=torch.tanh), "keeps something under the name of a method or property, 'pool'"),
        (lambda: named(forward=torch.tanh), "the name of a method or property, 'forward'"),
        (lambda: named(width=2), "the name of a method or property, 'width'"),
        (lambda: Holder(Path()), "keeps a PosixPath as its attribute 'held'"),
        (lambda: Holder(torch.zeros(2)), "keeps a Tensor as its attribute 'held'"),
    ],
)
def test_not_drawn(make, says):
    with pytest.raises(NotDrawnError, match=says.replace("(", r"\(")):
        draw(make())


LINEAR = "torch.nn.modules.linear:Linear"
RELU = {"function": "torch.relu"}


def linear(**attributes):
    return {"class": LINEAR, "attributes": attributes}


@pytest.mark.parametrize(
    ("blueprint", "error", "says"),
    [
        ({"class": "subprocess:Popen"}, ValueError, "subprocess is not among the trusted modules"),
        ({"class": "torch_geometric.nn.sequential:Sequential"}, ValueError, "not among the trusted modules"),
        ({"class": "no_such_package:Net"}, ValueError, "no_such_package is not among the trusted"),
        ({"class": "graphcollab.__main__:Net"}, ValueError, "not among the trusted"),
        ({"class": "torch.nn:Linear"}, ValueError, "not among the trusted"),
        ({"class": "torch.nn.modules:Linear"}, ValueError, "not among the trusted"),
        ({"class": "torch.nn.modules_of_mine.linear:Linear"}, ValueError, "not among the trusted"),
        ({"class": ""}, ValueError, "not among the trusted"),
        ({"class": "torch.nn.modules.linear:Nonsense"}, ImportError, "linear has no class Nonsense"),
        ({"class": "torch.nn.modules.linear:init.uniform_"}, ImportError, "has no class"),
        ({"class": "torch.nn.modules.linear:Module"}, ValueError, "no class of modules that is defined there"),
        ({"class": "torch.nn.modules.module:_WrappedHook"}, ValueError, "no class of modules"),
        (linear(a={"class": "os:system"}), ValueError, "os is not among the trusted"),
        (linear(a={"function": "torch.load"}), ValueError, "torch.load is not among the functions"),
        (linear(a={"function": "torch.from_file"}), ValueError, "torch.from_file is not among the functions"),
        (linear(a={"function": "os.system"}), ValueError, "os.system is not among the functions"),
        (linear(a={"dtype": "_inductor"}), ValueError, "'_inductor' is no number type"),
        (linear(a={"object": 1}), ValueError, "'object' is no kind of value"),
        (linear(a={"partial": [{"class": LINEAR}, {"tuple": [2, 2]}, {"dict": []}]}), KeyError, "function"),
        (linear(a={"partial": [{"function": "torch.save"}, {"tuple": []}, {"dict": []}]}), ValueError, "torch.save"),
        *((linear(**{name: RELU}), ValueError, f"'{name}' is no attribute of a Linear that can be set") for name in (
            "forward", "__call__", "__class__", "__deepcopy__", "__reduce_ex__", "_call_impl", "_compiled_call_impl",
            "_forward_hooks", "_modules", "extra_repr", "reset_parameters", "train",
        )),
        ({"class": LINEAR, "children": {"__deepcopy__": linear()}}, ValueError, "'__deepcopy__' is no attribute"),
        ({"class": LINEAR, "children": {"a": {"same": ""}}}, KeyError, "''"),
        ({"class": LINEAR, "parameters": {"weight": ["weight", True]}}, KeyError, "weight"),
    ],
)  # fmt: skip
def test_blueprints_that_are_made_up(blueprint, error, says):
    before = {*sys.modules}
    with pytest.raises(error, match=says):
        build(blueprint, {})
    assert {name for name in {*sys.modules} - before if not name.startswith("torch.nn.modules")} == set()


def test_building_calls_nothing_of_a_class(tmp_path, monkeypatch):
    (tmp_path / "loud.py").write_text(
        "from torch import nn\n"
        "def shout(*args, **kwargs):\n"
        "    raise AssertionError('called')\n"
        "class Loud(nn.Linear):\n"
        "    __new__ = __init__ = __setattr__ = __getstate__ = __reduce_ex__ = __deepcopy__ = __del__ = shout\n"
        "class Back(nn.Linear):\n"
        "    __setstate__ = shout\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # `__del__` at the end
    blueprint = {"class": "loud:Loud", "attributes": {"in_features": 2}, "children": {"a": linear(bias=1)}}
    assert foreign(blueprint) == ["loud:Loud"]
    with pytest.raises(ValueError, match="loud is not among the trusted modules"):
        build(blueprint, {}, ["lou", "loud.more", "loud:Loud"])
    assert "loud" not in sys.modules
    assert vars(build(blueprint, {}, ["loud"]))["in_features"] == 2
    with pytest.raises(ValueError, match="loud:Back restores itself by code of its own"):
        build({"class": "loud:Back"}, {}, ["loud"])


def test_functions_compute_numbers_of_numbers():
    """Every function of the list returns a tensor of numbers like those it is given."""
    extra = {"threshold": (0.1, 20.0), "softmax": (1,), "log_softmax": (1,), "softmin": (1,)}
    inputs = torch.linspace(0.1, 0.9, 2 * 4 * 4 * 4).view(2, 4, 4, 4)
    for name, function in FUNCTIONS.items():
        short = name.rpartition(".")[2]
        given = inputs[..., 0] if short.endswith("1d") else inputs[None] if short.endswith("3d") else inputs
        found = function(given.clone(), *((2,) if "pool" in short else extra.get(short, ())))
        assert found.dtype == torch.float32, name
        assert found.numel() <= inputs.numel(), name
        assert again(Holder(function)).held is function


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "alexnet", "shufflenet", "googlenet"])
def test_networks_of_torchvision(name):
    network = torchvision_backbone(name).eval()
    inputs = torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
    assert torch.equal(again(network).eval()(inputs), network(inputs))
