"""Nodes with different models find those with the same classes: MAPL on handwritten digits.

Two clusters of nodes have classes of their own (`--scenario 1` and 3) or some in common (2 and 4). Every node has one
of four small architectures, so models cannot be averaged. Instead, nodes share class prototypes, and learn from each
other's classifiers whom to listen to. `local` trains on the same views and sends nothing; `alone` does the same with
MAPL's whole loss, so `mapl` minus `alone` is what nodes gain from each other. The pictures show accuracies, the learned
weights over rounds beside the share of common classes, and the latents of all nodes in the plane.
"""

# ci: --rounds 6 --warmup 2 --seeds 1 --nodes 4 --out $OUT/mapl --json $OUT/mapl.json
# ci: --scenario 4 --per-class 14 --val 2 --rounds 3 --warmup 1 --seeds 1 --methods mapl --no-pictures

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _device import add_device  # type: ignore
from _latents import latent_figure  # type: ignore
from benchmark._tables import budget_table  # type: ignore
from torch import nn
from tqdm import tqdm

from graphcollab import compare, load_dataset, methods, report
from graphcollab._base.files import write_whole
from graphcollab.analysis.metrics import in_cluster_share, recovery_auc
from graphcollab.comm import is_main_process, only_main_process
from graphcollab.components import ClassifierSimilarity, NoExchange, NoWeights
from graphcollab.data.partition import class_clusters
from graphcollab.engine import Adam, ImageAugment, Views
from graphcollab.models import small_backbones, split_models
from graphcollab.train import RecordGraph

AUGMENT = ImageAugment(crop=(0.6, 1.0), brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05, gray=0.1, blur=0.0)
CHOICES = ["local", "fedproto", "alone", "mapl"]
COUNTS = {"nodes": 8, "per-class": 24, "overlap": 4, "val": 4, "test": 15, "latent": 32}
COUNTS |= {"rounds": 36, "warmup": 8, "batch-size": 32, "seeds": 2, "threads": 1}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help="default: %(default)s")
    add("--root", help="folder with the dataset (default: the variable GRAPHCOLLAB_DATA)")
    add("--scenario", type=int, default=1, choices=(1, 2, 3, 4), help="default: %(default)s")
    for name, value in COUNTS.items():
        add(f"--{name}", type=int, default=value, help="default: %(default)s")
    add("--methods", nargs="+", choices=CHOICES, default=CHOICES, help="default: all")
    add("--lr", type=float, default=3e-3, help="step size of Adam for all methods (default: %(default)s)")
    add("--graph-lr", type=float, default=5.0, help="step size of MAPL's weights (default: %(default)s)")
    add("--flip", type=float, default=0.0, help="probability of mirroring; do not mirror digits (default: 0)")
    add_device(parser)
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, default="results/train_mapl", help="folder for pictures (default: %(default)s)")
    add("--no-pictures", action="store_true")
    return parser.parse_args()


def make(name: str, args: argparse.Namespace) -> Any:
    """Return a method; all train on the same two views of every sample, with the same optimizer."""
    views = Views(replace(AUGMENT, flip=args.flip), 2)
    if name in ("alone", "mapl"):
        options: dict[str, Any] = {"batch_size": args.batch_size, "augment": views.augment, "lr": args.lr}
        mapl: Any = methods.mapl(warmup=max(args.warmup, 1), graph=ClassifierSimilarity(lr=args.graph_lr), **options)
        return mapl if name == "mapl" else mapl.method.replace(name=name, exchange=NoExchange(), weigh=NoWeights())
    method: Any = methods.get_method(name)(epochs=1)
    optimizer = Adam(lr=args.lr, betas=(0.5, 0.999))
    return method.replace(local=replace(method.local, batch_size=args.batch_size, optimizer=optimizer, views=views))


@only_main_process()
def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    data = load_dataset(args.dataset, args.root)
    amount: Any = args.per_class if args.scenario < 3 else (args.per_class // 2, args.per_class)
    overlap = args.overlap if args.scenario in (2, 4) else 0
    deal = {"per_class": amount, "overlap": overlap, "val": args.val, "test": args.test}
    draw: Any = partial(class_clusters, data, args.nodes, **deal)

    def build() -> list[nn.Module]:
        return [*split_models(small_backbones(data.input_shape), data.input_shape, data.num_classes, args.latent)]

    learned: list[Any] = []
    shown = sorted({args.warmup, (3 * args.warmup + args.rounds) // 4, args.rounds} - {0})
    with tqdm(total=len(args.methods) * args.seeds, unit="run", disable=not is_main_process()) as bar:

        def keep(trial: Any, result: Any, number: int, total: int) -> None:
            learned.extend([result] if trial.method == "mapl" and not trial.failure else [])
            bar.update()
            bar.set_postfix_str(f"{trial.method}, seed {trial.seed}")

        found = compare(
            {name: partial(make, name, args) for name in args.methods},
            lambda seed: draw(seed=seed),
            build,
            range(args.seeds),
            on_trial=keep,
            architecture=torch.arange(args.nodes) % len(build()),
            rounds=args.rounds,
            budget="rounds",
            evaluate_every=max(args.rounds // 12, 1),
            callbacks=[RecordGraph(shown)],
            progress=False,
            compute=args.device,
        )
    print(report.results_table(found, reference=args.methods[0]), budget_table(found), sep="\n\n")
    for result in learned:
        tasks, graph = result.env.engine.tasks, (result.data.edge_index, result.data.edge_weight)
        inside, auc = in_cluster_share(*graph, tasks.cluster), recovery_auc(*graph, tasks.cluster)
        print(f"mapl, seed {result.env.seed}: {inside:.1%} of the weight inside the true cluster, ROC AUC {auc:.3f}")
    if args.json:
        write_whole(args.json, report.results_json(found, args.methods[0], arguments=vars(args)).encode())
    if not args.no_pictures:
        figures = {"accuracy": report.accuracy_curves(found)}
        if "mapl" in found.results:
            figures["weights"] = report.weight_heatmaps(result.history.graphs, args.nodes, tasks.cluster)
            figures["latents"] = latent_figure(result)
        for name, figure in figures.items():
            print("wrote", report.save_figure(figure, args.out / f"{name}.png"))


if __name__ == "__main__":
    main()
