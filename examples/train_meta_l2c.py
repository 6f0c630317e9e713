"""Nodes learn whom to listen to: local training, FedAvg, DPSGD, L2C and meta-L2C on the same non-IID tasks.

A dataset is dealt out to the nodes by the procedure of L2C's Fig. 2, a few classes to each. All methods get the same
partitions and initial models. Settings with several values in GRIDS are chosen on validation data, in the same way for
all methods. Without arguments the nodes read handwritten digits. With Fashion-MNIST in DATA they tell clothes apart:

    train_meta_l2c.py --dataset fashion_mnist --root DATA --nodes 40 --classes-per-node 5 --shard-size 12 --seeds 3
"""

# ci: --seeds 2 --rounds 12 --nodes 20 --out $OUT/demo --json $OUT/demo.json
# ci: --paper --seeds 1 --rounds 2 --nodes 10 --no-pictures

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _device import add_device  # type: ignore
from benchmark._figures import comparison_figures  # type: ignore
from torch_geometric.data import Data
from tqdm import tqdm

from graphcollab import build_model, compare, load_dataset, report
from graphcollab._base.files import write_whole
from graphcollab.comm import is_main_process, only_main_process
from graphcollab.data.datasets.catalog import DATASETS
from graphcollab.data.partition import shard_tasks
from graphcollab.methods import dpsgd, fedavg, l2c, local, meta_l2c
from graphcollab.models import MODELS
from graphcollab.persistence import History
from graphcollab.train import Callback, RecordGraph
from graphcollab.transforms import Ring

ROUNDS, EVALUATE_EVERY, SEEDS, NODES, CLASSES_PER_NODE = 50, 10, 5, 100, 2
SHOWN = (1, 10, 20)  # rounds in the heat maps, beside the last
GRIDS: dict[str, dict[str, list[Any]]] = {"*": {"lr": [0.05, 0.1]}}  # for all methods; see docs/reproduction.md
LEARNED = {"l2c": l2c, "meta_l2c": meta_l2c}
PAPER: dict[str, dict[str, Any]] = {  # what the defaults deviate from
    "l2c": {"own": "softmax", "decoupled": False, "drop_round": 10},
    "meta_l2c": {"score": "product", "normalize": False, "own": "softmax", "decoupled": False, "scale": "mean"},
}
PAPER["meta_l2c"] |= {"mixer_lr": 0.1, "drop_round": 10}


class CountRounds(Callback):
    """Moves one progress bar over the rounds of all runs."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def on_round(self, data: Data, history: History) -> None:
        """Move on by one."""
        self.bar.update(1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help=f"{', '.join(DATASETS)} (default: digits)")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--download", action="store_true", help="fetch the dataset if it is not there")
    add("--model", default="mlp", choices=MODELS, help="model of every node (default: mlp, 64 hidden units)")
    add("--nodes", type=int, default=NODES, help="default: %(default)s")
    add("--classes-per-node", type=int, default=CLASSES_PER_NODE, help="default: %(default)s")
    add("--shard-size", type=int, help="training samples of one class at one node (default: all are dealt out)")
    add("--seeds", type=int, default=SEEDS, help="number of partitions (default: %(default)s)")
    add("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    add_device(parser)
    add("--threads", type=int, default=1, help="CPU threads; small models gain nothing from many (default: 1)")
    add("--paper", action="store_true", help="L2C and meta-L2C in the paper's form, with its settings")
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, default=Path("results/train_meta_l2c"), help="folder for pictures (default: %(default)s)")
    add("--no-pictures", action="store_true")
    args = parser.parse_args()
    if min(args.nodes, args.classes_per_node, args.seeds, args.rounds, args.threads) < 1:
        parser.error("--nodes, --classes-per-node, --seeds, --rounds and --threads must be at least 1")
    return args


@only_main_process()
def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    data = load_dataset(args.dataset, args.root, args.download)
    shards, rest = divmod(args.nodes * args.classes_per_node, data.num_classes)
    if rest:
        step = data.num_classes // math.gcd(data.num_classes, args.classes_per_node)
        raise SystemExit(f"--nodes must be a multiple of {step}, so that all classes are dealt out, got {args.nodes}")
    methods: dict[str, Any] = {"local": local, "fedavg": fedavg, "dpsgd": partial(dpsgd, epochs=5)}
    methods |= {name: partial(make, **PAPER[name]) if args.paper else make for name, make in LEARNED.items()}
    grids = {} if args.paper else GRIDS
    runs = sum(math.prod(map(len, {**grids.get("*", {}), **grids.get(name, {})}.values())) for name in methods)
    print(f"{data}: {args.nodes} nodes with {args.classes_per_node} classes each")
    with tqdm(total=runs * args.seeds * args.rounds, unit="round", disable=not is_main_process()) as bar:
        comparison = compare(
            methods,
            lambda seed: shard_tasks(data, shards, args.classes_per_node, seed, shard_size=args.shard_size),
            lambda: build_model(args.model, data.input_shape, data.num_classes),
            range(args.seeds),
            grids,
            graphs={"dpsgd": Ring(max(1, args.nodes // 20))},
            on_trial=lambda trial, *_: bar.set_postfix_str(f"{trial.method} on partition {trial.seed + 1}"),
            rounds=args.rounds,
            evaluate_every=EVALUATE_EVERY,
            compute=args.device,
            callbacks=[CountRounds(bar), RecordGraph({*SHOWN, args.rounds})],
        )
    print(report.results_table(comparison))
    for column in ("mean", "worst10"):
        print(f"\n{report.paired_table(comparison, column=column, over='seeds')}")
    if args.json:
        print("wrote", write_whole(args.json, report.results_json(comparison, "local", arguments=vars(args)).encode()))
    if not args.no_pictures:
        title = f"{args.dataset}, {args.nodes} nodes, {args.seeds} partition{'s' * (args.seeds > 1)}"
        for name, figure in comparison_figures(comparison, ("l2c", "meta_l2c"), title).items():
            print("wrote", report.save_figure(figure, args.out / f"{name}.png"))


if __name__ == "__main__":
    main()
