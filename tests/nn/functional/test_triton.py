"""The kernels in Triton against double precision: on a GPU, or in Triton's interpreter, which this file starts itself.

The interpreter sees masks, shapes and offsets. It does not see that TF32 has 11 digits, which is added here,
or memory that does not suffice, which is what compiling for an H100 without one is for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from graphcollab.nn.functional import edge_products, gpu, kernels, mix
from graphcollab.nn.functional.structure import Structure
from tests.nn.functional.test_mixing import by_loops, dense, normal
from tests.raising import raises

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, for what is not finite in the interpreter
    pytest.mark.filterwarnings("error:PyTorch's products"),  # a kernel that is given up
]
ROOT = Path(__file__).parents[3]
SHARED_MEMORY = 227 * 1024  # bytes a program may have on an H100
ACCURACY = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}  # of all terms' sizes
SHAPES = {  # senders, receivers, columns, edges
    "one": (1, 1, 1, 1),
    "few": (3, 4, 70, 5),
    "no edges": (5, 4, 130, 0),
    "a tile of matrices": (128, 128, 65, 300),
    "less than a tile": (100, 99, 70, 200),
    "compressed rows": (130, 129, 70, 300),
    "tiles": (130, 129, 20, 1100),
    "no columns": (3, 3, 0, 4),
    "no receivers": (3, 0, 4, 0),
}
needs_triton = pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed (extra graphcollab[gpu])")
needs_device = pytest.mark.skipif(
    not find_spec("triton") or not (gpu.INTERPRETED or torch.cuda.is_available()),
    reason="neither a GPU nor Triton's interpreter",
)

if gpu.INTERPRETED:
    from triton.runtime import interpreter

    patch, multiply = interpreter._patch_lang_tensor, interpreter.InterpreterBuilder.create_dot

    def patch_with_index(tensor, scope):
        """Scalars there have one dimension, which NumPy 2.4 does not take for a whole number."""
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def multiply_by_tf32(builder, a, b, *more):
        """Tensor cores do not read the last 13 of 24 digits."""
        cut = [(one.data.view("int32") & -8192).view("float32") for one in (a, b)]
        rounded = [interpreter.TensorHandle(data, one.dtype) for data, one in zip(cut, (a, b), strict=True)]
        return multiply(builder, *rounded, *more)

    interpreter._patch_lang_tensor = patch_with_index
    interpreter.InterpreterBuilder.create_dot = multiply_by_tf32


@pytest.fixture
def device(monkeypatch):
    """Where the kernels run; they are chosen there even if it is the CPU."""
    monkeypatch.setattr(kernels, "fits", lambda *rows: False)
    return torch.device(gpu.DEVICE)


def edges_of(senders, receivers, count):
    """Edges [2, E], some of them twice; the last receiver has none where there are several."""
    draw = torch.Generator().manual_seed(count)
    pick = lambda many: torch.randint(max(many, 1), (count,), generator=draw)  # noqa: E731
    return torch.stack([pick(senders), pick(receivers - 1)])


def strided(rows, device):
    """The same rows on the device, three numbers apart."""
    wide = torch.full((rows.shape[0], rows.shape[1] + 3), torch.nan, dtype=rows.dtype, device=device)
    wide[:, 1 : rows.shape[1] + 1] = rows.to(device)
    return wide[:, 1 : rows.shape[1] + 1]


@needs_device
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("terms", [False, True])
def test_sums_are_those_of_double_precision(device, shape, dtype, terms):
    senders, receivers, width, count = shape
    edges, weight = edges_of(senders, receivers, count), normal(count, dtype=torch.float32)
    x, base, against = (normal(n, width, seed=n + 1, dtype=dtype) for n in (senders, receivers, receivers))
    matrix, size = (dense(edges, w, senders, receivers) for w in (weight, weight.abs()))
    exact, bound = matrix @ x.double(), size @ x.double().abs() + 1e-3
    given = {}
    if terms:
        exact += base.double() - matrix.sum(1, keepdim=True) * against.double()
        bound += base.double().abs() + size.sum(1, keepdim=True) * against.double().abs()
        given = {"base": strided(base, device), "against": against.to(device).T.contiguous().T}
    found = mix(strided(x, device), weight, edges, receivers, "triton", **given)
    assert found.dtype == dtype
    if terms:
        assert torch.equal(found, mix(strided(x, device), weight, edges, receivers, "triton", **given))
    assert ((found.cpu().double() - exact).abs() <= ACCURACY[dtype] * bound).all()


@needs_device
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_products_are_those_of_double_precision(device, shape, dtype, monkeypatch):
    """Also where columns are summed in several parts."""
    monkeypatch.setattr(import_module("graphcollab.nn.functional._triton"), "SLAB", 1)
    senders, receivers, width, count = shape
    edges = edges_of(senders, receivers, count)
    a, b = (
        normal(receivers, width + 1024 * (count == 5), seed=1, dtype=dtype),
        normal(senders, width + 1024 * (count == 5), dtype=dtype),
    )
    found, again = (edge_products(strided(a, device), strided(b, device), edges) for _ in range(2))
    terms = a.double()[edges[1]] * b.double()[edges[0]] if count else torch.zeros(0, 1)
    assert torch.equal(found, again)
    assert ((found.double() - terms.sum(1)).abs() <= ACCURACY[dtype] * (terms.abs().sum(1) + 1e-3)).all()


@needs_device
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("nodes", "count"), [(9, 20), (130, 200), (130, 1200)])
def test_numbers_that_are_not_finite_reach_those_with_an_edge(device, nodes, count, dtype):
    """All of them, with a weight of 0 too, and nobody else to the last bit; an a without edges is not read."""
    draw = torch.Generator().manual_seed(nodes)
    edges = edges_of(nodes, nodes, count)
    weight = torch.rand(count, generator=draw) * (torch.rand(count, generator=draw) < 0.7)
    rows = [torch.randn(nodes, 20, generator=draw).to(dtype) for _ in range(3)]
    odd = torch.tensor([torch.inf, -torch.inf, torch.nan, torch.finfo(dtype).max], dtype=dtype)
    spoilt = [torch.where(torch.rand(one.shape, generator=draw) < 0.01, odd[n], one) for n, one in enumerate(rows)]
    spoilt[2][-1] = torch.inf
    x, base, against = (one.to(device) for one in spoilt)
    expected, close = by_loops(*(one.cpu() for one in (x, weight, edges, base, against))), ACCURACY[dtype] * 1e2
    found = mix(x, weight, edges, nodes, "triton", base, against).cpu().double()
    torch.testing.assert_close(found, expected, rtol=close, atol=close, equal_nan=True)
    fine = mix(rows[0].to(device), weight, edges, nodes, "triton", *(one.to(device) for one in rows[1:])).cpu().double()
    same = torch.ones_like(expected, dtype=torch.bool)
    for one, other in zip(spoilt[1:], rows[1:], strict=True):
        same &= one == other
    same.index_put_((edges[1],), (spoilt[0] == rows[0])[edges[0]] & same[edges[1]])
    heard = torch.zeros(nodes, 20).index_add_(0, edges[1], (spoilt[0] != rows[0]).float()[edges[0]]) > 0
    assert torch.equal(found[same & ~heard], fine[same & ~heard])


@needs_device
@pytest.mark.parametrize("large", [3.4028e38, 3.4e38, 1.7e38])
def test_the_largest_numbers_stay_finite(device, large):
    """Rounded up to TF32 the largest would be infinite, and 0 · ∞ everybody's NaN."""
    x = torch.tensor([[large], [1.0]], device=device)
    found = mix(x, torch.tensor([0.5, 2.0]), torch.tensor([[0, 1], [0, 1]]), 2, "triton")
    torch.testing.assert_close(found.cpu(), torch.tensor([[large / 2], [2.0]]), rtol=1e-6, atol=1e-45)


