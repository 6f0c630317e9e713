"""Times mixing 100 models over a complete graph and over 10 neighbors, forward and backward, and measures its memory.

Times are compared with the plain torch products that do the same, dense and sparse, and those of forward passes also
with copying the models: into memory that is there, and into new memory. When a forward pass begins, the result of the
one before is gone, so its memory is taken again; where a result is kept, the next one is in new memory. Page faults are
counted. Memory is what a call adds at its peak, in units of the models [K, P], measured in a process of its own that
holds nothing else: forward, including its output; backward, beyond the incoming gradient.

``--busy`` times the sparse product with one thread and with all, first on the machine as it is, then with another
process that keeps a core busy. It compares threads that take blocks in turn, as in graphcollab, with threads that share
every operation.
"""

# ci: --nodes 12 --parameters 30000 --repeats 1 --json $OUT/mixing.json
# ci: --busy --nodes 12 --parameters 90000 --repeats 1

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _measure import Timed, arguments, interleave, machine, peak_bytes, write  # type: ignore
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.nn.functional import mix
from graphcollab.nn.functional.structure import Structure
from graphcollab.transforms import Complete, RandomRegular, WithSelfLoops

GRAPHS = ("complete", "10 neighbors")
KEPT = 5  # results, at 351 MB each, and as many copies
CALLS = ("forward", "backward to weights", "backward to both")


def make_edges(graph: str, nodes: int, device: str) -> tuple[Tensor, Tensor]:
    """Return edges and weights, a row of which sums to one."""
    topology = Complete() if graph == "complete" else RandomRegular(min(10, nodes - 2))
    edge_index = WithSelfLoops()(topology(Data(num_nodes=nodes))).edge_index.to(device)
    weight = torch.rand(edge_index.shape[1], generator=torch.Generator().manual_seed(0)).to(device)
    total = weight.new_zeros(nodes).index_add_(0, edge_index[1], weight)
    return edge_index, weight / total[edge_index[1]]


def make_call(call: str, x: Tensor, weight: Tensor, structure: Structure) -> Callable[[], Any]:
    """Return graphcollab's forward pass, or its backward pass for an incoming gradient that is there already."""
    if call == "forward":
        return lambda: mix(x, weight, structure)
    wanted = [weight.requires_grad_()] + ([x.requires_grad_()] if call == "backward to both" else [])
    out = mix(x, weight, structure)
    gradient = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, wanted, gradient, retain_graph=True)


def plain_products(call: str, x: Tensor, weight: Tensor, structure: Structure) -> dict[str, Callable[[], Any]]:
    """Return the plain ways to the same numbers, by name; on a complete graph the dense one alone."""
    receiver, sender, values = structure.receiver, structure.sender, structure.sort(weight)
    back = structure.transposed
    sparse, turned = structure.adjacency(values), back.adjacency(back.sort(values))
    dense = sparse.to_dense()
    gradient = torch.ones_like(x) if call != "forward" else x
    edges = list(zip(receiver.tolist(), sender.tolist(), strict=True))
    forward = {"dense": lambda: dense @ x, "sparse": lambda: sparse @ x}
    to_x = {"dense": lambda: dense.T @ gradient, "sparse": lambda: turned @ gradient}
    to_weight = {
        "dense": lambda: (gradient @ x.T)[receiver, sender],
        "edge by edge": lambda: torch.stack([torch.dot(gradient[i], x[j]) for i, j in edges]),
    }
    ways: dict[str, Callable[[], Any]] = {**(forward if call == "forward" else to_weight)}
    if call == "backward to both":
        ways = {f"{name}, weights dense": partial(_both, to_x[name], to_weight["dense"]) for name in to_x}
    return dict([*ways.items()][:1]) if structure.density > 0.5 else ways


def copies(x: Tensor, weight: Tensor, structure: Structure) -> dict[str, Callable[[], Any]]:
    """Return ways to copy the models: into memory that is there, and into new memory."""
    there = torch.empty_like(x)
    return {"copy_": lambda: there.copy_(x), "clone": x.clone}


def time_kept(mix_once: Callable[[], Tensor], x: Tensor, device: str) -> dict[str, Timed]:
    """Time forward passes, and copies, whose results are kept, so that each is in new memory."""
    print("  results are kept")
    kept: list[Tensor] = []
    calls = {"graphcollab, kept": lambda: kept.append(mix_once()), "clone, kept": lambda: kept.append(x.clone())}
    with torch.no_grad():
        return interleave(calls, KEPT, device)


