"""Methods in which every model travels and every node chooses whom to average with, on digits in two clusters.

    choosing.py --seeds 3

Nodes have seven of the ten classes, and the two clusters have four in common. All methods are tuned in the same way on
validation data; everything but the step size is at its default.
"""

# ci: --seeds 1 --rounds 1 --nodes 4

from __future__ import annotations

import argparse
from functools import partial

import torch
from _measure import add_device  # type: ignore

from graphcollab import Tasks, build_model, compare, load_dataset, methods, report
from graphcollab.data.partition import class_clusters

METHODS = ("local", "fedavg", "heurfedamp", "fedamp", "dpfl", "pfedgraph")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--methods", nargs="+", default=METHODS, choices=methods.__all__, metavar="METHOD", help="default: %(default)s")
    add("--nodes", type=int, default=20, help="default: %(default)s")
    add("--seeds", type=int, default=3, help="default: %(default)s")
    add("--rounds", type=int, default=20, help="default: %(default)s")
    add("--lr", type=float, nargs="+", default=[0.003, 0.02], help="step sizes to choose from (default: %(default)s)")
    add_device(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = load_dataset("digits")

    def tasks(seed: int) -> Tasks:
        return class_clusters(data, nodes=args.nodes, clusters=2, per_class=6, overlap=4, val=2, test=15, seed=seed)

    train = {"epochs": 5, "batch_size": 10, "momentum": 0.9, "weight_decay": 0.0}
    comparison = compare(
        {name: partial(methods.get_method(name), **train) for name in args.methods},
        tasks,
        lambda: build_model("mlp", data.input_shape, data.num_classes),
        range(args.seeds),
        {"*": {"lr": args.lr}},
        rounds=args.rounds,
        evaluate_every=args.rounds,
        compute=args.device,
        progress=True,
    )
    print(report.results_table(comparison))
    if args.seeds > 1:
        print(report.paired_table(comparison, reference=args.methods[0], over="seeds"))


if __name__ == "__main__":
    main()
