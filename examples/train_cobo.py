"""Who should collaborate with whom, and when should they stop? CoBo and the methods it is compared with.

All clusters of nodes read the same images, but each permutes the labels in its own way, so that a node's peers help and
all others do harm (`--task permuted`); or each cluster has its own classes (`--task disjoint`). Only `oracle` is told
the clusters; `ifca` and `fc` are told how many there are. All methods take one local step a round. Settings with
several values are chosen on validation data, in the same way for all methods. Without arguments the images are
handwritten digits. With a folder for `--checkpoint`, a comparison that was stopped can be resumed. This is CoBo's
cross-silo setting:

    train_cobo.py --dataset cifar100 --download --root DATA --model resnet9 --fraction 1 --val 0 --batch-size 128
        --lrs 0.01 --rhos 0.05 --gammas 0.01 --lambdas 1 --rounds 40000 --evaluate-every 400 --device cuda
        --methods fedavg fedavg_finetuned ditto ifca fc cobo cobo_mixed oracle --checkpoint runs/cobo
"""

# ci: --seeds 1 --rounds 20 --evaluate-every 10 --out $OUT/cobo --json $OUT/cobo.json --checkpoint $OUT/runs
# ci: --task disjoint --nodes 3 2 --seeds 1 --rounds 10 --evaluate-every 10 --methods cobo oracle --no-pictures

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _device import add_device  # type: ignore
from benchmark._figures import comparison_figures, weight_curves  # type: ignore
from benchmark._tables import time_to_table, weight_table  # type: ignore
from torch_geometric.data import Data
from tqdm import tqdm

from graphcollab import build_model, compare, load_dataset, methods, report
from graphcollab._base.files import write_whole
from graphcollab.comm import is_main_process, only_main_process
from graphcollab.data.datasets.labeled_arrays import join_datasets
from graphcollab.data.partition import disjoint_classes, permuted_labels
from graphcollab.models import MODELS
from graphcollab.train import Checkpoint, RecordGraph

SAMPLINGS: dict[str, Any] = {"cobo": "constant", "cobo_time": "time", "cobo_mixed": "mixed", "cobo_all": "all"}
NUMBERS = {"--lrs": [0.3], "--rhos": [0.1], "--gammas": [0.03], "--lambdas": [0.03]}  # ρ, γ of CoBo, λ of Ditto
COUNTS = {"val": 20, "rounds": 400, "evaluate-every": 50, "batch-size": 32, "seeds": 3, "switch": 80, "threads": 1}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", nargs="+", default=["digits"], help="one, or several whose classes are joined (default: digits)")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--download", action="store_true", help="fetch the dataset if it is not there")
    add("--task", choices=("permuted", "disjoint"), default="permuted", help="default: %(default)s")
    add("--nodes", type=int, nargs="+", default=[2, 2, 2, 2], help="nodes in each cluster (default: 2 2 2 2)")
    add("--fraction", type=float, default=0.2, help="share of the images that is used, for permuted (default: 0.2)")
    add("--train", type=int, help="training images of each node (default: all)")
    add("--test", type=int, help="test images of each node (default: all of its cluster)")
    add("--model", default="mlp", choices=MODELS, help="default: %(default)s")
    add("--width", type=int, help="width of the model, if it has one")
    add("--methods", nargs="+", help="default: all but ifca_redrawn and CoBo's other ways to sample pairs")
    for name, values in NUMBERS.items():
        add(name, type=float, nargs="+", default=values, help=f"to choose from (default: {values})")
    add("--finetune-steps", type=int, nargs="+", default=[400], help="after FedAvg (default: 400)")
    for name, value in COUNTS.items():
        add(f"--{name}", type=int, default=value, help="default: %(default)s")
    add("--decay", type=float, default=0.5, help="exponent of cobo_time and cobo_mixed (default: 0.5; paper: 1)")
    add("--target", type=float, help="accuracy to reach (default: that of local training in the end)")
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add_device(parser)
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, default=Path("results/train_cobo"), help="folder for pictures (default: %(default)s)")
    add("--no-pictures", action="store_true")
    args = parser.parse_args()
    if min(args.seeds, args.rounds, args.evaluate_every, args.threads, len(args.nodes) - 1) < 1:
        parser.error("--seeds, --rounds, --evaluate-every and --threads must be at least 1, with two or more --nodes")
    return args


