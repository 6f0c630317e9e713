"""L2C and meta-L2C on images: Fashion-MNIST and CIFAR-10 at reduced size, all methods tuned on validation data.

    images.py --dataset fashion_mnist --root DATA
    images.py --dataset cifar10 --root DATA --checkpoint results/cifar10

The images are dealt out to nodes by the procedure of L2C's Fig. 2. With --checkpoint, the same command resumes a
comparison that was stopped by Ctrl-C or killed. SETTINGS has the setting of each dataset.
"""

# ci: --dataset digits --seeds 1 --rounds 2 --checkpoint $OUT/images --json $OUT/images.json
# ci: --dataset digits --seeds 1 --rounds 2 --checkpoint $OUT/images

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from graphcollab import build_model, compare, fedavg, l2c, load_dataset, local, meta_l2c, report, shard_tasks
from graphcollab.files import write_whole
from graphcollab.train import RecordGraph

# drop_round None: all pairs stay connected. Grids are searched on validation data, over all partitions together.
SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {
        "model": partial(build_model, "mlp"),
        "deal": {"shards": 4, "classes_per_node": 2},
        "rounds": 20,
        "train": {},
        "grids": {"*": {"lr": [0.05]}},
    },
    "fashion_mnist": {  # 40 nodes with 60 training and 15 validation images in all, of 5 classes each
        "model": partial(build_model, "mlp", hidden=100),
        "deal": {"shards": 20, "classes_per_node": 5, "shard_size": 15},
        "rounds": 40,
        "train": {},
        "grids": {
            "*": {"lr": [0.05]},
            "l2c": {"mixer_lr": [0.1, 0.03, 0.01], "drop_round": [10, None]},
            "meta_l2c": {"mixer_lr": [0.01, 0.003], "drop_round": [10, None]},
        },
    },
    "cifar10": {  # 20 nodes with 80 training and 20 validation images in all, of 2 classes each
        "model": partial(build_model, "fedavg_cnn"),
        "deal": {"shards": 4, "classes_per_node": 2, "shard_size": 50},
        "rounds": 25,
        "train": {"batch_size": 20},
        "grids": {
            "*": {"lr": [0.05]},
            "l2c": {"drop_round": [None]},
            "meta_l2c": {"drop_round": [None]},
        },
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="fashion_mnist", choices=SETTINGS, help="default: %(default)s")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--methods", nargs="+", help="default: all four")
    add("--seeds", type=int, default=3, help="number of partitions (default: %(default)s)")
    add("--rounds", type=int, help="default: that of the setting")
    add("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    add("--device", default="cpu", help="default: %(default)s")
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add("--json", metavar="FILE", help="write the results there")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    setting = SETTINGS[args.dataset]
    data = load_dataset(args.dataset, args.root)
    rounds = args.rounds or setting["rounds"]
    methods = {m.__name__: partial(m, **setting["train"]) for m in (local, fedavg, l2c, meta_l2c)}
    chosen = {name: methods[name] for name in args.methods or methods}
    with tqdm(unit="run") as bar:

        def tell(trial: Any, result: Any, number: int, total: int) -> None:
            bar.total = total
            bar.update(1)
            setting = " ".join(f"{key}={value}" for key, value in trial.setting.items())
            scores = f"validation {100 * trial.validation:.2f} %, test {100 * trial.summary['mean']:.2f} %"
            bar.write(f"{trial.method} {setting} partition {trial.seed}: {scores}")

        comparison = compare(
            chosen,
            lambda seed: shard_tasks(data, seed=seed, **setting["deal"]),
            partial(setting["model"], input_shape=data.input_shape, num_classes=data.num_classes),
            range(args.seeds),
            {name: grid for name, grid in setting["grids"].items() if name in chosen or name == "*"},
            on_trial=tell,
            rounds=rounds,
            evaluate_every=max(rounds // 2, 1),
            device=args.device,
            checkpoint=args.checkpoint,
            callbacks=[RecordGraph({1, 10, 20, rounds})],
        )
    print("\n" + report.results_table(comparison))
    for reference in [name for name in ("local", "l2c") if name in chosen]:
        print("\n" + report.paired_table(comparison, reference))
    if args.json:
        print("wrote", write_whole(args.json, report.results_json(comparison, "local", arguments=vars(args)).encode()))


if __name__ == "__main__":
    main()
