"""Do nodes find those with the same task? L2C's Fig. 4: five two-class tasks with three nodes each, nothing dropped.

    groups.py --dataset fashion_mnist --root DATA --shard-size 50

For several rounds, prints how well mixing weights tell same-task pairs (area under the ROC curve over all pairs), and
the share of its weight, including that of its own model, that a node keeps inside its group. Draws the weights.
"""

# ci: --seeds 1 --rounds 5 --out $OUT/groups --json $OUT/groups.json

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _measure import add_device  # type: ignore

from graphcollab import build_model, load_dataset, report, run
from graphcollab._base.files import write_whole
from graphcollab.analysis.metrics import in_cluster_share, recovery_auc
from graphcollab.data.partition import grouped_tasks
from graphcollab.methods import l2c, meta_l2c
from graphcollab.train import RecordGraph

PLAIN = str.maketrans({" ": "_", ",": None, "'": None})
SHOWN = (1, 3, 5, 10, 20)
UNBOUNDED = partial(meta_l2c, score="product", normalize=False, own="softmax", decoupled=False)
METHODS: dict[str, Any] = {
    "l2c": l2c,
    "meta_l2c": meta_l2c,
    "l2c, the paper's form": partial(l2c, own="softmax", decoupled=False),
    "meta_l2c, the paper's form, sum of losses, mixer step 0.1": partial(UNBOUNDED, mixer_lr=0.1),
    "meta_l2c, the paper's form, sum of losses, mixer step 0.01": UNBOUNDED,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help="default: %(default)s")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--model", default="mlp", help="default: %(default)s")
    add("--shard-size", type=int, help="samples of each class at a node (default: all are dealt out)")
    add("--lr", type=float, default=0.05, help="step size of the models (default: %(default)s)")
    add("--seeds", type=int, default=5, help="default: %(default)s")
    add("--rounds", type=int, default=20, help="default: %(default)s")
    add("--threads", type=int, default=1, help="default: %(default)s")
    add_device(parser)
    add("--out", type=Path, default=Path("results/groups"), help="folder for pictures (default: %(default)s)")
    add("--json", metavar="FILE", help="write the results there")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = load_dataset(args.dataset, args.root)
    model = partial(build_model, args.model, data.input_shape, data.num_classes)
    shown = sorted({round_ for round_ in SHOWN if round_ <= args.rounds} | {args.rounds})
    group = torch.arange(5).repeat_interleave(3)  # as dealt out by grouped_tasks
    told: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, make in METHODS.items():
        told[name] = {str(round_): {"auc": [], "share": []} for round_ in shown}
        for seed in range(args.seeds):
            tasks = grouped_tasks(data, 5, 3, seed=seed, shard_size=args.shard_size)
            record = RecordGraph(shown)
            settings: dict[str, Any] = {"rounds": args.rounds, "seed": seed, "evaluate_every": args.rounds}
            result = run(make(lr=args.lr), tasks, model, callbacks=[record], compute=args.device, **settings)
            for round_, graph in result.history.graphs.items():
                told[name][str(round_)]["auc"].append(float(recovery_auc(*graph, group)))
                told[name][str(round_)]["share"].append(float(in_cluster_share(*graph, group)))
        print(f"\n{name}\nround  AUC: mean (lowest)  share in the group: mean (lowest), of {args.seeds} partitions")
        for number, values in told[name].items():
            auc, share = values["auc"], values["share"]
            kept = f"{100 * sum(share) / len(share):5.1f} % ({100 * min(share):5.1f} %)"
            print(f"{number:>5}  {sum(auc) / len(auc):.3f} ({min(auc):.3f})       {kept}")
        figure = report.weight_heatmaps(result.history.graphs, tasks.num_nodes, cluster=group, title=name)
        picture = args.out / f"weights_{name.translate(PLAIN)}.png"
        print("wrote", report.save_figure(figure, picture))
    if args.json:
        print("wrote", write_whole(args.json, json.dumps(told).encode()))


if __name__ == "__main__":
    main()
