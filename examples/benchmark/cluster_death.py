"""When a few nodes listen to the wrong cluster, what becomes of their own?

The experiment of section 4.2 of "With a Little Help from My Friends" (Hagander, Ihre-Thomason, Lund University 2024):
in two clusters, all nodes meet peers of their own; after half of the rounds, some nodes of the first cluster meet only
peers of the other one, while the rest of the first cluster still meets them. By default the clusters have the digits 0
to 5 and 6 to 9. The first of these is near the thesis' setting, but its network has 79,530 parameters, not 62,006:

    cluster_death.py --dataset cifar10 --root DATA --model small_cnn --train 400 --val 100 --rounds 100 --lr 0.001
    cluster_death.py --dataset mnist+fashion_mnist --root DATA --nodes 50 50 --train 400 --val 100 --lr 0.001
"""

# ci: --rounds 30 --deluded 0 4 --out $OUT/death --json $OUT/death.json

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _figures import merge_curves  # type: ignore
from _measure import add_device  # type: ignore
from _watch import WatchDeaths, WatchMerging  # type: ignore
from torch_geometric.data import Data

from graphcollab import Phases, build_model, load_dataset, report, run
from graphcollab._base.files import write_whole
from graphcollab.components import Candidates, Env, PeerSampler
from graphcollab.data.partition import concept_shift, label_shift
from graphcollab.data.partition.label_shift import ANIMALS_VEHICLES
from graphcollab.methods import oracle
from graphcollab.models import MODELS
from graphcollab.train import Progress

DIGITS = ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9))


@dataclass(frozen=True)
class Deluded(PeerSampler):
    """Nodes meet peers of their own cluster, but for some (by ``node_id``), which meet those of the other one."""

    wrong: tuple[int, ...] = ()

    def candidates(self, data: Data, env: Env) -> Candidates:
        """Return whom nodes may meet."""
        group = env.engine.tasks.require_cluster()
        wrong = torch.isin(data.node_id, torch.tensor(self.wrong, dtype=torch.int64))
        return Candidates.of(data, group, torch.where(wrong, 1 - group, group))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help="one with ten classes, or two joined by + (default: %(default)s)")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--model", default="mlp", choices=MODELS, help="default: %(default)s")
    add("--nodes", type=int, nargs=2, default=[60, 40], help="nodes in the two clusters (default: %(default)s)")
    add("--train", type=int, default=9, help="training samples of each node (default: %(default)s)")
    add("--val", type=int, default=4, help="validation samples of each node (default: %(default)s)")
    add("--epochs", type=int, default=5, help="epochs of local training in a round (default: %(default)s)")
    add("--batch-size", type=int, default=10, help="default: %(default)s")
    add("--lr", type=float, default=0.01, help="default: %(default)s")
    add("--rounds", type=int, default=80, help="default: %(default)s")
    add("--deluded", type=int, nargs="+", default=[0, 1, 5, 25], help="numbers of deluded nodes (default: %(default)s)")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add_device(parser)
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, default=Path("results/cluster_death"), help="folder for pictures (default: %(default)s)")
    args = parser.parse_args()
    if max(args.deluded) > args.nodes[0] or args.rounds < 4:
        parser.error("expected at most as many deluded nodes as the first cluster has, and at least 4 rounds")
    torch.set_num_threads(1)
    sources: list[Any] = [load_dataset(name, args.root) for name in args.dataset.split("+")]
    groups = DIGITS if args.dataset == "digits" else ANIMALS_VEHICLES
    draw: Any = partial(concept_shift, sources) if len(sources) == 2 else partial(label_shift, sources[0], groups)
    tasks = draw(args.nodes, args.train, args.val, seed=args.seed)
    model = partial(build_model, args.model, sources[0].input_shape, sum(source.num_classes for source in sources))
    half, own, told = args.rounds // 2, tasks.cluster == 0, {}
    make = partial(oracle, epochs=args.epochs, batch_size=args.batch_size, lr=args.lr)
    shown = {half, half + 1, half + 2, half + 5, *range(half + 10, args.rounds, 10), args.rounds}
    rounds = sorted(r for r in shown if r <= args.rounds)
    print(f"{args.dataset}: clusters of {args.nodes} nodes, some of the first are deluded after round {half}")
    print("validation accuracy (%) of the first cluster before > after merging, and of its other nodes after merging")
    print("deluded  " + "  ".join(f"{f'round {r}':>21}" for r in rounds))
    for many in args.deluded:
        wrong = Deluded(wrong=tuple(tasks.node_id[:many].tolist()))
        method = Phases(make(), half, make().replace(rewire=wrong))
        place = args.checkpoint and args.checkpoint / f"deluded_{many}"
        deaths = WatchDeaths(tasks.cluster)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            play: dict[str, Any] = {"rounds": args.rounds, "seed": args.seed, "compute": args.device}
            history = run(
                method,
                tasks,
                model,
                callbacks=[WatchMerging(), deaths, Progress(f"{many} deluded")],
                checkpoint=place,
                **play,
            ).history
        before, after = (100 * history.table(f"val_metric_{when}") for when in ("before", "after"))  # [T, K]
        sane = own.clone()
        sane[:many] = False
        means = [
            [float(t[r - 1, who].mean()) for t, who in ((before, own), (after, own), (after, sane))] for r in rounds
        ]
        print(f"{many:7}  " + "  ".join(f"{b:5.1f} > {a:5.1f}, {s:5.1f}".rjust(21) for b, a, s in means))
        for warning in caught:
            print(f"         warning: {warning.message}")
        told[many] = {"rounds": rounds, "means": means, "deaths": deaths.deaths}
        figure = merge_curves(history, tasks.cluster, f"{many} deluded nodes after round {half}", deaths.deaths)
        print("         wrote", report.save_figure(figure, args.out / f"deluded_{many}.png"))
    if args.json:
        print("wrote", write_whole(args.json, json.dumps(told).encode()))


if __name__ == "__main__":
    main()
