"""Different models that learn from each other: MAPL's scenarios, its ablations, and the methods to compare it with.

Two clusters of nodes have classes of their own (scenarios 1 and 3) or some in common (2 and 4). In turn, nodes have one
of four small architectures or of torchvision's four (`--models torchvision`); or all have the same (`--models resnet`),
which adds the methods that mix whole models. All methods get the same initial models, two augmented views of every
sample, Adam with MAPL's betas, and a step size chosen on validation data. (DFedAvgM keeps its own SGD with momentum,
which is part of the method, with ten times the step sizes; temperature, strength of the augmentation and step size of
the graph are given by hand.) `local` has no augmentation, `local_views` has it, and `alone` is MAPL's whole local loss
while nobody sends anything, so `mapl` minus `alone` is what collaboration adds. The paper's setting needs a GPU:

    scenarios.py --dataset cifar10 --root DATA --models torchvision --latent 512 --nodes 20 --per-class 300 --test 15
        --rounds 400 --warmup 100 --lrs 1e-4 --batch-size 64 --augment strong --temperature 100 --device cuda
"""

# ci: --seeds 1 --rounds 4 --warmup 2 --nodes 4 --methods local alone mapl fedproto --json $OUT/scenarios.json
# ci: --seeds 1 --rounds 2 --warmup 1 --nodes 4 --models resnet --methods mapl_plus fedavg dfedavgm pfedsim

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _backbones import torchvision_backbones  # type: ignore
from _measure import add_device  # type: ignore
from _tables import budget_table  # type: ignore
from torch import nn
from tqdm import tqdm

from graphcollab import Phases, compare, load_dataset, methods, report
from graphcollab._base.files import write_whole
from graphcollab.analysis.metrics import in_cluster_share, recovery_auc
from graphcollab.components import ClassifierSimilarity, NoExchange, NoWeights
from graphcollab.data.partition import class_clusters
from graphcollab.engine import SGD, Adam, ImageAugment, Views
from graphcollab.models import small_backbones, split_models
from graphcollab.models.backbones import small_backbone

MILD = ImageAugment(crop=(0.6, 1.0), brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05, gray=0.1, blur=0.0)
AUGMENTS = {"mild": MILD, "upright": replace(MILD, flip=0.0), "strong": ImageAugment(), "none": None}
FORMS: dict[str, dict[str, Any]] = {  # tables 2 and 3 of the paper, and what its code computes
    "mapl": {},
    "mapl_plus": {"part": "backbone+prototypes"},
    "no_graph": {},
    "base": {"contrast": 0.0, "uniformity": 0.0},
    "no_contrast": {"contrast": 0.0},
    "no_uniformity": {"uniformity": 0.0},
    "no_confidence": {"graph": {"confidence": False}},
    "no_similarity": {"graph": {"similarity": "none"}},
    "l1": {"graph": {"norm": "l1"}},
    "temperature_100": {"temperature": 100.0},
    "published": {},
}
DIFFERENT = "local local_views fedsim fedproto fedclassavg alone no_graph mapl"  # for nodes of any architecture
ALIKE = "local_views fedavg flt dfedavgm pfedsim alone mapl mapl_plus"  # for nodes of one
COUNTS = {"nodes": 10, "overlap": 4, "val": 10, "test": 15, "rounds": 40, "warmup": 10, "batch-size": 32, "latent": 64}
COUNTS |= {"seeds": 3, "threads": 1, "evaluate-every": 5}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help="default: %(default)s")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--scenario", type=int, default=1, choices=(1, 2, 3, 4), help="default: %(default)s")
    add(
        "--per-class",
        type=int,
        nargs="+",
        default=[30],
        help="samples of a class and node, or LOW HIGH",
    )
    for name, value in COUNTS.items():
        add(f"--{name}", type=int, default=value, help="default: %(default)s")
    add("--models", default="small", help="small, torchvision, or one small backbone for all nodes (default: small)")
    add("--methods", nargs="+", help=f"default: {DIFFERENT}; or {ALIKE}; also {' '.join(FORMS)}")
    add("--lrs", type=float, nargs="+", default=[1e-3, 3e-3], help="to choose from (default: 0.001 0.003)")
    add("--lams", type=float, nargs="+", default=[1.0], help="λ of FedProto to choose from (default: 1)")
    add("--graph-lr", type=float, default=1.0, help="step size of the weights (default: %(default)s)")
    add("--temperature", type=float, default=0.5, help="default: %(default)s")
    add("--augment", default="upright", choices=AUGMENTS, help="default: %(default)s")
    add("--own-starts", action="store_true", help="architectures do not begin with a common head")
    add("--budget", type=float, help="messages for the table of budgets (default: half of what all pairs would send)")
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add_device(parser)
    add("--json", metavar="FILE", help="write the results there")
    return parser.parse_args()


def trained(method: Any, **settings: Any) -> Any:
    """Return a method, or phases, whose local update has other settings."""
    if isinstance(method, Phases):
        return Phases(trained(method.method, **settings), method.until, trained(method.next, **settings))
    return method.replace(local=replace(method.local, **settings))


