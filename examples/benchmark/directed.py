"""Directed collaboration graphs on few nodes: is the learned graph as good as none, a complete and an assumed one?

    directed.py --dataset fashion_mnist --root DATA
    directed.py --dataset fashion_mnist --root DATA --settings four few_and_many --checkpoint results/directed

Settings are those of chapter 5 of "Learning Directed Collaboration Graphs for Peer-to-Peer Personalized Learning"
(Zheng, Ohio State University, 2021), and one where node 0 has few samples and node 1 has many. The assumed graph joins
nodes with the same majority; where there are none, it would be local training and is left out. "equal" plays the two
phases of directed with equal weights on the complete graph: all it lacks is the learned graph. All methods are tuned in
the same way on validation data. With --checkpoint, the same command resumes a comparison that was stopped.
"""

# ci: --seeds 2 --rounds 4 --learn-rounds 2 --settings four few_and_many --checkpoint $OUT/runs --json $OUT/d.json
# ci: --seeds 2 --rounds 4 --learn-rounds 2 --settings four few_and_many --checkpoint $OUT/runs

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _measure import add_device  # type: ignore
from torch_geometric.utils import to_dense_adj
from tqdm import tqdm

from graphcollab import Method, Phases, build_model, compare, load_dataset, report
from graphcollab._base.files import write_whole
from graphcollab.analysis.metrics import paired_difference
from graphcollab.components import Exchange, Fit, SampleCounts, Uniform
from graphcollab.data.partition import majority_tasks
from graphcollab.engine import SGD
from graphcollab.methods import directed, local
from graphcollab.transforms import WithSelfLoops

# Fashion-MNIST: 0 T-shirt, 1 Trouser, 2 Pullover, 5 Sandal, 6 Shirt, 7 Sneaker, 8 Bag, 9 Ankle boot
SETTINGS: dict[str, dict[str, Any]] = {  # majority classes of every node, their share, samples as a share of --samples
    "shoes": {"nodes": ((5, 7), (9,)), "p": 0.7},
    "tops": {"nodes": ((0, 1), (2,)), "p": 0.7},
    "three_each": {"nodes": ((0, 1, 2), (5, 6, 8)), "p": 0.7},
    "inside_70": {"nodes": ((0, 1), (1,)), "p": 0.7},
    "inside_60": {"nodes": ((0, 1), (1,)), "p": 0.6},
    "inside_45": {"nodes": ((0, 1), (1,)), "p": 0.45},
    "four": {"nodes": ((0, 1), (0, 1), (2,), (2,)), "p": 0.7},
    "few_and_many": {"nodes": ((0, 1), (0, 1)), "p": 0.7, "shares": (0.1, 1)},
}


def averaging(lr: float, batch_size: int) -> Method:
    """Train, then average with everyone heard by sample counts: federated averaging without a server."""
    fit = Fit(batch_size=batch_size, optimizer=SGD(lr=lr, weight_decay=5e-4))
    return Method("averaging", fit, SampleCounts(), Exchange("zero", "x"), prepare=WithSelfLoops())


