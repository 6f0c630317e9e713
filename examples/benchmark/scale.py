"""Times rounds of FedAvg, DPSGD, L2C, meta-L2C and DAC from 100 to 10,000 nodes with small models, all in one process.

Every node has 20 training samples and its own model, and hears 10 others; FedAvg goes through its server node. With DAC
a node meets 5 peers a round, from among all nodes, and remembers them and what they tell. The cost of a round per node
should not grow with the number of nodes. Memory is the peak of the whole process so far (on a GPU, of its tensors).
"""

# ci: --nodes 20 60 --repeats 1 --json $OUT/scale.json

from __future__ import annotations

import time
from typing import Any

import torch
from _measure import Timed, arguments, machine, status, write  # type: ignore
from torch_geometric.data import Data

from graphcollab import Method, Tasks, dac, dpsgd, fedavg, l2c, meta_l2c, run
from graphcollab.models import MLP
from graphcollab.tasks import Pool, Split
from graphcollab.train import Callback, History
from graphcollab.transforms import RandomRegular

CLASSES, TRAIN, HELD_OUT = 10, 20, 5
METHODS: dict[str, Method] = {
    "fedavg": fedavg(epochs=1),
    "dpsgd": dpsgd(epochs=1),
    "l2c": l2c(epochs=1, drop_round=None),
    "meta_l2c": meta_l2c(epochs=1, drop_round=None),
    "dac": dac(),
}


class Clock(Callback):
    """Seconds of every round, without evaluations."""

    def __init__(self, device: str) -> None:
        self.device, self.seconds, self.start = device, list[float](), 0.0

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Start the clock."""
        self.start = time.perf_counter()

    def on_round(self, data: Data, history: History) -> None:
        """Stop it and start it again."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - self.start)
        self.start = time.perf_counter()


def make_tasks(nodes: int) -> Tasks:
    """Give every node random samples."""
    generator, pools, splits = torch.Generator().manual_seed(0), {}, {}
    for name, size in {"train": TRAIN, "val": HELD_OUT, "test": HELD_OUT}.items():
        count = nodes * size
        inputs = torch.randn(count, 64, generator=generator)
        pools[name] = Pool(inputs, torch.randint(CLASSES, (count,), generator=generator))
        splits[name] = Split(name, torch.arange(count), torch.arange(0, count + 1, size))
    return Tasks(pools, splits)


def peak_gigabytes(device: str) -> float:
    """Return the peak of memory in GiB."""
    return (torch.cuda.max_memory_allocated() if device == "cuda" else status("VmHWM")) / 2**30


def main() -> None:
    """Measure."""
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 10_000])
    args = parser.parse_args()
    print(machine(args.device))
    results: dict[str, Any] = {name: {} for name in METHODS}
    for nodes in sorted(args.nodes):
        tasks, graph = make_tasks(nodes), RandomRegular(10)(Data(num_nodes=nodes))
        for name, method in METHODS.items():
            clock, rounds = Clock(args.device), args.repeats + 1
            # The one evaluation comes after the last round.
            edges = graph if method.along_edges and not method.finds_peers else None
            result = run(
                method, tasks, lambda: MLP(64, 32, CLASSES), edges, rounds=rounds, evaluate_every=rounds,
                callbacks=[clock], device=args.device,
            )  # fmt: skip
            timed, peak = Timed(clock.seconds), peak_gigabytes(args.device)
            each = 1e3 * timed.median / nodes
            print(f"{nodes:7} nodes  {name:10} {each:8.3f} ms a node and round   peak {peak:5.2f} GiB   {timed}")
            if "memory" in result.data:
                known = result.data.memory.edge_index.shape[1] / nodes
                print(f"{'':15} {name:10} a node knows {known:.1f} others after {rounds} rounds")
            results[name][nodes] = {"ms_per_node": round(each, 4), "peak_gib": round(peak, 2), **timed.as_dict()}
    few, many = min(args.nodes), max(args.nodes)
    for name, found in results.items():
        found["ratio"] = round(found[many]["ms_per_node"] / found[few]["ms_per_node"], 3)
        print(f"{name:10} cost of a node at {many} nodes / at {few}: {found['ratio']:.2f}")
    write(results, args)


if __name__ == "__main__":
    main()
