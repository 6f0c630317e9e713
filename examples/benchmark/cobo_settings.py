"""CoBo with fewer samples, more clusters, or larger clusters: Fig. 2(a) of its paper, on smaller tasks.

All clusters of nodes read the same images, but each permutes the labels in its own way, and divides its images among
its nodes. The fraction of the images, the number of clusters and the nodes per cluster are varied one at a time. Local
training, CoBo and FedAvg inside the true clusters (the oracle) take one local step a round; their step size is chosen
on validation data.
"""

# ci: --fractions 0.1 --clusters 2 --sizes 2 --rounds 10 --seeds 1 --json $OUT/cobo_settings.json

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _measure import add_device  # type: ignore
from tqdm import tqdm

from graphcollab import Tasks, build_model, compare, load_dataset, methods
from graphcollab._base.files import write_whole
from graphcollab.data.datasets.catalog import DATASETS
from graphcollab.data.partition import permuted_labels
from graphcollab.report import results_json


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help=f"{', '.join(DATASETS)} (default: %(default)s)")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--fractions", type=float, nargs="*", default=[0.1, 0.2, 0.4], help="of the images (default: 0.1 0.2 0.4)")
    add("--clusters", type=int, nargs="*", default=[2, 4, 8], help="numbers of clusters (default: 2 4 8)")
    add("--sizes", type=int, nargs="*", default=[2, 4, 8], help="nodes per cluster (default: 2 4 8)")
    add("--fraction", type=float, default=0.2, help="fraction where it is not varied (default: %(default)s)")
    add("--val", type=int, default=10, help="validation images of each node (default: %(default)s)")
    add("--test", type=int, help="test images of each node (default: all)")
    add("--model", default="mlp", help="default: %(default)s")
    add("--lrs", type=float, nargs="+", default=[0.1, 0.3], help="step sizes to choose from (default: 0.1 0.3)")
    add("--rho", type=float, default=0.1, help="ρ of CoBo for 8 nodes; it is scaled by 8 / K (default: %(default)s)")
    add("--gamma", type=float, default=0.03, help="γ of CoBo (default: %(default)s)")
    add("--sampling", default="all", help="how CoBo samples pairs; with others rounds grow with K (default: all)")
    add("--batch-size", type=int, default=32, help="default: %(default)s")
    add("--rounds", type=int, default=400, help="default: %(default)s")
    add("--seeds", type=int, default=3, help="default: %(default)s")
    add("--threads", type=int, default=1, help="default: %(default)s")
    add_device(parser)
    add("--json", metavar="FILE", help="write the last comparison there")
    return parser.parse_args()


def problem(draw: Callable[..., Tasks], seed: int) -> Tasks:
    """Return the tasks of a seed."""
    return draw(seed=seed)


def cell(row: dict[str, Any]) -> str:
    """Write mean and spread over seeds."""
    spread = "" if math.isnan(row["mean_std_over_seeds"]) else f" ± {100 * row['mean_std_over_seeds']:4.2f}"
    return f"{100 * row['mean']:5.2f}{spread}"


def main() -> None:
    """Measure."""
    args = arguments()
    torch.set_num_threads(args.threads)
    data = load_dataset(args.dataset, args.root)
    model = partial(build_model, args.model, data.input_shape, data.num_classes)
    settings = [(f"fraction {f:g}", f, (2,) * 4) for f in args.fractions]
    settings += [(f"{c} clusters of 2", args.fraction, (2,) * c) for c in args.clusters]
    settings += [(f"4 clusters of {s}", args.fraction, (s,) * 4) for s in args.sizes]
    step: dict[str, Any] = {"batch_size": args.batch_size, "weight_decay": 0.0}
    print(f"{'setting':16} {'images':>6}  {'local':>13}  {'cobo':>13}  {'oracle':>13}")
    for name, fraction, nodes in tqdm(settings, unit="setting"):
        rho = args.rho * 8 / sum(nodes)
        cobo = partial(methods.cobo, rho=rho, gamma=args.gamma, sampling=args.sampling, **step)
        contestants: dict[str, Any] = {"local": partial(methods.local, steps=1, **step), "cobo": cobo}
        contestants["oracle"] = partial(methods.fedavg, steps=1, within="cluster", **step)
        draw = partial(permuted_labels, data, nodes, val=args.val, test=args.test, fraction=fraction)
        found = compare(
            contestants,
            partial(problem, draw),
            model,
            range(args.seeds),
            {"*": {"lr": args.lrs}},
            rounds=args.rounds,
            budget="rounds",
            evaluate_every=args.rounds,
            compute=args.device,
        )
        cells = [cell(row) for row in found.rows().values()]
        images = int(draw(seed=0).sizes("train").float().mean())
        tqdm.write(f"{name:16} {images:6}  {'  '.join(text.rjust(13) for text in cells)}")
    if args.json:
        print("wrote", write_whole(args.json, results_json(found, "local", arguments=vars(args)).encode()))


if __name__ == "__main__":
    main()