def equal(learn_rounds: int, **settings: Any) -> Phases:
    """Play both phases of directed with equal weights."""
    phases = directed(learn_rounds=learn_rounds, **settings)
    return Phases(phases.last(1).replace(name="equal", weigh=Uniform()), phases.until, phases.next)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", default="digits", help="default: %(default)s")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS, help="default: all")
    add("--seeds", type=int, default=5, help="default: %(default)s")
    add("--rounds", type=int, default=30, help="default: %(default)s")
    add("--learn-rounds", type=int, default=15, help="rounds of phase 1 (default: %(default)s)")
    add("--samples", type=int, nargs=3, help="for training, validation, test (default: 1000 200 300; digits: 60 20 30)")
    add("--lr", type=float, nargs="+", default=[0.01, 0.02, 0.05, 0.1], help="step sizes to choose from")
    add_device(parser)
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add("--json", metavar="FILE", help="write the results there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = load_dataset(args.dataset, args.root)
    model = partial(build_model, "mlp", data.input_shape, data.num_classes, hidden=50)
    train, val, test = args.samples or ((60, 20, 30) if args.dataset == "digits" else (1000, 200, 300))
    makers: dict[str, Any] = {"local": local, "complete": averaging, "assumed": averaging}
    makers |= {
        "equal": partial(equal, args.learn_rounds),
        "directed": partial(directed, learn_rounds=args.learn_rounds),
    }
    told: dict[str, dict[str, Any]] = {}
    scores: dict[str, torch.Tensor]
    for name in args.settings:
        nodes, p = SETTINGS[name]["nodes"], SETTINGS[name]["p"]
        sizes = [round(train * share) for share in SETTINGS[name].get("shares", (1,) * len(nodes))]
        tasks = partial(majority_tasks, data, nodes, p, sizes, val, test)
        pairs = torch.tensor([[set(a) == set(b) for b in nodes] for a in nodes])
        graphs = {"assumed": pairs.fill_diagonal_(False).nonzero().T}
        methods = {key: partial(make, batch_size=20) for key, make in makers.items()}
        methods |= {key: partial(methods[key], epochs=1) for key in ("local", "equal", "directed")}
        if not graphs["assumed"].numel():
            del methods["assumed"], graphs["assumed"]
        seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        with tqdm(unit="run", desc=name) as bar:

            def tell(trial: Any, result: Any, number: int, total: int, seen: Any = seen, bar: Any = bar) -> None:
                bar.total = total
                bar.update(1)
                if result is None:  # the trial failed, which compare has said
                    return
                graph = result.graph()
                weight = to_dense_adj(graph.edge_index.flip(0), None, graph.edge_weight, graph.num_nodes)[0]
                seen[id(trial)] = weight, result.history.final("test_metric")

            draw = lambda seed, tasks=tasks: tasks(seed=seed)  # noqa: E731
            settings = {"rounds": args.rounds, "evaluate_every": args.rounds, "graphs": graphs, "on_trial": tell}
            settings |= {"budget": "rounds", "compute": args.device}
            place = args.checkpoint and args.checkpoint / name
            grids = {"*": {"lr": args.lr}}
            comparison = compare(methods, draw, model, range(args.seeds), grids, checkpoint=place, **settings)
        print(f"\n{name}: majorities {nodes}, p = {p}, {sizes} training samples, {args.seeds} seeds")
        print(report.results_table(comparison))
        told[name], scores = {}, {}
        for key, trials in comparison.chosen.items():
            if comparison.failed(key) or comparison.failed("directed"):
                continue
            weight, score = (torch.stack(many) for many in zip(*(seen[id(t)] for t in trials), strict=True))
            scores[key] = score  # [seeds, K]
            each, weights = score.mean(0).tolist(), weight.mean(0).tolist()
            told[name][key] = {"values": comparison.values(key), "nodes": each, "weights": weights}
            gain = f"directed is better by {interval(comparison.values('directed'), comparison.values(key))}"
            shown = "  ".join(f"{100 * value:.2f}" for value in each)
            print(f"{key:9} % per node: {shown}", "" if key == "directed" else f"  {gain}")
        for key in [key for key in scores if key != "local"]:
            pairs_of = enumerate(zip(scores[key].T, scores["local"].T, strict=True))
            changes = [f"{k}: {interval(ours.tolist(), alone.tolist())}" for k, (ours, alone) in pairs_of]
            print(f"{key:9} minus local, node " + "; node ".join(changes))
        if "directed" not in told[name]:
            continue
        print("learned weights (row: who listens), mean over seeds:")
        print("\n".join("  " + "  ".join(f"{w:.2f}" for w in row) for row in told[name]["directed"]["weights"]))
    print("\nall settings together")
    for key in [key for key in makers if key != "directed"]:
        known = [row for row in told.values() if key in row]
        if known:
            ours, theirs = ([v for row in known for v in row[name]["values"]] for name in ("directed", key))
            print(f"{key:9} directed is better by {interval(ours, theirs)}")
    if args.json:
        print("wrote", write_whole(args.json, json.dumps(told).encode()))


def interval(values: list[float], reference: list[float]) -> str:
    """Return the mean paired difference in points with its 95 % confidence interval."""
    found = paired_difference(values, reference)
    return f"{100 * found.mean:+.2f} points [{100 * found.low:+.2f}, {100 * found.high:+.2f}], {len(values)} pairs"


if __name__ == "__main__":
    main()