def contestants(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the methods by name, and the settings to choose from."""
    step: dict[str, Any] = {"batch_size": args.batch_size, "weight_decay": 0.0}
    one, clusters, total = {**step, "steps": 1}, len(args.nodes), sum(args.nodes)
    make: dict[str, Any] = {name: partial(methods.get_method(name), **one) for name in ("local", "fedavg")}
    make |= {name: partial(methods.get_method(name), **one) for name in ("fedavg_finetuned", "ditto")}
    make["ifca"] = partial(methods.ifca, clusters=clusters, samples=args.batch_size, **one)
    make["ifca_redrawn"] = partial(make["ifca"], redraws=20)
    make["fc"] = partial(methods.fc, quantile=(total / clusters - 0.5) / total, **step)
    make["fomo"] = partial(methods.fomo, samples=min(5, total - 1), **one)
    make["cga"] = partial(methods.cga, momentum=0.0, **step)
    for name, kind in SAMPLINGS.items():
        falls = {"time": {"decay": args.decay}, "mixed": {"decay": args.decay, "switch": args.switch}}.get(kind, {})
        make[name] = partial(methods.cobo, sampling=kind, **falls, **step)
    make["oracle"] = partial(methods.fedavg, within="cluster", **one)
    wanted = args.methods or [name for name in make if name not in {"ifca_redrawn", *SAMPLINGS} or name == "cobo"]
    if unknown := sorted(set(wanted) - set(make)):
        raise SystemExit(f"--methods {' '.join(unknown)} is unknown: choose from {' '.join(make)}")
    grids: dict[str, Any] = {
        "ditto": {"lam": args.lambdas},
        "fedavg_finetuned": {"finetune_steps": args.finetune_steps},
    }
    grids |= {name: {"rho": args.rhos, "gamma": args.gammas} for name in SAMPLINGS}
    chosen = {name: making for name, making in make.items() if name in {"local", *wanted}}
    return chosen, {"*": {"lr": args.lrs}, **{name: grid for name, grid in grids.items() if name in chosen}}


def server_graph(data: Data) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an edge of weight 1 from every node to all others that will share its server in the next round."""
    node, place = data.server.edge_index
    home = torch.full_like(data.node_id, -1).index_copy_(0, node, place)
    there = data.present & ~data.isolated & (home >= 0)
    together = (home[:, None] == home) & there[:, None] & there
    receiver, sender = together.fill_diagonal_(False).nonzero().T
    return torch.stack([sender, receiver]), torch.ones(len(sender), dtype=data.x.dtype)


@only_main_process()
def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    sources = [load_dataset(name, args.root, args.download) for name in args.dataset]
    data = sources[0] if len(sources) == 1 else join_datasets(sources)
    deal = partial(permuted_labels, fraction=args.fraction) if args.task == "permuted" else disjoint_classes
    draw: Any = partial(deal, data, tuple(args.nodes), train=args.train, val=args.val, test=args.test)
    options = {} if args.width is None else {"width": args.width}
    model = partial(build_model, args.model, data.input_shape, data.num_classes, **options)
    chosen, grids = contestants(args)
    runs = sum(math.prod(map(len, {**grids["*"], **grids.get(name, {})}.values())) for name in chosen)
    kept: dict[int, Any] = {}  # of every trial: pairs compared, graphs of some rounds, and the last one
    play: dict[str, Any] = {"rounds": args.rounds, "evaluate_every": args.evaluate_every, "compute": args.device}
    checkpoint = args.checkpoint and Checkpoint(args.checkpoint, args.evaluate_every)
    play |= {"budget": "rounds", "checkpoint": checkpoint}
    play["callbacks"] = [RecordGraph(range(args.evaluate_every, args.rounds + 1, args.evaluate_every))]
    with tqdm(total=runs * args.seeds * args.rounds, unit="round", disable=not is_main_process()) as bar:

        def keep(trial: Any, result: Any, number: int, total: int) -> None:
            if result is not None:  # it is None where the trial failed
                graphs, state = result.history.graphs, result.data
                last = server_graph(state) if "server" in state else graphs[max(graphs)] if graphs else None
                kept[id(trial)] = state.get("pairs_compared"), graphs, last
            bar.update(args.rounds)
            bar.set_postfix_str(f"{trial.method} on problem {trial.seed + 1}")

        found = compare(chosen, lambda seed: draw(seed=seed), model, range(args.seeds), grids, on_trial=keep, **play)
    print(report.results_table(found, reference="local"))
    print(f"\n{report.paired_table(found, 'local', over='seeds')}")
    target = found.rows()["local"]["mean"] if args.target is None else args.target
    if target == target:  # not NaN, as where local training failed
        print("\n" + time_to_table(found, target))
    cluster = draw(seed=0).cluster
    seen = {n: [kept[id(t)] for t in many if not t.failure] for n, many in found.chosen.items() if n != "local"}
    seen = {name: many for name, many in seen.items() if many}
    print("\nwho listens to whom in the end")
    print(weight_table({name: [last for _, _, last in many] for name, many in seen.items()}, cluster))
    for name, many in seen.items():
        if many[0][0] is not None:
            pairs, every = sum(n for n, _, _ in many) / len(many), math.comb(len(cluster), 2) * args.rounds
            print(f"{name}: {2 * pairs:.0f} gradients at midpoints, {pairs / every:.1%} of those of all pairs")
    if args.json:
        print("wrote", write_whole(args.json, report.results_json(found, "local", arguments=vars(args)).encode()))
    if not args.no_pictures:
        shown = [name for name in seen if name in {*SAMPLINGS, "fc"}]
        figures = comparison_figures(found, shown, f"{' + '.join(args.dataset)}, {args.task}")
        figures |= {f"curves_{name}": weight_curves(seen[name][-1][1], cluster, title=name) for name in shown}
        for name, figure in figures.items():
            print("wrote", report.save_figure(figure, args.out / f"{name}.png"))


if __name__ == "__main__":
    main()
