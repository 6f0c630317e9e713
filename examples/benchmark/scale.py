"""Times rounds of FedAvg, DPSGD, L2C, meta-L2C and DAC from 100 to a million nodes with small models, in one process.

Every node has 20 training samples and its own model, and hears 10 others; FedAvg goes through its server node. With DAC
a node meets 5 peers a round, from among all nodes, and remembers them and what they tell. The cost of a round per node
should not grow with the number of nodes. Rounds are timed by the processor time of the process, which other work on the
machine hardly changes, and on a GPU by the clock. Memory is the peak of the process while a method runs (on a GPU, of
its tensors).

    scale.py --nodes 10000 1000000 --model linear --methods fedavg --repeats 2

Ten times as many nodes need ten times the memory: for a million take the linear model of 34 parameters.
"""

# ci: --nodes 20 60 --repeats 1 --json $OUT/scale.json
# ci: --nodes 20 60 --repeats 1 --model linear --methods fedavg dac

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from _measure import Timed, arguments, forget_peak, machine, on_gpu, peak, wait, write  # type: ignore
from torch import nn
from torch_geometric.data import Data

from graphcollab import Method, Tasks, run
from graphcollab.data.samples import Pool, Split
from graphcollab.methods import dac, dpsgd, fedavg, l2c, meta_l2c
from graphcollab.models import MLP
from graphcollab.persistence import History
from graphcollab.train import Callback
from graphcollab.transforms import RandomRegular

TRAIN, HELD_OUT = 20, 5
MODELS: dict[str, tuple[int, int, Callable[[], nn.Module]]] = {  # inputs, classes, and what makes the model
    "mlp": (64, 10, lambda: MLP(64, 32, 10)),  # 2,410 parameters
    "linear": (16, 2, lambda: nn.Linear(16, 2)),  # 34
}
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
        self.now = time.perf_counter if on_gpu(device) else time.process_time

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Start the clock."""
        self.start = self.now()

    def on_round(self, data: Data, history: History) -> None:
        """Stop it and start it again."""
        wait(self.device)
        self.seconds.append(self.now() - self.start)
        self.start = self.now()


def make_tasks(nodes: int, width: int, classes: int) -> Tasks:
    """Give every node random samples."""
    generator, pools, splits = torch.Generator().manual_seed(0), {}, {}
    for name, size in {"train": TRAIN, "val": HELD_OUT, "test": HELD_OUT}.items():
        count = nodes * size
        inputs = torch.randn(count, width, generator=generator)
        pools[name] = Pool(inputs, torch.randint(classes, (count,), generator=generator))
        splits[name] = Split(name, torch.arange(count), torch.arange(0, count + 1, size))
    return Tasks(pools, splits)


def main() -> None:
    """Measure."""
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--model", choices=MODELS, default="mlp")
    args = parser.parse_args()
    print(machine(args.device))
    width, classes, model = MODELS[args.model]
    results: dict[str, Any] = {name: {} for name in args.methods}
    for nodes in sorted(args.nodes):
        tasks = make_tasks(nodes, width, classes)
        listens = any(METHODS[name].along_edges and not METHODS[name].finds_peers for name in args.methods)
        graph = RandomRegular(10)(Data(num_nodes=nodes)) if listens else None
        for name in args.methods:
            method, clock, rounds = METHODS[name], Clock(args.device), args.repeats + 1
            forget_peak(args.device)
            # The one evaluation comes after the last round.
            edges = graph if method.along_edges and not method.finds_peers else None
            result = run(
                method, tasks, model, edges, rounds=rounds, evaluate_every=rounds,
                callbacks=[clock], compute=args.device,
            )  # fmt: skip
            timed, most = Timed(clock.seconds), peak(args.device) / 2**30
            each = 1e3 * timed.median / nodes
            print(f"{nodes:7} nodes  {name:10} {each:8.4f} ms a node and round   peak {most:5.2f} GiB   {timed}")
            if "memory" in result.data:
                known = result.data.memory.edge_index.shape[1] / nodes
                spent = ", ".join(f"{seconds:.2f}" for seconds in clock.seconds)
                print(f"{'':15} {name:10} rounds took {spent} s")
                print(f"{'':15} {name:10} a node knows {known:.1f} others after {rounds} rounds")
            results[name][nodes] = {"ms_per_node": round(each, 4), "peak_gib": round(most, 2), **timed.as_dict()}
    few, many = min(args.nodes), max(args.nodes)
    for name, found in results.items():
        found["ratio"] = round(found[many]["ms_per_node"] / found[few]["ms_per_node"], 3)
        print(f"{name:10} cost of a node at {many} nodes / at {few}: {found['ratio']:.2f}")
    write(results, args)


if __name__ == "__main__":
    main()