def make(name: str, args: argparse.Namespace, lr: float, lam: float = 1.0) -> Any:
    """Return a method by name; all train alike."""
    views = Views(AUGMENTS[args.augment], 2)
    common = {"batch_size": args.batch_size, "optimizer": Adam(lr=lr, betas=(0.5, 0.999)), "views": views}
    if name == "local":
        return trained(methods.local(epochs=1), **{**common, "views": Views(None, 2)})
    if name == "local_views":
        return trained(methods.local(epochs=1), **common)
    if name == "alone":
        return make("no_graph", args, lr).replace(name=name, exchange=NoExchange(), weigh=NoWeights())
    if name == "published":
        return trained(methods.mapl(warmup=args.warmup, published=True), **common)
    if name in FORMS:
        form = {"warmup": args.warmup, "temperature": args.temperature, **FORMS[name]}
        form["graph"] = ClassifierSimilarity(**{"lr": args.graph_lr, **form.get("graph", {})})
        mapl = trained(methods.mapl(**form), **common)
        return mapl.method.replace(name=name) if name == "no_graph" else mapl
    if name == "dfedavgm":
        common["optimizer"] = SGD(lr=10 * lr, momentum=0.9)
    options: dict[str, Any] = {"pfedsim": {"warmup": args.rounds // 2, "epochs": 1}, "fedproto": {"lam": lam}}
    function = methods.get_method(name)
    return trained(function(**{"epochs": 1, **options.get(name, {})}), **common)


def architectures(args: argparse.Namespace, shape: tuple[int, ...], classes: int) -> Callable[[], list[nn.Module]]:
    """Return a function that makes one model per architecture."""

    def build() -> list[nn.Module]:
        if args.models == "torchvision":
            backbones: Any = torchvision_backbones(shape[0])
        elif args.models == "small":
            backbones = small_backbones(shape)
        else:
            backbones = {args.models: small_backbone(args.models, shape)}
        return list(split_models(backbones, shape, classes, latent=args.latent, common=not args.own_starts))

    return build


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    data = load_dataset(args.dataset, args.root)
    build = architectures(args, data.input_shape, data.num_classes)
    kinds = torch.arange(args.nodes) % len(build())
    per_class: Any = args.per_class[0] if len(args.per_class) == 1 else tuple(args.per_class)
    if len(args.per_class) != 1 + (args.scenario > 2):
        raise SystemExit("--per-class: scenarios 1 and 2 have one number, 3 and 4 have two, LOW and HIGH")
    overlap = args.overlap if args.scenario in (2, 4) else 0
    options = {"per_class": per_class, "overlap": overlap, "val": args.val, "test": args.test}
    draw: Any = partial(class_clusters, data, args.nodes, **options)
    wanted = args.methods or (DIFFERENT if args.models in ("small", "torchvision") else ALIKE).split()
    contestants = {name: partial(make, name, args) for name in wanted}
    learned: dict[int, tuple[float, float]] = {}
    grids = {"*": {"lr": args.lrs}} | ({"fedproto": {"lam": args.lams}} if "fedproto" in wanted else {})
    runs = len(wanted) - 1 + (len(args.lams) if "fedproto" in wanted else 1)
    with tqdm(total=runs * len(args.lrs) * args.seeds, unit="run") as bar:

        def keep(trial: Any, result: Any, number: int, total: int) -> None:
            bar.update()
            if result is None:  # the trial failed, which compare has said
                return
            cluster, graph = result.env.engine.tasks.cluster, (result.data.edge_index, result.data.edge_weight)
            learned[id(trial)] = recovery_auc(*graph, cluster), in_cluster_share(*graph, cluster)
            mean = 100 * trial.summary["mean"]
            bar.write(f"{trial.method} {dict(trial.setting)} seed {trial.seed}: {mean:.2f}, graph {learned[id(trial)]}")

        found = compare(
            contestants,
            lambda seed: draw(seed=seed),
            build,
            range(args.seeds),
            grids,
            on_trial=keep,
            architecture=kinds,
            rounds=args.rounds,
            budget="rounds",
            evaluate_every=args.evaluate_every,
            compute=args.device,
            checkpoint=args.checkpoint,
            progress=False,
        )
    print(report.results_table(found, reference=wanted[0]))
    if len(wanted) > 1:
        print(f"\n{report.paired_table(found, wanted[0], over='seeds')}")
    budget = args.budget or args.nodes * (args.nodes - 1) * args.rounds / 2
    print("\n" + budget_table(found, budget=budget))
    print("\nmethod: area under the ROC curve of weights for same-cluster pairs, weight inside the cluster; every seed")
    for name in [name for name in wanted if name in FORMS]:
        kept = [trial for trial in found.chosen[name] if not trial.failure]
        print(f"{name}: " + ", ".join("{:.3f} {:.1%}".format(*learned[id(trial)]) for trial in kept))
    if args.json:
        print("wrote", write_whole(args.json, report.results_json(found, wanted[0], arguments=vars(args)).encode()))


if __name__ == "__main__":
    main()
