"""Mixing on a card: the package's kernels beside a copy, and beside what PyTorch and PyTorch Geometric have."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _gpu_bench import Bench, tf32  # type: ignore
from mixing import make_edges  # type: ignore
from torch import Tensor

from graphcollab.nn.functional import mix
from graphcollab.nn.functional.kernels import PRODUCTS, choose_product, edge_dot
from graphcollab.nn.functional.structure import Structure

# name, graph, nodes and parameters with a card, and without
CASES = (
    ("100 × 878,538, all pairs", "complete", (100, 878_538), (12, 2000)),
    ("100 × 878,538, 10 neighbors", "10 neighbors", (100, 878_538), (14, 2000)),
    ("1,000 × 100,000, 10 neighbors", "10 neighbors", (1000, 100_000), (40, 500)),
    ("100,000 × 34, 10 neighbors", "10 neighbors", (100_000, 34), (200, 34)),
)
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
DENSE_NODES = 8192  # with more a dense matrix takes much of a card's memory
GIVEN_UP: set[str] = set()  # kernels that leave their work to others
Calls = dict[str, Callable[[], Any]]


def mixing(bench: Bench) -> None:
    """Time forward passes, and gradients of models and of weights."""
    for kind in TYPES:
        for name, graph, full, tiny in CASES:
            if bench.late(f"mixing {name} in {kind} and what follows"):
                return
            with bench.attempt(f"{name}, {kind}"), torch.no_grad():
                _case(bench, name, graph, *bench.size(full, tiny), kind)
            gc.collect()


def kernels_for(x: Tensor) -> list[str]:
    """Return the kernels that know such rows, and do not leave them to another one with a warning."""
    edge, names = Structure.from_edges(torch.zeros(2, 1, dtype=torch.int64), (1, 1)), []
    for name, product in PRODUCTS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                product(edge, torch.ones(1), x[:1])
            names.append(name)
        except Warning as warning:  # said once
            GIVEN_UP.add(name)
            print(f"  kernel {name}: left out ({warning})", flush=True)
        except ValueError:  # rows on another device
            continue
    names = [name for name in names if name not in GIVEN_UP]
    return [name for name in names if name != "dense" or len(x) <= DENSE_NODES]


def weighted(graph: str, nodes: int) -> tuple[Structure, Tensor]:
    """Return edges, and weights in their order, on the CPU."""
    edge_index, weight = make_edges(graph, nodes, "cpu")
    structure = Structure.from_edges(edge_index, (nodes, nodes))
    return structure, structure.sort(weight)


def _case(bench: Bench, name: str, graph: str, nodes: int, width: int, kind: str) -> None:
    structure, weight = weighted(graph, nodes)
    draw, dtype = torch.Generator(bench.device).manual_seed(0), TYPES[kind]
    x, gradient = (torch.randn(nodes, width, generator=draw, device=bench.device).to(dtype) for _ in range(2))
    back, near, chosen = structure.transposed, weight.to(bench.device), f"kernel {choose_product(structure, x)}"
    ways = {
        "forward": _products(structure, near, x),
        "to models": _products(back, back.sort(weight).to(bench.device), gradient),
        "to weights": _gradients(structure, gradient, x),
    }
    ways["forward"]["mix, weights on the CPU"] = partial(mix, x, structure.unsort(weight), structure)
    copy = {"copy_": partial(torch.empty_like(x).copy_, x)}
    for what, calls in ways.items():
        if bench.late(f"mixing {name} in {kind}, {what}"):
            return
        timed = bench.times(copy | calls, f"{name}, {what}, {kind}", ("copy_", chosen, "graphcollab"))
        if chosen in timed:
            timed["graphcollab"] = timed[chosen]
        for way, one in timed.items():
            numbers = {"ms": one.ms, "copies": one.ms / timed["copy_"].ms, "host_ms": one.host_ms}
            bench.note("mixing", name, what, kind, way, **numbers)
    if (now := f"kernel {choose_product(structure, x)}") != chosen:
        raise RuntimeError(f"{chosen} has given up, which a warning above explains: the package takes {now} instead")


def _products(structure: Structure, weight: Tensor, x: Tensor) -> Calls:
    """Return ways to W x by name, W [D, S] of weights in the structure's order beside x."""
    there = structure.beside(x)
    ways: Calls = {f"kernel {name}": partial(PRODUCTS[name], structure, weight, x) for name in kernels_for(x)}
    if len(x) <= DENSE_NODES:
        ways |= _both_precisions(partial(torch.mm, there.adjacency(weight).to_dense().to(x.dtype), x), x.dtype)
    ways["torch.sparse"] = partial(torch.mm, there.adjacency(weight.to(x.dtype)), x)
    return ways


def _gradients(structure: Structure, gradient: Tensor, x: Tensor) -> Calls:
    """Return ways to the weights' gradient by name, and one that reads both factors."""
    there = structure.beside(x)
    ways: Calls = {"graphcollab": partial(edge_dot, structure, gradient, x)}
    ways["torch.dot of both"] = partial(torch.dot, gradient.view(-1), x.view(-1))
    if len(x) <= DENSE_NODES:
        ways |= _both_precisions(lambda: (gradient @ x.T)[there.receiver, there.sender], x.dtype)
    pattern = there.adjacency(x.new_zeros(structure.num_edges))
    ways["torch.sparse"] = partial(torch.sparse.sampled_addmm, pattern, gradient, x.T, beta=0.0)
    return ways


def _both_precisions(call: Callable[[], Any], dtype: torch.dtype) -> Calls:
    """Return a product, and one whose factors in single precision are rounded."""

    def rounded() -> Any:
        with tf32(True):
            return call()

    return {"torch.mm": call} | ({"torch.mm TF32": rounded} if dtype == torch.float32 else {})