@needs_device
@pytest.mark.parametrize(("nodes", "count"), [(7, 12), (130, 140)])
def test_gradients(device, nodes, count):
    edges = edges_of(nodes, nodes, count)
    weight = normal(count, seed=3, dtype=torch.float64).requires_grad_()
    rows = [normal(nodes, 3, seed=s, dtype=torch.float64).to(device).requires_grad_() for s in range(3)]
    mixed = lambda w, x, b, a: mix(x, w, edges, base=b, against=a)  # noqa: E731
    assert kernels.choose_product(Structure.from_edges(edges, (nodes, nodes)), rows[0]) == "triton"
    assert torch.autograd.gradcheck(mixed, (weight, *rows), fast_mode=True)
    assert torch.autograd.gradgradcheck(mixed, (weight, *rows), fast_mode=True)
    singles = [one.detach().float().requires_grad_() for one in (weight, *rows)]
    exact, found = (torch.autograd.grad(mixed(*given).square().sum(), given) for given in ((weight, *rows), singles))
    for one, other in zip(exact, found, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=1e-4, atol=1e-4)


@pytest.fixture
def pretended(monkeypatch, device):
    """The CPU is taken for a GPU that nothing is known of."""
    monkeypatch.setattr(gpu, "_asked", {})
    monkeypatch.setattr(gpu, "HERE", True)
    monkeypatch.setattr(gpu, "DEVICE", "cpu")
    monkeypatch.setitem(kernels.PRODUCTS, "triton", kernels.triton_product)


