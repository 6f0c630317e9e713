"""Nodes look for others like them: DAC with every metric, PENS and PANM, beside nobody, random peers and an oracle.

Nodes belong to clusters that nobody is told of, and have too few samples to learn alone. In every round a node meets a
few others and merges with some of them; those of its own cluster help, the others do harm. By default the nodes read
handwritten digits that are turned by 0, 90, 180 or 270 degrees. There are two other problems: with `--shift labels`
each of five clusters has two of the ten digits, and with `--shift regression --rounds 50` each of three clusters has
its own linear coefficients. Step sizes, and tau of DAC, are chosen on validation data, in the same way for all methods.
"""

# ci: --seeds 1 --rounds 4 --nodes 7 6 7 6 --out $OUT/peers --json $OUT/peers.json
# ci: --shift labels --seeds 2 --rounds 2 --no-pictures
# ci: --shift regression --seeds 1 --rounds 3 --nodes 7 7 7 --out $OUT/regression

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _device import add_device  # type: ignore
from benchmark._figures import contact_heatmap, merge_curves, similarity_curves, traffic_curves  # type: ignore
from benchmark._tables import peer_table  # type: ignore
from benchmark._watch import ProbeSimilarity, WatchMerging  # type: ignore
from torch.nn import Linear
from tqdm import tqdm

from graphcollab import build_model, compare, load_dataset, methods, report, run
from graphcollab._base.files import write_whole
from graphcollab.comm import is_main_process, only_main_process
from graphcollab.components import CosineUpdates, CosineWeights, DistanceKernel, InverseLoss
from graphcollab.data.partition import label_shift, linear_regression_tasks, rotation_shift
from graphcollab.data.partition.label_shift import FIVE_PAIRS
from graphcollab.train import RecordGraph

NODES = {"rotation": [13, 11, 9, 7], "labels": [8] * 5, "regression": [33] * 3}  # of every cluster
LRS, TAUS = {"rotation": [0.01, 0.03], "labels": [0.01, 0.03], "regression": [0.05, 0.1]}, [10.0, 30.0]
METRICS = {
    "inverse distance": DistanceKernel("inverse"),
    "inverse loss": InverseLoss(),
    "cosine weights": CosineWeights(),
    "cosine changes": CosineUpdates(0.0),  # since the start
    "cosine updates": CosineUpdates(1.0),  # in the last round
}
SHOWN = "dac cosine weights"  # in pictures of a single method


@only_main_process()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--shift", choices=NODES, default="rotation", help="how clusters differ (default: %(default)s)")
    add("--nodes", type=int, nargs="+", help=f"nodes in each cluster (default: {NODES})")
    add("--seeds", type=int, default=3, help="number of problems (default: %(default)s)")
    add("--rounds", type=int, default=25, help="default: %(default)s")
    add("--threads", type=int, default=1, help="CPU threads; small models gain nothing from many (default: 1)")
    add_device(parser)
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, default=Path("results/find_peers"), help="folder for pictures (default: %(default)s)")
    add("--no-pictures", action="store_true")
    args = parser.parse_args()
    nodes = args.nodes or NODES[args.shift]
    if min(args.seeds, args.threads, args.rounds - 1) < 1 or min(nodes) < 6 or len(nodes) != len(NODES[args.shift]):
        size = f"{len(NODES[args.shift])} clusters of at least 6 nodes"
        parser.error(f"expected --seeds and --threads of at least 1, --rounds of at least 2, and {size}")
    torch.set_num_threads(args.threads)

    draw: Any = partial(linear_regression_tasks, nodes)
    model: Any = partial(Linear, 10, 1)
    if args.shift != "regression":
        digits, few = load_dataset("digits"), dict[str, Any](train=20, val=10)
        model = partial(build_model, "mlp", digits.input_shape, digits.num_classes)
        draw = partial(label_shift, digits, FIVE_PAIRS, nodes, **few)
        if args.shift == "rotation":
            draw = partial(rotation_shift, digits, (0, 90, 180, 270), nodes, **few)
    half = {"explore_rounds": args.rounds // 2}
    makers: dict[str, Any] = {"none": partial(methods.local, optimizer="adam", weight_decay=0.0)}
    makers |= {"random": methods.random_peers, "oracle": methods.oracle}
    makers |= {f"dac {name}": partial(methods.dac, metric=metric) for name, metric in METRICS.items()}
    makers["dac cosine weights softmax"] = partial(makers["dac cosine weights"], merge="softmax")
    makers |= {"pens": partial(methods.pens, samples=10, **half)}
    makers |= {f"panm {name}": partial(methods.panm, metric=METRICS[name], **half) for name in list(METRICS)[1:]}
    local = {"epochs": 1, "batch_size": 5} if args.shift == "regression" else {"epochs": 5, "batch_size": 10}
    makers = {name: partial(make, **local) for name, make in makers.items()}
    grids: dict[str, Any] = {"*": {"lr": LRS[args.shift]}, **{name: {"tau": TAUS} for name in makers if "dac" in name}}
    trials = len(LRS[args.shift]) * sum(len(TAUS) if "dac" in name else 1 for name in makers)
    graphs: dict[int, Any] = {}
    with tqdm(total=trials * args.seeds * args.rounds, unit="round", disable=not is_main_process()) as bar:

        def keep(trial: Any, result: Any, number: int, total: int) -> None:
            if result is not None:  # it is None where the trial failed
                graphs[id(trial)] = result.history.graphs
            bar.update(args.rounds)
            bar.set_postfix_str(f"{trial.method} on problem {trial.seed + 1}")

        play: dict[str, Any] = {"on_trial": keep, "callbacks": [RecordGraph()]}
        play |= {"rounds": args.rounds, "budget": "rounds", "evaluate_every": args.rounds, "compute": args.device}
        found = compare(makers, lambda seed: draw(seed=seed), model, range(args.seeds), grids, **play)
    cluster = torch.arange(len(nodes)).repeat_interleave(torch.tensor(nodes))
    seen = {n: [graphs[id(t)] for t in many if not t.failure] for n, many in found.chosen.items() if n != "none"}
    seen = {name: many for name, many in seen.items() if many}
    print(report.results_table(found))
    print(f"\nwho listened to whom, in the last {math.ceil(args.rounds / 3)} of {args.rounds} rounds")
    print(peer_table(seen, cluster))
    for reference in ("none", "random"):
        print(f"\n{report.paired_table(found, reference, over='seeds')}")
    if args.json:
        print("wrote", write_whole(args.json, report.results_json(found, "random", arguments=vars(args)).encode()))
    if not args.no_pictures:
        last = {name: many[-1] for name, many in seen.items()}
        pictures = {"contacts": contact_heatmap(last, cluster)}
        pictures["traffic"] = traffic_curves(last, cluster)
        for name in ("random", "oracle", SHOWN):  # once more, watched, which changes nothing
            watch = [WatchMerging(), ProbeSimilarity(METRICS[SHOWN.removeprefix("dac ")])]
            method = makers[name](**found.chosen[name][-1].setting)
            again: dict[str, Any] = {"rounds": args.rounds, "seed": args.seeds - 1, "callbacks": watch}
            again["compute"] = args.device
            history = run(method, draw(seed=args.seeds - 1), model, **again).history
            pictures[f"merging_{name}"] = merge_curves(history, cluster, name)
        pictures["similarity"] = similarity_curves(history.scores, cluster, "cosine of weights", SHOWN)
        for name, figure in pictures.items():
            print("wrote", report.save_figure(figure, args.out / f"{name.replace(' ', '_')}.png"))


if __name__ == "__main__":
    main()
