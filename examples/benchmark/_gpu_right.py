"""Whether what runs on a card is right: kernels as in double precision, methods as on the CPU, waits counted."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from _gpu_bench import Bench  # type: ignore
from _gpu_mixing import TYPES, kernels_for, weighted  # type: ignore
from torch import Tensor

from graphcollab import methods
from graphcollab.engine import SGD, AdamW, static_steps
from graphcollab.nn.functional import mix
from graphcollab.nn.functional.kernels import edge_dot
from graphcollab.nn.functional.structure import Structure
from graphcollab.testing import Scene

ROOT = Path(__file__).parents[2]
PYTEST = importlib.util.find_spec("pytest") is not None
COUNTED = "fedavg", "dpsgd", "l2c", "meta_l2c", "cobo", "dac", "fedamp", "pfedgraph"
TEN = "10 neighbors"
GRAPHS = (("complete", 100, 4099), (TEN, 100, 4099), (TEN, 1000, 1030), (TEN, 5000, 34))  # with nodes and columns
TOLERANCES = {"fp32": 1e-5, "bf16": 2e-2}  # of the sum of the summands' sizes


def right(bench: Bench) -> None:
    """Check kernels, count waits, and check methods."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, before the first product
    for graph, nodes, width in bench.size(GRAPHS, GRAPHS[:2]):
        for kind in TYPES:
            with bench.attempt(f"kernels, {graph} of {nodes}, {kind}"):
                _kernels(bench, graph, nodes, width, kind)
    checks = _checks()
    for name in bench.size(COUNTED, ()):
        with bench.attempt(f"waits of {name}"):
            method = checks.quick(name, every=1)
            waits = checks.syncs_of(method, Scene.small(sizes=checks.SIZES, embeds=method.embeds))
            bench.note("waits in a round", name, **{f"round {n}": count for n, count in enumerate(waits)})
    with bench.attempt("tests/test_cuda.py"):
        _methods(bench, checks)
    if bench.card and PYTEST and importlib.util.find_spec("hypothesis"):  # which the tests beside it need
        with bench.attempt("tests/nn/functional/test_triton.py"):
            _pytest(bench, "tests/nn/functional/test_triton.py")


def _kernels(bench: Bench, graph: str, nodes: int, width: int, kind: str) -> None:
    """Compare products by every kernel, and inner products, with those in double precision of the same numbers."""
    structure, weight = weighted(graph, nodes)
    draw, of = torch.Generator().manual_seed(1), f"{graph} of {nodes}"
    x, other = (torch.randn(nodes, width, generator=draw).to(bench.device, TYPES[kind]) for _ in range(2))
    ways = {"forward": (structure, structure.unsort(weight)), "to models": (structure.transposed, weight)}
    for name in kernels_for(x):
        for way, (edges, given) in ways.items():
            with bench.attempt(f"kernel {name}, {way}, {of}, {kind}"):
                once, again = (mix(x, given, edges, kernel=name, base=other, against=other) for _ in range(2))
                error = _error(once, _matrix(edges, edges.sort(given), x), x, other)
                _judge(bench, error, kind, "right", f"kernel {name}", way, of)
                _require_apart(name, edges, given, x)
                if not torch.equal(once, again) and name != "csr":  # cuSPARSE adds up long rows in any order
                    raise ValueError("two calls differ")
    with bench.attempt(f"inner products, {of}, {kind}"):
        there, a, b = structure.beside(x), other.double(), x.double()
        wanted, scale = ((one @ two.T)[there.receiver, there.sender] for one, two in ((a, b), (a.abs(), b.abs())))
        error = float(((edge_dot(structure, other, x).double() - wanted).abs() / scale).max())
        _judge(bench, error, kind, "right", "inner products", "to weights", of)


def _matrix(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Return W [D, S] beside x, of weights in the structure's order."""
    dense = torch.zeros(structure.num_receivers, structure.num_senders, dtype=torch.float64)
    dense[structure.receiver, structure.sender] = weight.double()
    return dense.to(x.device)


def _error(found: Tensor, matrix: Tensor, x: Tensor, other: Tensor) -> float:
    """Return by how much W x − (W 1) a + b is off, where a and b are alike, of the sum of the summands' sizes."""
    rows, own, total = x.double(), other.double(), matrix.sum(1, keepdim=True)
    wanted = matrix @ rows + (1 - total) * own
    return float(((found.double() - wanted).abs() / (matrix @ rows.abs() + (1 + total) * own.abs())).max())


def _judge(bench: Bench, error: float, kind: str, *key: str) -> None:
    bench.note(*key, kind, error=error)
    if not error <= TOLERANCES[kind]:
        raise ValueError(f"off by {error:.1e}, {TOLERANCES[kind]:.0e} is the most")


def _require_apart(name: str, edges: Structure, given: Tensor, x: Tensor) -> None:
    """Check that an infinite number of node 1 reaches those alone that have an edge from it."""
    ruined = x.clone()
    ruined[1, 3] = torch.inf
    lost = ~mix(ruined, given, edges, kernel=name).isfinite().cpu()
    heard = torch.zeros(len(lost), dtype=torch.bool).index_fill(0, edges.receiver[edges.sender == 1], True)
    if bool(lost[~heard].any()) or not bool(lost[heard, 3].all()):
        raise ValueError("an infinite number of a node reaches others than those who hear it, or not all of these")


def _methods(bench: Bench, checks: Any) -> None:
    """Hold all methods, and replayed steps, to the CPU and to computed ones; by pytest where it is installed."""
    if PYTEST:
        _pytest(bench, "tests/test_cuda.py")
        return
    for name in bench.size(methods.__all__, ()):
        for check in (checks.test_models_are_those_of_the_cpu, checks.test_waits_do_not_grow):
            if bench.late(f"{check.__name__} of {name} and what follows"):
                return
            with bench.attempt(f"{check.__name__} of {name}"):
                check(name)
    optimizers = SGD(lr=0.1, momentum=0.9, weight_decay=0.01), AdamW(lr=0.01)
    for optimizer, sizes in bench.size([*product(optimizers, ((8,) * 6, checks.SIZES))], ()):
        with bench.attempt(f"replayed steps, {optimizer}, {sizes}"):
            checks.test_replayed_steps_are_those_that_were_recorded(optimizer, sizes, _Patch())
    static_steps.REPLAYED = frozenset({"cuda"})


def _pytest(bench: Bench, file: str) -> None:
    """Run a file of tests, without the project's settings, which need its other tools, and without slow ones."""
    options = ["-v", "--tb=line", "-rf", "-m", "not slow", "-c", os.devnull, "--import-mode=importlib"]
    if importlib.util.find_spec("xdist") and (os.cpu_count() or 1) >= 8:
        options += ["-n", "4"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--noconftest", "--rootdir", str(ROOT)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    limit = max(bench.end - time.monotonic(), 10)
    subprocess.run([*command, *options, file], cwd=ROOT, env=environment, check=True, timeout=limit)


def _checks() -> Any:
    """Return the tests' module, also where there is no pytest, whose marks are then ignored."""
    sys.path.insert(0, str(ROOT))
    if not PYTEST:
        sys.modules["pytest"] = SimpleNamespace(mark=_Marks())  # type: ignore[assignment]
    return importlib.import_module("tests.test_cuda")


class _Patch:
    """What a test asks of pytest's monkeypatch; nothing is put back."""

    def setattr(self, target: Any, name: str, value: Any) -> None:
        setattr(target, name, value)

    def setenv(self, name: str, value: str) -> None:
        os.environ[name] = value


class _Marks:
    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: lambda test: test