SMALL = torch.tensor([[2.0], [4.0]]), torch.tensor([0.5, 0.5, 1.0]), torch.tensor([[0, 1, 1], [0, 0, 1]])


def mixed_with_one_warning(says):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            assert mix(*SMALL).tolist() == [[3.0], [4.0]]
            assert mix(*SMALL, base=SMALL[0], against=SMALL[0]).tolist() == [[3.0], [4.0]]
            assert edge_products(SMALL[0], SMALL[0], SMALL[2]).tolist() == [4.0, 8.0, 16.0]
    (one,) = (str(warning.message) for warning in said)
    assert re.match(says, one)


def test_without_triton_the_next_best_way_is_taken(pretended, monkeypatch):
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    mixed_with_one_warning(r"PyTorch's products mix models on cpu, .*: Triton is not installed")


def test_on_an_old_card_the_next_best_way_is_taken(pretended, monkeypatch):
    monkeypatch.setattr(gpu, "find_spec", lambda name: name)
    monkeypatch.setattr(gpu, "_capability", lambda device: (7, 5))
    mixed_with_one_warning(r".* compute capability 7\.5, they need 8\.0")


def test_a_kernel_that_fails_is_given_up_and_too_little_memory_is_not(pretended, monkeypatch):
    def fail(*given):
        raise error

    kinds = type("", (), {"weighted_sums": fail, "inner_products": fail})
    monkeypatch.setattr(gpu, "find_spec", lambda name: name)
    monkeypatch.setattr(gpu, "import_module", lambda name: kinds)
    error = torch.OutOfMemoryError("none left")
    with pytest.raises(torch.OutOfMemoryError, match="none left"):
        mix(*SMALL)
    error = RuntimeError("at 3:4:\nno such instruction")
    mixed_with_one_warning(r".*: weighted_sums failed with RuntimeError: no such instruction")


def test_rows_elsewhere_are_refused(monkeypatch):
    monkeypatch.setattr(gpu, "HERE", True)
    monkeypatch.setattr(gpu, "DEVICE", "cuda")
    structure = Structure.from_edges(SMALL[2], (2, 2))
    with raises("unsupported", "rows"):
        kernels.triton_product(structure, SMALL[1], SMALL[0])


@needs_triton
@pytest.mark.slow
@pytest.mark.skipif(gpu.INTERPRETED, reason="this is the interpreter")
def test_kernels_in_the_interpreter():
    given = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    variables = {**os.environ, "TRITON_INTERPRET": "1"}
    ran = subprocess.run(given, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-5000:]


