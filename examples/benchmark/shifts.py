"""Do nodes find those with data like theirs? Fashion-MNIST rotated, and combined with MNIST, on 100 nodes.

    shifts.py --setting rotation --root DATA --checkpoint results/rotation --out pictures
    shifts.py --setting combined --root DATA --checkpoint results/combined --rounds 300

Settings are those of "With a Little Help from My Friends" (Hagander, Ihre-Thomason, Lund University 2024), sections
3.1.4, 3.1.5, 4.5, 4.6 and Table A.3, with the thesis' CNN; the thesis plays 300 rounds. In rotation, 70, 20, 5 and 5
nodes see images at 0, 180, 10 and 350 degrees. Only the 20 nodes at 180 degrees have data unlike all others, and
merging with the others harms them. The table has the accuracy of every cluster; of what the watched cluster heard in
the last fifth of the rounds, the share that came from itself; and how well contacts over all rounds tell who is of the
same kind (area under the ROC curve; 0, 10 and 350 degrees are one kind). Step sizes are chosen on validation data. With
--checkpoint, the same command resumes a comparison that was stopped, and with more rounds it continues one that is
done.
"""

# ci: --setting digits --seeds 2 --rounds 2 --checkpoint $OUT/shifts --json $OUT/shifts.json --out $OUT/pictures
# ci: --setting digits --seeds 2 --rounds 3 --checkpoint $OUT/shifts

from __future__ import annotations

import argparse
import json
import math
import statistics
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import torch
from _figures import contact_heatmap, traffic_curves  # type: ignore
from _measure import add_device  # type: ignore
from matplotlib.figure import Figure
from torch import Tensor
from tqdm import tqdm

from graphcollab import Tasks, build_model, compare, load_dataset, report
from graphcollab._base.files import write_whole
from graphcollab.analysis.metrics import paired_difference, recovery_auc
from graphcollab.analysis.metrics.traffic import cluster_traffic, contact_counts
from graphcollab.data.partition import concept_shift, rotation_shift
from graphcollab.methods import dac, local, oracle, random_peers
from graphcollab.train import RecordGraph

# Clusters, which of them are of one kind, the one that is watched, what nodes own, peers they meet a round, step sizes
# with peers and alone: for the rounds here, by validation on 20 nodes; the thesis' are 0.0003 and 0.001 for 300 rounds.
ROTATION = {"names": ("0°", "180°", "10°", "350°"), "kinds": (0, 1, 0, 0), "watched": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "rotation": ROTATION
    | {"sources": ["fashion_mnist"], "deal": {"nodes": (70, 20, 5, 5), "train": 500, "val": 100, "test": 1000}}
    | {"samples": 4, "lrs": [3e-3], "alone": [1e-3], "rounds": 30, "model": {}},
    "combined": {"names": ("MNIST", "Fashion-MNIST"), "kinds": (0, 1), "watched": 1}
    | {"sources": ["mnist", "fashion_mnist"], "deal": {"nodes": (50, 50), "train": 400, "val": 100, "test": 1000}}
    | {"samples": 5, "lrs": [3e-3], "alone": [1e-3], "rounds": 15, "model": {}},
    "digits": ROTATION  # of 8 x 8 pixels, to try the script
    | {"sources": ["digits"], "deal": {"nodes": (8, 4, 3, 3), "train": 40, "val": 20, "test": 100}}
    | {"samples": 2, "lrs": [3e-3], "alone": [3e-3], "rounds": 20, "model": {"channels": (8,)}},
}
METRICS: tuple[Any, ...] = ("cosine_weights", "cosine_updates", "inverse_loss", "inverse_distance")
CHOSEN = ["none", "random", "oracle", "cosine_weights fedavg", "cosine_updates similarity", "inverse_loss fedavg"]


