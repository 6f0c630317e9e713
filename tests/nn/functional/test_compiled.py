"""The compiled kernels against plain sums in double precision, for every set of instructions that this machine has."""

from __future__ import annotations

import functools

import pytest
import torch

from graphcollab._base.threads import same_threads
from graphcollab.nn.functional import compiled, edge_products, mix
from graphcollab.nn.functional.compiled import INSTRUCTIONS, inner_products, weighted_sums
from graphcollab.nn.functional.kernels import PRODUCTS
from graphcollab.nn.functional.structure import Structure
from tests.raising import raises

pytestmark = pytest.mark.skipif(not INSTRUCTIONS, reason="this machine had no compiler when the package was built")

ROUNDING = {torch.float32: 2e-7, torch.float64: 2e-16, torch.bfloat16: 2**-8}
SHAPES = [(7, 5, 1), (40, 60, 1037), (200, 200, 130)]


def normal(*shape, seed, dtype):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@functools.cache
def skewed(senders: int, receivers: int) -> Structure:
    """Receiver i hears i² / receivers senders or so, the first one nobody, and the last one everybody."""
    draw = torch.Generator().manual_seed(0)
    degrees = [min(i * i // receivers, senders) for i in range(receivers - 1)] + [senders]
    heard = [torch.randperm(senders, generator=draw)[:degree] for degree in degrees]
    receiver = torch.repeat_interleave(torch.arange(receivers), torch.tensor(degrees))
    return Structure.from_edges(torch.stack([torch.cat(heard), receiver]), (senders, receivers))


@functools.cache
def summed(dtype, shape, terms):
    """What is to be summed, and the sums edge by edge, with the size of what was added: the same for all kernels."""
    senders, receivers, width = shape
    structure = skewed(senders, receivers)
    x, weight = normal(senders, width, seed=1, dtype=dtype), normal(structure.num_edges, seed=2, dtype=dtype)
    base = normal(receivers, width, seed=3, dtype=dtype) if terms in ("base", "both") else None
    against = normal(receivers, width, seed=4, dtype=dtype) if terms in ("against", "both") else None
    expected = torch.zeros(receivers, width, dtype=torch.float64) if base is None else base.to(torch.float64, copy=True)
    size = expected.abs()
    for j, i, w in zip(structure.sender.tolist(), structure.receiver.tolist(), weight.double().tolist(), strict=True):
        own = torch.zeros(width, dtype=torch.float64) if against is None else against[i].double()
        expected[i] += w * (x[j].double() - own)
        size[i] += abs(w) * (x[j].double().abs() + own.abs())
    return (structure, weight, x, base, against), expected, size


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("terms", ["sum", "base", "against", "both"])
def test_sums(instructions, dtype, shape, terms):
    given, expected, size = summed(dtype, shape, terms)
    found = weighted_sums(*given, instructions)
    assert found.dtype == dtype
    assert ((found.double() - expected).abs() <= 16 * ROUNDING[dtype] * size).all()


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("receivers", [1, 6, 40])
def test_tiles_of_most_pairs_change_no_digit(instructions, dtype, receivers, monkeypatch):
    """Four receivers at a time take rows that some do not hear, and what is not finite reaches none of these."""
    pairs = torch.cartesian_prod(torch.arange(30), torch.arange(receivers)).T
    structure = Structure.from_edges(pairs[:, (pairs[0] + pairs[1]) % 5 != 0], (30, receivers))
    assert structure.density > 0.7
    x, weight = normal(30, 1037, seed=1, dtype=dtype), normal(structure.num_edges, seed=2, dtype=dtype)
    x[4, 70], x[3, 1030], x[8, 3] = torch.inf, torch.nan, -torch.inf
    terms = normal(receivers, 1037, seed=3, dtype=dtype), normal(receivers, 1037, seed=4, dtype=dtype)
    tiled = weighted_sums(structure, weight, x, *terms, instructions)
    monkeypatch.setattr(compiled, "DENSE_DENSITY", 2)
    plain = weighted_sums(structure, weight, x, *terms, instructions)
    assert torch.equal(tiled.nan_to_num(7), plain.nan_to_num(7))
    hears = torch.zeros(receivers, 30, dtype=torch.bool)
    hears[structure.receiver, structure.sender] = True
    for j, column in ((4, 70), (3, 1030), (8, 3)):
        assert torch.equal(~tiled[:, column].isfinite(), hears[:, j])


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_inner_products(instructions, dtype, shape):
    senders, receivers, width = shape
    structure = skewed(senders, receivers)
    a, b = normal(receivers, width, seed=1, dtype=dtype), normal(senders, width, seed=2, dtype=dtype)
    found = inner_products(structure, a, b, instructions)
    left, right = a.double()[structure.receiver], b.double()[structure.sender]
    assert found.dtype == torch.float64
    error = (found - (left * right).sum(1)).abs()
    assert (error <= 64 * min(ROUNDING[dtype], 2e-7) * (left * right).abs().sum(1)).all()


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("density", [0.0, 2.0], ids=["in tiles", "one by one"])
def test_neither_threads_nor_instructions_change_a_digit(dtype, density, monkeypatch):
    monkeypatch.setattr(compiled, "BLOCK_BYTES", 2**12)  # many blocks
    monkeypatch.setattr(compiled, "FEW_NUMBERS", 0)
    monkeypatch.setattr(compiled, "DENSE_DENSITY", density)
    structure = skewed(30, 30)
    x, weight = normal(30, 2999, seed=1, dtype=dtype), normal(structure.num_edges, seed=2, dtype=dtype)
    found = []
    for instructions in INSTRUCTIONS[1:] or INSTRUCTIONS:  # plain ones round products, too
        for threads in (1, 2):
            with same_threads(threads):
                sums = weighted_sums(structure, weight, x, x, x, instructions)
                found.append((sums, inner_products(structure, x, x, instructions)))
    for sums, products in found[1:]:
        assert torch.equal(sums, found[0][0])
        assert torch.equal(products, found[0][1])


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
def test_edges_that_are_there_twice_are_added_one_after_the_other(dtype):
    """Tiles would add their weights first, and where tiles end depends on the instructions."""
    every = torch.cartesian_prod(torch.arange(9), torch.arange(8)).T
    structure = Structure.from_edges(torch.cat([every, every], 1), (9, 8))
    x, weight = normal(9, 71, seed=1, dtype=dtype), normal(structure.num_edges, seed=2, dtype=dtype)
    found = [weighted_sums(structure, weight, x, instructions=one) for one in INSTRUCTIONS[1:] or INSTRUCTIONS]
    for other in found[1:]:
        assert torch.equal(other, found[0])
    alone = Structure.from_edges(
        torch.stack([structure.sender, structure.receiver])[:, structure.receiver == 0], (9, 1)
    )
    assert torch.equal(weighted_sums(alone, weight[structure.receiver == 0], x), found[0][:1])


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("receivers", [1, 4], ids=["one by one", "in tiles"])
def test_long_sums_lose_few_digits(instructions, receivers):
    """Of 200,000 equal terms, which one after the other would lose three digits: 0.1 added to 10,000 is not."""
    senders = 200_000
    pairs = torch.cartesian_prod(torch.arange(receivers), torch.arange(senders)).T.flip(0)
    structure = Structure.from_edges(pairs, (senders, receivers))
    for width in (1, 17, 130):
        x = torch.full((1, width), 0.1).expand(senders, width)
        found = weighted_sums(structure, torch.ones(structure.num_edges), x, instructions=instructions)
        assert (found / 20_000 - 1).abs().max() < 2e-5
        assert ((torch.full((1,), 0.1).expand(senders).cumsum(0)[-1] / 20_000 - 1).abs()) < 1e-2


def test_rows_may_lie_anywhere():
    """Rows that are far apart, columns that are, and rows that are all the same one."""
    structure = skewed(20, 30)
    weight = normal(structure.num_edges, seed=2, dtype=torch.float32)
    for x in (torch.randn(40, 300)[::2, 7:200], torch.randn(200, 20).T, torch.randn(1, 200).expand(20, 200)):
        plain = weighted_sums(structure, weight, x.contiguous(), torch.ones(30, x.shape[1]))
        assert torch.equal(weighted_sums(structure, weight, x, torch.ones(1, 1).expand(30, x.shape[1])), plain)
        a = torch.randn(30, x.shape[1])
        assert torch.equal(inner_products(structure, a, x), inner_products(structure, a, x.contiguous()))


def test_what_is_not_finite_reaches_those_who_hear_it():
    edges = torch.tensor([[0, 1, 2], [0, 1, 1]])
    x = torch.ones(100, 200)
    x[0, 3], x[2, 150] = torch.inf, torch.nan
    found = mix(x, torch.tensor([0.0, 1.0, 1.0]), edges, kernel="compiled")
    lost = (~found.isfinite()).nonzero().tolist()
    assert lost == [[0, 3], [1, 150]]  # 0 · ∞ is NaN


def test_halves_are_rounded_to_the_nearest():
    """As PyTorch does, ties to even, up to the largest number, and beyond."""
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)
    numbers = bits.view(torch.bfloat16)
    numbers = numbers[numbers.isfinite()]
    x = torch.stack([numbers, numbers.flip(0)])
    edges, weight = torch.tensor([[0, 1], [0, 0]]), torch.tensor([1.0, 2**-8])
    structure = Structure.from_edges(edges, (2, 1))
    expected = (x[0].float() + x[1].float() * 2**-8).bfloat16()
    for instructions in INSTRUCTIONS:
        assert torch.equal(weighted_sums(structure, weight, x, instructions=instructions)[0], expected)


def test_other_numbers_are_refused():
    with raises("unsupported", "rows"):
        mix(torch.ones(2, 2, dtype=torch.float16), torch.ones(1), torch.tensor([[0], [1]]), kernel="compiled")


def test_rows_of_unlike_types_are_refused():
    """The kernels would read one as the other."""
    structure = skewed(6, 6)
    x, weight = torch.ones(6, 5), torch.ones(structure.num_edges)
    for terms in ({"base": x.double()}, {"against": x.double()}):
        with raises("mismatch", "rows", "torch.float32", "torch.float64"):
            mix(x, weight, structure, **terms)
    with raises("mismatch", "rows", "torch.float32", "torch.float64"):
        edge_products(x.double(), x, structure)


def test_rows_that_do_not_fit_the_edges_are_refused():
    structure = skewed(6, 8)
    x, weight = torch.ones(6, 5), torch.ones(structure.num_edges)
    with raises("shape", "x"):
        mix(torch.ones(7, 5), weight, structure, base=torch.ones(8, 5))
    with raises("shape", "against"):
        mix(x, weight, structure, against=torch.ones(8, 4))
    with raises("mismatch", "vectors"):
        edge_products(torch.ones(7, 5), x, structure)
    with raises("shape", "weight", f"{structure.num_edges} edges", "3"):
        mix(x, torch.ones(3), structure)


def test_weights_of_halves_are_not_rounded():
    """They are as precise as the sums: 1/49 in bfloat16 would lose a thousandth of every mean."""
    every = torch.cartesian_prod(torch.arange(49), torch.arange(49)).T
    x = torch.full((49, 10), 3.0, dtype=torch.bfloat16)
    for kernel in PRODUCTS.keys() - {"triton"}:
        for weight in (torch.full((49 * 49,), 1 / 49), torch.full((49 * 49,), 1 / 49, dtype=torch.float64)):
            found = mix(x, weight, every, kernel=kernel)
            assert found.dtype == torch.bfloat16
            if kernel != "dense":  # which is a product of bfloat16
                assert torch.equal(found, x), kernel