def ring(nodes, degree):
    """Everybody hears the next ones."""
    node = torch.arange(nodes)
    senders = (node[:, None] + torch.arange(degree)).flatten() % nodes
    return Structure.from_edges(torch.stack([senders, node.repeat_interleave(degree)]), (nodes, nodes))


def compiled_for_an_h100(kernel, given, constants, **options):
    """Compile a kernel as a launch would, without a card; return the bytes of shared memory, and what ptxas says."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = {torch.float32: "*fp32", torch.float64: "*fp64", torch.bfloat16: "*bf16", torch.float16: "*fp16"}
    signature, values, hints = {}, dict(constants), {}
    for n, (parameter, value) in enumerate(zip(kernel.params, given, strict=False)):
        special = not parameter.do_not_specialize
        if isinstance(value, torch.Tensor):
            signature[parameter.name], divides = names.get(value.dtype, "*i64"), True
        elif value is None or (special and value == 1):
            values[parameter.name], divides = value, False
        else:
            signature[parameter.name], divides = "i32" if value < 2**31 else "i64", special and value % 16 == 0
        if divides:
            hints[n,] = [["tt.divisibility", 16]]
    signature = {p.name: signature.get(p.name, "constexpr") for p in kernel.params}
    made = triton.compile(ASTSource(kernel, signature, values, hints), GPUTarget("cuda", 90, 32), options)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(made.asm["ptx"])
        file.flush()
        ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
        command = [ptxas, "-v", "--gpu-name=sm_90a", file.name, "-o", os.devnull]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return made.metadata.shared, said


@needs_triton
@pytest.mark.slow
@pytest.mark.skipif(gpu.INTERPRETED, reason="kernels are not compiled in the interpreter")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_configuration_compiles_for_an_h100(dtype, monkeypatch, tmp_path):
    """It fits into shared memory, and spills no registers where rows are of even length; ``-s`` shows both."""
    from graphcollab.nn.functional import _triton

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    seen = set()

    def compile(kernel, grid, *given, num_warps=4, num_stages=3, maxnreg=None, **constants):
        if constants.get("AGAIN") and not any(one is None for one in given):
            return  # all terms in a second launch: registers are those of the first
        options = {"num_warps": num_warps, "num_stages": num_stages, "maxnreg": maxnreg}
        shared, said = compiled_for_an_h100(kernel, given, constants, **options)
        registers, spilt = (int(re.search(what, said)[1]) for what in (r"Used (\d+) reg", r"(\d+) bytes spill stores"))
        sizes = {name: value for name, value in constants.items() if isinstance(value, int)}
        print(f"{dtype} {kernel.__name__} {sizes}: {shared} bytes shared, {registers} registers, {spilt} spilt")
        assert shared <= SHARED_MEMORY
        assert spilt <= (512 if constants.get("UNIT") == 1 else 0)  # addresses, where every number has its own
        seen.add(kernel.__name__)

    monkeypatch.setattr(_triton, "_launch", compile)
    rows = lambda nodes, width: torch.empty_strided((nodes, width), (width, 1), dtype=dtype, device="meta")  # noqa: E731
    sizes = [(1, 1, 1), (100, 10, 878_538), (100, 10, 878_539), (1000, 10, 100_000), (100, 10, 3 * 10**9)]
    sizes += [(20, 3, 1000), (50, 3, 1000), (100_000, 10, 34), (200, 30, 1000)]
    for nodes, degree, width in sizes:
        structure, x = ring(nodes, degree), rows(nodes, width)
        weight = torch.empty(structure.num_edges, dtype=torch.promote_types(dtype, torch.float32))
        for terms in ((None, None), (x, None), (x, x)):
            _triton.weighted_sums(structure, weight, x, *terms, rows(nodes, width))
        products = torch.empty(structure.num_edges, dtype=torch.float64, device="meta")
        _triton.inner_products(structure.beside(x), x, x, products)
    every = {"_by_edges", "_each_edge"} | ({"_spread", "_by_matrix", "_all_pairs"} if dtype != torch.float64 else set())
    assert seen == every