def makers(samples: int, patience: int, **settings: Any) -> dict[str, Any]:
    """Return what is compared: functions from a step size to a method."""
    train: dict[str, Any] = {"patience": patience, "batch_size": 32}
    out = {"none": partial(local, epochs=1, optimizer="adam", weight_decay=0.0, **train)}
    out |= {
        "random": partial(random_peers, samples=samples, **train),
        "oracle": partial(oracle, samples=samples, **train),
    }
    merges: tuple[Any, ...] = ("fedavg", "similarity")
    for metric, merge in product(METRICS, merges):
        out[f"{metric} {merge}"] = partial(
            dac, metric=metric, samples=samples, merge=merge, tells=None, limit=None, **settings, **train
        )
    return out


def look(result: Any, setting: dict[str, Any]) -> dict[str, Any]:
    """Return a run's accuracy per cluster, and that of the watched one over rounds with what it listened to."""
    cluster, graphs, watched = result.tasks.cluster, result.history.graphs, setting["watched"]
    table = result.history.table("test_metric")  # [T, K]
    each = torch.stack([table[:, cluster == c].mean(1) for c in cluster.unique()], 1)  # [T, C]
    traffic = cluster_traffic(graphs, cluster)[0][:, watched]
    edges, counts = contact_counts(graphs, len(cluster))
    return {
        "clusters": each[-1].tolist(),
        "mean": float(table[-1].mean()),
        "curve": (result.history.rounds, each[:, watched].tolist()),
        "traffic": traffic.tolist(),
        "heard": float(traffic[-max(len(traffic) // 5, 1) :].mean()),
        "auc": recovery_auc(edges, counts.double(), torch.tensor(setting["kinds"])[cluster]),
    }


def percent(values: list[float]) -> str:
    """Return mean and spread over seeds."""
    if any(map(math.isnan, values)):
        return "–"
    spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.2f}{spread}"


def tell(seen: dict[str, list[dict[str, Any]]], setting: dict[str, Any], nodes: tuple[int, ...]) -> None:
    """Print accuracy per cluster, and paired differences of the watched one."""
    watched = setting["names"][setting["watched"]]
    clusters = [f"{name} ({many} nodes)" for name, many in zip(setting["names"], nodes, strict=True)]
    header = ["test accuracy, %", *clusters, "mean", f"{watched} hears own", "AUC of contacts"]
    print("\n| " + " | ".join(header) + " |\n|---" + "|---:" * (len(header) - 1) + "|")
    for name, rows in seen.items():
        each = [percent([row["clusters"][c] for row in rows]) for c in range(len(nodes))]
        others = [percent([row[key] for row in rows]) for key in ("mean", "heard", "auc")]
        print(f"| {' | '.join([name, *each, *others])} |")
    print(f"\n{watched}, points, paired differences" + " [95 % interval over seeds]" * (len(rows) > 1))
    for base, name in [pair for pair in combinations(seen, 2) if pair[0] in ("none", "random", "oracle")]:
        mine, theirs = ([row["clusters"][setting["watched"]] for row in seen[key]] for key in (name, base))
        found = paired_difference(mine, theirs)
        interval = "" if found.n == 1 else f" [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
        print(f"  {name} minus {base}: {100 * found.mean:+.2f}{interval}")


def draw(folder: Path, seen: dict[str, Any], graphs: dict[str, Any], cluster: Tensor, watched: str) -> None:
    """Write the pictures: who was met how often, and the watched cluster over rounds; contacts are the last seed's."""
    curves = {name: [row["curve"] for row in rows] for name, rows in seen.items()}
    report.save_figure(report.accuracy_curves(curves, metric=f"accuracy, {watched}"), folder / "accuracy.png")
    report.save_figure(contact_heatmap(graphs, cluster), folder / "contacts.png")
    report.save_figure(traffic_curves(graphs, cluster), folder / "traffic.png")
    figure = Figure((6.4, 3.7), layout="constrained")
    panel = figure.subplots()
    for name in graphs:
        share = 100 * torch.tensor([row["traffic"] for row in seen[name]]).mean(0)
        panel.plot(range(1, 1 + len(share)), share, label=name)
    panel.set(xlabel="round", ylabel=f"heard by {watched} from own cluster (%)", ylim=(0, 101))
    panel.legend()
    report.save_figure(figure, folder / "traffic_watched.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--setting", default="rotation", choices=SETTINGS, help="default: %(default)s")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--methods", nargs="+", default=CHOSEN, metavar="NAME", help="default: %(default)s")
    add("--seeds", type=int, default=1, help="default: %(default)s")
    add("--rounds", type=int, help="default: 30, or 15 for combined; the thesis plays 300")
    add("--nodes", type=int, nargs="+", help="nodes in each cluster (default: as in the thesis)")
    add("--tau", type=float, default=30.0, help="tau of DAC, for similarities scaled to [0, 1] (default: %(default)s)")
    add("--growth", type=float, help="growth of tau, from 1 on; the thesis' DAC-var has 0.2 (default: tau is constant)")
    add("--two-step", default="bounded", help="two_step of DAC; the thesis has most_similar (default: %(default)s)")
    add("--lrs", type=float, nargs="+", help="step sizes to choose from (default: those of the setting)")
    add("--local-lrs", type=float, nargs="+", help="the same for training alone")
    add("--patience", type=int, default=50, help="rounds after which a node stops (default: %(default)s)")
    add_device(parser)
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, metavar="FOLDER", help="write pictures there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    setting = SETTINGS[args.setting]
    deal = setting["deal"] | ({"nodes": tuple(args.nodes)} if args.nodes else {})
    every = makers(setting["samples"], args.patience, tau=args.tau, growth=args.growth, two_step=args.two_step)
    if unknown := sorted(set(args.methods) - set(every)):
        parser.error(f"unknown methods {unknown}; there are {', '.join(every)}")
    sources = [load_dataset(name, args.root) for name in setting["sources"]]
    rounds, lrs = args.rounds or setting["rounds"], args.lrs or setting["lrs"]
    alone = args.local_lrs or args.lrs or setting["alone"]

    def tasks(seed: int) -> Tasks:
        many = len(sources) > 1
        return concept_shift(sources, seed=seed, **deal) if many else rotation_shift(sources[0], seed=seed, **deal)

    found: dict[int, Any] = {}
    with tqdm(unit="run") as bar:

        def note(trial: Any, result: Any, number: int, total: int) -> None:
            bar.total = total
            bar.update(1)
            if result is None:  # the trial failed, which compare has said
                return
            found[id(trial)] = {"seed": trial.seed, **trial.setting, **look(result, setting)}
            scores = ", ".join(f"{100 * score:.2f}" for score in found[id(trial)]["clusters"])
            how = f"{dict(trial.setting)} seed {trial.seed}: validation {100 * trial.validation:.2f} %"
            bar.write(f"{trial.method} {how}, test per cluster {scores} %")

        comparison = compare(
            {name: every[name] for name in args.methods},
            tasks,
            partial(
                build_model,
                "small_cnn",
                sources[0].input_shape,
                sum(s.num_classes for s in sources),
                **setting["model"],
            ),
            range(args.seeds),
            {name: {"lr": alone if name == "none" else lrs} for name in args.methods},
            on_trial=note,
            rounds=rounds,
            budget="rounds",
            evaluate_every=max(rounds // 5, 1),
            checkpoint=args.checkpoint,
            compute=args.device,
            callbacks=[RecordGraph()],
        )
    kept = {name: trials for name, trials in comparison.chosen.items() if not comparison.failed(name)}
    seen = {name: [found[id(trial)] for trial in trials] for name, trials in kept.items()}
    print(report.results_table(comparison))
    tell(seen, setting, deal["nodes"])
    if args.out:
        last = {name: result.history.graphs for name, result in comparison.results.items() if name != "none"}
        cluster = next(iter(comparison.results.values())).tasks.cluster
        draw(args.out, seen, last, torch.as_tensor(cluster), setting["names"][setting["watched"]])
    if args.json:
        content = {"arguments": vars(args), "methods": seen}
        print("wrote", write_whole(args.json, json.dumps(content, default=str).encode()))


if __name__ == "__main__":
    main()
