from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from graphcollab.engine import Stacks
from graphcollab.engine.param_spec import shared_tensors
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from tests.raising import raises


def two_architectures() -> tuple[Stacks, list[nn.Module]]:
    """Five nodes; the odd ones have a deeper model with the same head."""
    modules = [MLP(3, (4,), 2), MLP(3, (5, 4), 2)]
    specs = [ParamSpec.from_module(m) for m in modules]
    members = torch.tensor([0, 2, 4]), torch.tensor([1, 3])
    tensors = [
        torch.arange(float(len(m) * s.num_columns)).view(len(m), -1) + 1000 * a
        for a, (m, s) in enumerate(zip(members, specs, strict=True))
    ]
    return Stacks(tuple(specs), tuple(tensors), members), modules


def test_columns_are_grouped_by_part_with_buffers_last():
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    spec = ParamSpec.from_module(module, {"head": ["2"], "norm": ["1"]})
    assert spec.names[:4] == ("2.weight", "2.bias", "1.weight", "1.bias")
    assert spec.names[6:] == ("1.running_mean", "1.running_var", "1.num_batches_tracked")
    assert spec.parts == {"head": (0, 4), "norm": (4, 10), "all": (0, 19), "buffers": (19, 26)}
    assert (spec.num_parameters, spec.num_columns, spec.num_named_parameters) == (19, 26, 6)
    assert spec.columns("norm") == slice(4, 10)
    assert spec.part_layout("head") == ((1, 3), (1,))


def test_scalar_parameters_and_buffers():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))
            self.register_buffer("table", torch.zeros(7, dtype=torch.int64))
            self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
            self.register_buffer("average", torch.zeros(2))

    spec = ParamSpec.from_module(Scaled())
    assert (spec.names, spec.num_columns) == (("scale", "average"), 3)
    assert spec.views(torch.tensor([[3.0, 0.0, 1.0], [4.0, 2.0, 3.0]]))[0].tolist() == [3.0, 4.0]


def test_frozen_parameters_are_in_no_row():
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    module[0].requires_grad_(False)
    spec = ParamSpec.from_module(module)
    assert spec.names[:4] == ("1.weight", "1.bias", "2.weight", "2.bias")
    assert spec.parts == {"1": (0, 6), "2": (6, 10), "all": (0, 10), "buffers": (10, 17)}
    assert (spec.num_parameters, spec.num_columns, spec.num_named_parameters) == (10, 17, 4)
    assert [*shared_tensors(module)] == ["0.weight", "0.bias"]
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    before = other[0].weight.clone()
    spec.load_into(other, spec.flatten(module))
    assert torch.equal(other[2].weight, module[2].weight)
    assert torch.equal(other[0].weight, before)
    with raises("empty", "model"):
        ParamSpec.from_module(nn.Linear(2, 3).requires_grad_(False))


def test_buffers_that_are_not_persistent_are_in_no_row():
    module = nn.Linear(2, 1)
    module.register_buffer("angles", torch.zeros(3), persistent=False)
    module.register_buffer("average", torch.zeros(3))
    assert ParamSpec.from_module(module).names == ("weight", "bias", "average")
    inside = nn.Sequential(nn.Identity(), module)
    assert {name: tuple(one.shape) for name, one in shared_tensors(inside).items()} == {"1.angles": (3,)}


@pytest.mark.parametrize("base", [torch.bfloat16, torch.int8, torch.complex64])
def test_frozen_parameters_may_be_of_another_number_type(base):
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    module[0].weight = nn.Parameter(torch.zeros(2, 2, dtype=base), requires_grad=False)
    module[0].bias = None
    spec = ParamSpec.from_module(module)
    assert (spec.names, spec.flatten(module).dtype) == (("1.weight", "1.bias"), torch.float32)


class FourParts(nn.Module):
    """Parts in another order than the module's, one of them a parameter without dimensions, and a buffer."""

    parts = {"head": ["d"], "scale": ["b"], "middle": ["c"], "backbone": ["a"]}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 3), nn.Parameter(torch.tensor(1.0))
        self.c, self.d = nn.BatchNorm1d(3), nn.Linear(3, 1)


