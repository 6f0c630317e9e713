"""What does it cost DAC that nodes tell and remember few of the others? Fashion-MNIST and CIFAR-10 on 200 nodes.

    dac_memory.py --root DATA

Four clusters of 120, 50, 20 and 10 nodes permute the labels in their own ways, so only nodes of one's own cluster help.
Every node has 50 training images and meets 5 others a round. By default DAC's nodes tell of the 20 others they measured
last, and remember 75 of those they were told of; the other contenders are no bound, as in the thesis, and a tighter
one. The table has the mean test accuracy over nodes, the same for the two small clusters alone, and how many others a
node knows in the end; then, for both accuracies, differences from no bound on the same tasks and models: the mean over
seeds, and its 95 % interval by Student's t.
"""

# ci: --datasets digits --nodes 12 5 4 3 --train 10 --test 50 --samples 2 --seeds 2 --rounds 3 --json $OUT/memory.json

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _measure import arguments, machine, write  # type: ignore
from scipy.stats import t as student

from graphcollab import build_model, load_dataset, run
from graphcollab.data.partition import permuted_labels
from graphcollab.methods import dac

BOUNDS = {"none": (None, None), "default": (20, 75), "tight": (10, 25)}  # tells, limit


def interval(one: Sequence[float], other: Sequence[float]) -> str:
    """Return the mean of the differences in points, and its 95 % interval."""
    changes = [100 * (a - b) for a, b in zip(one, other, strict=True)]
    half = student.ppf(0.975, len(changes) - 1) * statistics.stdev(changes) / len(changes) ** 0.5
    mean = statistics.mean(changes)
    return f"{mean:+.2f} ({mean - half:+.2f} to {mean + half:+.2f})"


def main() -> None:
    """Play all bounds on the same tasks, seed by seed."""
    parser = arguments(__doc__)
    parser.add_argument("--root", type=Path, help="folder with the datasets")
    parser.add_argument("--datasets", nargs="+", default=["fashion_mnist", "cifar10"])
    parser.add_argument("--nodes", type=int, nargs="+", default=[120, 50, 20, 10], help="of every cluster")
    parser.add_argument("--train", type=int, default=50, help="training images of a node")
    parser.add_argument("--test", type=int, default=500, help="test images of a node")
    parser.add_argument("--samples", type=int, default=5, help="others that a node meets in a round")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    print(machine(args.device))
    results: dict[str, Any] = {}
    for name in args.datasets:
        data = load_dataset(name, args.root)
        found: dict[str, list[tuple[float, float, float]]] = {bound: [] for bound in BOUNDS}
        for seed in range(args.seeds):
            tasks = permuted_labels(data, nodes=args.nodes, train=args.train, val=10, test=args.test, seed=seed)
            small = tasks.require_cluster() >= len(args.nodes) // 2
            for bound, (tells, limit) in BOUNDS.items():
                result = run(
                    dac(samples=args.samples, tells=tells, limit=limit, lr=3e-3), tasks,
                    lambda data=data: build_model("mlp", data.input_shape, data.num_classes, hidden=32),
                    rounds=args.rounds, evaluate_every=args.rounds, seed=seed, compute=args.device,
                )  # fmt: skip
                accuracy = result.history.table("test_metric")[-1]
                known = result.data.memory.edge_index.shape[1] / tasks.num_nodes
                found[bound].append((float(accuracy.mean()), float(accuracy[small].mean()), known))
        results[name] = found
        print(f"{name}: {sum(args.nodes)} nodes, {args.seeds} seeds, {args.rounds} rounds")
        for bound, scores in found.items():
            every, few, known = (statistics.mean(column) for column in zip(*scores, strict=True))
            line = f"  {bound:8} {100 * every:6.2f} %   in small clusters {100 * few:6.2f} %   knows {known:5.1f}"
            if bound != "none":
                pairs = zip(zip(*scores, strict=True), zip(*found["none"], strict=True), strict=True)
                line += "   " + ", ".join([interval(*pair) for pair in pairs][:2])
            print(line, flush=True)
    write(results, args)


if __name__ == "__main__":
    main()
