"""What makes the classifiers of different models comparable? Fig. 3 of MAPL, taken apart.

Two clusters of nodes with classes of their own train models of different architectures. This prints the cosines of
their classifiers inside and across clusters, and the area under the ROC curve for telling one from the other: with
cross-entropy alone, with contrastive and prototype losses where nobody sends anything, and with shared prototypes.
Architectures begin with a common head or with heads of their own, and their latents are linear or end in ReLU, so that
all are positive. All train on the same augmented views; numbers are mean ± standard deviation over seeds.
"""

# ci: --rounds 4 --seeds 1 --nodes 4

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import Any

import torch
from _measure import add_device  # type: ignore
from torch import nn
from tqdm import tqdm

from graphcollab import load_dataset, methods, run
from graphcollab.analysis.metrics import recovery_auc
from graphcollab.components import NoExchange, NoWeights
from graphcollab.components.weigh.classifiers import head_cosines
from graphcollab.data.partition import class_clusters
from graphcollab.engine import ImageAugment
from graphcollab.models import SplitModel, small_backbones, split_models
from graphcollab.transforms import Complete

LOSSES: dict[str, dict[str, Any]] = {
    "cross-entropy": {"contrast": 0.0, "prototype": 0.0, "uniformity": 0.0},
    "and contrast": {"prototype": 0.0, "uniformity": 0.0},
    "and own prototypes": {},
    "and shared prototypes": {},
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help="default: %(default)s")
    add("--root", help="folder with the dataset (default: the variable GRAPHCOLLAB_DATA)")
    add("--scenario", type=int, default=1, choices=(1, 2), help="default: %(default)s")
    counts = {"nodes": 10, "per-class": 24, "latent": 32, "rounds": 30, "batch-size": 32, "seeds": 3, "threads": 1}
    for name, value in counts.items():
        add(f"--{name}", type=int, default=value, help="default: %(default)s")
    add("--lr", type=float, default=3e-3, help="step size of Adam (default: %(default)s)")
    add("--temperature", type=float, default=0.5, help="default: %(default)s")
    add_device(parser)
    return parser.parse_args()


def models(shape: tuple[int, ...], classes: int, nodes: int, latent: int, own: bool, relu: bool) -> list[SplitModel]:
    """Return one model per node, each with a backbone of its own kind and start."""
    backbones: list[nn.Module] = []
    for node in range(nodes):
        backbone = list(small_backbones(shape).values())[node % 4]
        if not relu:
            features = backbone.eval()(torch.zeros(2, *shape)).flatten(1).shape[1]
            backbone = nn.Sequential(backbone, nn.Flatten(), nn.Linear(features, latent))
        backbones.append(backbone)
    return split_models(backbones, shape, classes, latent if relu else None, common=not own)


def measured(values: list[float]) -> str:
    spread = torch.tensor(values).std().item() if len(values) > 1 else math.nan
    return f"{sum(values) / len(values):6.3f} ± {spread:5.3f}"


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    data = load_dataset(args.dataset, args.root)
    augment = ImageAugment(crop=(0.6, 1.0), brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05, flip=0.0, blur=0.0)
    header = " ".join(f"{name:>14}" for name in ("inside", "across", "ROC AUC", "accuracy"))
    print(f"{'latents':8} {'heads begin':11} {'loss':22} {header}")
    for relu, own, name in tqdm([(r, o, n) for r in (True, False) for o in (False, True) for n in LOSSES]):
        found: list[tuple[float, float, float, float]] = []
        for seed in range(args.seeds):
            overlap = 4 if args.scenario == 2 else 0
            tasks = class_clusters(data, args.nodes, 2, args.per_class, overlap, val=2, seed=seed)
            options = {"lr": args.lr, "batch_size": args.batch_size, "temperature": args.temperature}
            phases: Any = methods.mapl(warmup=args.rounds + 1, augment=augment, **options, **LOSSES[name])
            method = phases.method
            if name != "and shared prototypes":
                method = method.replace(exchange=NoExchange(), weigh=NoWeights())
            make = partial(models, data.input_shape, data.num_classes, args.nodes, args.latent, own, relu)
            result = run(
                method, tasks, make, Complete(), architecture=torch.arange(args.nodes), rounds=args.rounds, seed=seed,
                evaluate_every=args.rounds, compute=args.device,
            )  # fmt: skip
            state, cluster = result.data, tasks.require_cluster()
            pairs = state.edge_index[:, state.edge_index[0] != state.edge_index[1]]
            state.edge_index = pairs
            cosine = head_cosines(state, result.env, "head").cpu()
            same = cluster[pairs[0]] == cluster[pairs[1]]
            accuracy = float(result.history.table("test_metric")[-1].mean())
            auc = recovery_auc(pairs, cosine, cluster)
            found.append((float(cosine[same].mean()), float(cosine[~same].mean()), auc, accuracy))
        columns = [measured(list(values)) for values in zip(*found, strict=True)]
        begin = "their own" if own else "alike"
        tqdm.write(f"{'ReLU' if relu else 'linear':8} {begin:11} {name:22} {' '.join(columns)}")


if __name__ == "__main__":
    main()
