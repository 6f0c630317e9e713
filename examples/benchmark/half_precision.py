"""Does training with forward passes in bfloat16 give models as good as in single precision? For FedAvg's CNN.

    half_precision.py --root DATA --datasets fashion_mnist cifar10

Ten nodes with images of all classes average their models after every local epoch. Every seed is played twice, with
autocast=False and True, from the same initial models, on the same batches and with the same test images. Printed are
the nodes' mean accuracies and the mean of the differences with its 95 % interval.
"""

# ci: --seeds 2 --rounds 2 --train 20 --test 40 --json $OUT/half_precision.json

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any, Literal

from _measure import add_device  # type: ignore

from graphcollab import load_dataset, run
from graphcollab.analysis.metrics import paired_difference
from graphcollab.data.partition import label_shift
from graphcollab.methods import fedavg
from graphcollab.models.classifiers import fedavg_cnn
from graphcollab.train import Compute

NODES = 10


def play(data: Any, seed: int, autocast: bool, args: argparse.Namespace) -> float:
    """Return the mean accuracy of the nodes after a run, in percent."""
    tasks = label_shift(data, [range(data.num_classes)], [NODES], args.train, 0, args.test, seed)
    padding: Literal["valid", "same"] = "valid" if min(data.input_shape[1:]) >= 16 else "same"
    make = partial(fedavg_cnn, data.input_shape, data.num_classes, padding)
    result = run(
        fedavg(epochs=1, lr=args.lr, batch_size=32),
        tasks,
        make,
        rounds=args.rounds,
        seed=seed,
        evaluate_every=args.rounds,
        compute=Compute(autocast=autocast, num_threads=1, device=args.device),
    )
    return 100 * float(result.history.table("test_metric")[-1].mean())


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["digits"])
    parser.add_argument("--root", help="where the data are")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--train", type=int, default=320, help="training samples of a node")
    parser.add_argument("--test", type=int, default=500, help="test samples of a node")
    parser.add_argument("--lr", type=float, default=0.05)
    add_device(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    args = parser.parse_args()
    results = {}
    for name in args.datasets:
        data = load_dataset(name, args.root) if args.root else load_dataset(name)
        whole, half = ([play(data, seed, how, args) for seed in range(args.seeds)] for how in (False, True))
        apart = paired_difference(half, whole)
        print(f"{name}, {args.seeds} seeds, {args.rounds} rounds")
        for what, values in (("single precision", whole), ("bfloat16", half)):
            each = " ".join(f"{value:6.2f}" for value in values)
            print(f"  {what:17} {each}   mean {sum(values) / len(values):6.2f}")
        print(f"  bfloat16 minus single precision: {apart.mean:+.2f} ({apart.low:+.2f} to {apart.high:+.2f})")
        results[name] = {"single": whole, "bfloat16": half}
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