def page_faults(call: Callable[[], Any]) -> int:
    """Return how many pages the system provides during a call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _both(one: Callable[[], Any], other: Callable[[], Any]) -> None:
    kept = one(), other()
    del kept


def probe(graph: str, call: str, nodes: int, parameters: int, device: str) -> None:
    """Print the memory that a call adds at its peak, in units of [K, P]."""
    edge_index, weight = make_edges(graph, nodes, device)
    structure = Structure.from_edges(edge_index, (nodes, nodes))
    make_call(call, torch.randn(nodes, 2000, device=device), weight.clone(), structure)()  # start threads and libraries
    measured = make_call(call, torch.randn(nodes, parameters, device=device), weight, structure)
    print(peak_bytes(measured, device) / (4 * nodes * parameters))


def split_operations(x: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """Return the sparse product, block by block, with all threads at work on every block."""
    matrix, out = structure.adjacency(structure.sort(weight)), torch.empty_like(x)
    step = 2**21 // (4 * len(x))  # the columns of which 2 MiB hold all rows, as in graphcollab
    for start in range(0, x.shape[1], step):
        out[:, start : start + step] = matrix @ x[:, start : start + step].contiguous()
    return out


def beside(busy: bool, nodes: int, parameters: int, repeats: int) -> dict[str, Any]:
    """Time sparse products with one thread and with all, alone or beside a busy process."""
    x = torch.randn(nodes, parameters)
    edge_index, weight = make_edges("10 neighbors", nodes, "cpu")
    structure = Structure.from_edges(edge_index, (nodes, nodes))
    ways = {"shared blocks": lambda: mix(x, weight, structure, kernel="csr")}
    ways["shared operations"] = lambda: split_operations(x, weight, structure)

    def with_threads(count: int, way: str) -> None:
        torch.set_num_threads(count)
        ways[way]()

    counts = sorted({1, torch.get_num_threads()})
    contenders = {f"{way}, threads: {count}": partial(with_threads, count, way) for way in ways for count in counts}
    print("beside a busy process" if busy else "as the machine is")
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        timed = interleave(contenders, repeats, "cpu")
    finally:
        torch.set_num_threads(counts[-1])
        if other is not None:
            other.kill()
            other.wait()
    return {name: value.as_dict() for name, value in timed.items()}


def main() -> None:
    """Measure."""
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--parameters", type=int, default=878_538)
    parser.add_argument("--probe", nargs=2, metavar=("GRAPH", "CALL"), help="measure the memory of one call and stop")
    parser.add_argument("--busy", action="store_true", help="compare numbers of threads instead, on a CPU")
    args = parser.parse_args()
    if args.probe:
        graph, call = args.probe
        probe(graph, call, args.nodes, args.parameters, args.device)
        return
    print(machine(args.device))
    if args.busy:
        found = {str(busy): beside(busy, args.nodes, args.parameters, args.repeats) for busy in (False, True)}
        write({"busy": found}, args)
        return
    x = torch.randn(args.nodes, args.parameters, device=args.device)
    results: dict[str, Any] = {}
    for graph in GRAPHS:
        edge_index, weight = make_edges(graph, args.nodes, args.device)
        structure = Structure.from_edges(edge_index, (args.nodes, args.nodes))
        for call in CALLS:
            name = f"{graph}, {call}"
            print(name)
            mine = make_call(call, x.detach(), weight.detach(), structure)
            plain = plain_products(call, x, weight, structure)
            rest = copies(x, weight, structure) if call == "forward" and args.device == "cpu" else {}
            with torch.no_grad():
                timed = interleave({"graphcollab": mine, **plain, **rest}, args.repeats, args.device)
                faults = {way: page_faults(function) for way, function in {"graphcollab": mine, **rest}.items()}
            fastest = min(plain, key=lambda other: timed[other].median)
            ratios = {f"graphcollab / {other}": timed["graphcollab"].over(timed[other]) for other in (fastest, *rest)}
            if rest:
                timed |= time_kept(mine, x, args.device)
                ratios["both kept, graphcollab / clone"] = timed["graphcollab, kept"].over(timed["clone, kept"])
            options = ["--nodes", str(args.nodes), "--parameters", str(args.parameters), "--device", args.device]
            command = [sys.executable, __file__, "--probe", graph, call, *options]
            memory = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for ratio, value in ratios.items():
                print(f"  {ratio:34} {value}")
            print(f"  page faults                        {faults}\n  memory in [K, P]                   {memory:.2f}")
            results[name] = {
                "ratios": {ratio: value._asdict() for ratio, value in ratios.items()},
                "memory": round(memory, 3),
                "page faults": faults,
                "times": {key: value.as_dict() for key, value in timed.items()},
            }
    write(results, args)


if __name__ == "__main__":
    main()