def test_parts_that_lie_side_by_side_are_one_range():
    spec = ParamSpec.from_module(FourParts())
    assert spec.parts == {"head": (0, 4), "scale": (4, 5), "middle": (5, 11), "backbone": (11, 20), "all": (0, 20),
                          "buffers": (20, 27)}  # fmt: skip
    for together in ("middle+backbone", "backbone+middle"):
        assert spec.columns(together) == slice(5, 20)
    assert spec.columns("scale+head+middle") == slice(0, 11)
    assert spec.columns("backbone+scale+head+middle") == spec.columns("all")
    assert spec.columns("backbone+buffers") == slice(11, 27)
    for apart in ("head+middle", "head+backbone+scale", "head+head", "all+head"):
        with raises("conflict", f"part {apart!r}", "head, scale, middle, b"):
            spec.columns(apart)
    for unknown, missing in (("head+neck", "neck"), ("head+", ""), ("+", ""), ("", "")):
        with raises("unknown", f"part {missing!r}", "'head'", kind=KeyError):
            spec.columns(unknown)


def test_names_in_a_part():
    spec = ParamSpec.from_module(FourParts())
    assert spec.names_in("head") == ("d.weight", "d.bias")
    assert spec.names_in("scale") == ("b",)
    assert spec.names_in("backbone+middle") == ("c.weight", "c.bias", "a.weight", "a.bias")
    assert spec.names_in("all") == spec.names[:7]
    assert spec.names_in("buffers") == ("c.running_mean", "c.running_var", "c.num_batches_tracked")
    assert spec.part_layout("scale+middle") == ((), (3,), (3,))


def test_parts_together_are_read_and_written_as_one():
    spec = ParamSpec.from_module(FourParts())
    stacks = Stacks.single(spec, torch.arange(54.0).view(2, 27))
    assert torch.equal(stacks.part("scale+middle"), stacks.tensors[0][:, 4:11])
    new = stacks.with_part("middle+scale", torch.zeros(2, 7))
    assert new.tensors[0][:, 4:11].abs().max() == 0
    assert torch.equal(new.tensors[0][:, 11:], stacks.tensors[0][:, 11:])


def test_architectures_share_parts_together_that_lie_elsewhere():
    """The backbone comes first, and is shorter in one of them."""

    class Three(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.backbone, self.middle, self.head = nn.Linear(2, width), nn.Linear(3, 3), nn.Linear(3, 1)

    specs = tuple(ParamSpec.from_module(Three(width)) for width in (1, 4))
    assert [spec.columns("middle+head").start for spec in specs] == [3, 12]
    tensors = tuple(torch.arange(float(s.num_columns))[None] for s in specs)
    stacks = Stacks(specs, tensors, (torch.tensor([1]), torch.tensor([0])))
    both = stacks.part("head+middle")
    assert both[:, 0].tolist() == [12.0, 3.0]
    assert stacks.with_part("middle+head", both + 1).part("middle+head").tolist() == (both + 1).tolist()
    with raises("mismatch", "part 'backbone+middle'", "'head'", "'middle'"):
        stacks.part("backbone+middle")


def test_a_modules_own_parts_are_used():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module.parts = {"last": ["1"]}
    assert set(ParamSpec.from_module(module).parts) == {"last", "all"}


def test_flatten_and_load_are_inverse():
    source, target = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    source(torch.randn(8, 2))
    spec = ParamSpec.from_module(source)
    row = spec.flatten(source)
    assert not row.requires_grad
    spec.load_into(target, row)
    for name, value in source.state_dict().items():
        assert torch.equal(value, target.state_dict()[name]), name


def test_views_share_memory():
    spec = ParamSpec.from_module(nn.Linear(2, 3))
    rows = torch.zeros(4, 9)
    weight, bias = spec.views(rows)
    assert (weight.shape, bias.shape) == ((4, 3, 2), (4, 3))
    weight += 1
    assert rows[:, :6].eq(1).all()


@pytest.mark.parametrize(
    ("module", "parts", "wanted"),
    [
        (nn.ReLU(), None, ("empty", "model")),
        (nn.Linear(1, 1), {"a": ["weight"], "b": ["weight"]}, ("duplicate", "parameter 'weight'", "'a'", "'b'")),
    ],
)
def test_spec_refuses(module, parts, wanted):
    with raises(*wanted):
        ParamSpec.from_module(module, parts)


def test_unknown_part_is_named_with_those_there_are():
    with raises("unknown", "part 'tail'", "'all'", "'backbone'", "'head'", kind=KeyError):
        ParamSpec.from_module(MLP(3, (4,), 2)).columns("tail")


def test_one_architecture_gives_views():
    stacks = Stacks.single(ParamSpec.from_module(nn.Linear(2, 1)), torch.arange(6.0).view(2, 3))
    assert stacks.part("all").data_ptr() == stacks.tensors[0].data_ptr()
    assert stacks.dtype == torch.float32
    assert stacks.device == torch.device("cpu")


def test_two_architectures_share_a_head():
    stacks, _ = two_architectures()
    head = stacks.part("head")
    assert head.shape == (5, 10)
    assert torch.equal(head[1], stacks.tensors[1][0, stacks.specs[1].columns("head")])
    assert torch.equal(head[4], stacks.tensors[0][2, stacks.specs[0].columns("head")])
    new = stacks.with_part("head", head * 0 - 1)
    assert torch.equal(new.part("head"), torch.full((5, 10), -1.0))
    assert torch.equal(stacks.part("head"), head), "the old stacks were changed"
    for old, now, spec in zip(stacks.tensors, new.tensors, stacks.specs, strict=True):
        assert torch.equal(old[:, spec.columns("backbone")], now[:, spec.columns("backbone")])
        assert old.data_ptr() != now.data_ptr()


def test_a_part_of_other_shapes_cannot_be_shared():
    stacks, _ = two_architectures()
    with raises("mismatch", "part 'all'", "'head'"):
        stacks.part("all")


def test_shapes_are_checked():
    spec = ParamSpec.from_module(nn.Linear(2, 1))
    with raises("shape", "stacks", "2", "3", "4"):
        Stacks((spec,), (torch.zeros(2, 4),), (torch.arange(2),))
    with raises("mismatch", "stacks", "2", "1"):
        Stacks((spec, spec), (torch.zeros(2, 3),), (torch.arange(2),))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True))
