"""What decides whether meta-L2C learns anything: scale of the gradient, mixer step, weight decay, biases, dropping.

    mixer_settings.py
    mixer_settings.py --dataset fashion_mnist --root DATA --seeds 2

Undoes one of meta-L2C's deviations from the paper at a time, and adds one at a time to the paper's form (with the sum
of losses). Prints test accuracy, what nodes give their own model, the largest weight that a node gives to another, and
the mean weight by the number of classes that two nodes share.
"""

# ci: --seeds 1 --rounds 2

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch
from _figures import weight_by_overlap  # type: ignore
from _measure import add_device  # type: ignore

from graphcollab import build_model, load_dataset, run
from graphcollab.data.partition import shard_tasks
from graphcollab.methods import fedavg, local, meta_l2c

DEAL: dict[str, dict[str, Any]] = {
    "digits": {"shards": 20, "classes_per_node": 2},
    "fashion_mnist": {"shards": 20, "classes_per_node": 5, "shard_size": 15},
}
HIDDEN = {"digits": 64, "fashion_mnist": 100}
PAPER: dict[str, Any] = {"score": "product", "normalize": False, "own": "softmax", "decoupled": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "inner products": {"score": "product"},
    "inner products over √d": {"score": "scaled"},
    "changes as they are": {"normalize": False},
    "own model one among others": {"own": "softmax"},
    "own model without a gate": {"own": "largest"},
    "coupled decay": {"decoupled": False},
    "coupled decay, mean of losses": {"decoupled": False, "scale": "mean"},
    "no biases": {"bias": False},
    "step 0.03": {"mixer_lr": 0.03},
    "step 0.003": {"mixer_lr": 0.003},
    "dropping after round 11": {"drop_round": 10},
    "paper's form": {**PAPER, "mixer_lr": 0.1, "scale": "mean"},
    "paper's form, sum of losses": {**PAPER, "mixer_lr": 0.1},
    "paper's form, sum of losses, step 0.01": PAPER,
    "… with inner products over √d": {**PAPER, "mixer_lr": 0.1, "score": "scaled"},
    "… with cosines": {**PAPER, "mixer_lr": 0.1, "score": "cosine"},
    "… with normalized changes": {**PAPER, "mixer_lr": 0.1, "normalize": True},
    "… with decoupled decay": {**PAPER, "mixer_lr": 0.1, "decoupled": True},
    "… with a gate": {**PAPER, "mixer_lr": 0.1, "own": "gate"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits", choices=DEAL, help="default: %(default)s")
    parser.add_argument("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    parser.add_argument("--lr", type=float, default=0.05, help="step size of the models (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=40, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    add_device(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = load_dataset(args.dataset, args.root)
    model = partial(build_model, "mlp", data.input_shape, data.num_classes, hidden=HIDDEN[args.dataset])
    methods = {"local": partial(local, lr=args.lr), "fedavg": partial(fedavg, lr=args.lr)}
    methods |= {f"meta_l2c, {name}": partial(meta_l2c, lr=args.lr, **setting) for name, setting in VARIANTS.items()}
    width = max(map(len, methods))
    print(f"{data}, step {args.lr}, {args.rounds} rounds, {args.seeds} partitions")
    print(f"{'':{width}}  accuracy (each partition)    own  largest  mean weight by number of shared classes")
    for name, make in methods.items():
        accuracy, own, largest, overlap = [], 0.0, 0.0, torch.zeros(0)
        for seed in range(args.seeds):
            tasks = shard_tasks(data, seed=seed, **DEAL[args.dataset])
            result = run(
                make(), tasks, model, rounds=args.rounds, seed=seed, evaluate_every=args.rounds, compute=args.device
            )
            accuracy.append(100 * float(result.history.last("test_metric").mean()))
            weight, classes = result.data.edge_weight, torch.zeros(0) if tasks.classes is None else tasks.classes
            if len(weight):  # local training and FedAvg send nothing along edges
                sender, receiver = result.data.edge_index
                own += float(weight[sender == receiver].mean()) / args.seeds
                largest = max(largest, float(weight[sender != receiver].max()))
                means = weight_by_overlap(result.data.edge_index, weight, classes)[1]
                overlap = torch.as_tensor(means) + (overlap if len(overlap) else 0)
        each = " ".join(f"{value:.1f}" for value in accuracy)
        weights = " ".join(f"{float(value) / args.seeds:.3f}" for value in overlap) if largest else "none"
        mean = sum(accuracy) / len(accuracy)
        print(
            f"{name:{width}}  {mean:.2f} ({each}){'':{22 - len(each) - 2}} {own:.3f}    {largest:.3f}  {weights}",
            flush=True,
        )


if __name__ == "__main__":
    main()