def test_select_keeps_every_nodes_row(nodes):
    stacks, _ = two_architectures()
    chosen = stacks.select(torch.tensor(nodes))
    assert chosen.num_nodes == len(nodes)
    assert sorted(torch.cat(chosen.members).tolist()) == list(range(len(nodes)))
    for position, node in enumerate(nodes):
        (spec, row), (old_spec, old_row) = chosen.row(position), stacks.row(node)
        assert spec is old_spec
        assert torch.equal(row, old_row)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_locate_finds_rows_also_of_repeated_nodes(nodes):
    stacks, _ = two_architectures()
    found = {}
    for stack, where, rows in stacks.locate(torch.tensor(nodes)):
        for place, row in zip(where.tolist(), rows.tolist(), strict=True):
            found[place] = int(stacks.members[stack][row])
    assert [found[k] for k in range(len(nodes))] == nodes


def test_map_like_and_to():
    stacks, _ = two_architectures()
    assert torch.equal(stacks.map(torch.neg).tensors[1], -stacks.tensors[1])
    assert stacks.like(stacks.tensors).members is stacks.members
    double = stacks.to(torch.float64)
    assert double.dtype == torch.float64
    assert double.members[0].dtype == torch.int64


def test_a_node_that_is_not_there():
    with pytest.raises(IndexError):
        Stacks.single(ParamSpec.from_module(nn.Linear(2, 1)), torch.zeros(2, 3)).row(2)


def test_rows_of_some_nodes_are_taken_from_others():
    old, _ = two_architectures()
    mask = torch.tensor([True, False, False, True, False])
    mixed = old.where(mask, old.map(torch.zeros_like))
    for node, replaced in enumerate(mask.tolist()):
        row, own = mixed.row(node)[1], old.row(node)[1]
        assert torch.equal(row, torch.zeros_like(own) if replaced else own)


class TiedParts(nn.Module):
    """A head that is the embedding's matrix, with a bias of its own."""

    def __init__(self):
        super().__init__()
        self.backbone, self.middle, self.head = nn.Embedding(5, 3), nn.Linear(3, 3), nn.Linear(3, 5)
        self.head.weight = self.backbone.weight


def test_a_part_that_is_tied_to_another_cannot_be_taken_alone():
    spec = ParamSpec.from_module(TiedParts())
    for part, other in (("head", "backbone"), ("backbone", "head")):
        with raises("conflict", f"part {part!r}", repr(f"{part}+{other}")):
            spec.columns(part)
    with raises("conflict", "part 'head'"):
        Stacks.single(spec, torch.zeros(2, spec.num_columns)).part("middle+head")
    assert spec.columns("middle") == slice(15, 27)
    assert spec.columns("all") == spec.columns("backbone+middle+head") == slice(0, 32)


def test_what_does_not_fit_into_one_row_is_refused_by_name():
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    average = nn.BatchNorm1d(2)
    average.running_mean = average.running_mean.double()
    turning = nn.Linear(2, 2)
    turning.turn = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    for module, wanted in (
        (mixed, ("mismatch", "model", "torch.float32 ('0.weight')", "torch.float64")),
        (average, ("mismatch", "model", "torch.float32 ('weight')", "torch.float64 ('running_mean')")),
        (turning, ("unsupported", "parameter 'turn'")),
        (nn.Sequential(nn.LazyLinear(3)), ("unsupported", "parameter '0.weight'")),
    ):
        with raises(*wanted):
            ParamSpec.from_module(module)
