"""Linear regression in three clusters: do nodes find their own cluster, and how long does it take?

The synthetic problem of "With a Little Help from My Friends" (Hagander, Ihre-Thomason, Lund University 2024), sections
3.1.3 and 4.4: 99 nodes with 50 training points each, y = <x, theta> + noise of standard deviation 3, the same theta for
each 33 nodes, linear models, 50 rounds of one epoch, 5 peers a round. The best possible test loss is 9. Merging with
another cluster only does harm. Step sizes are chosen on validation data, in the same way for all methods. At the end
the script prints the time of one run and of all seeds with DAC's cosine metric; the published implementation takes
about 52 seconds for one run on two cores.
"""

# ci: --seeds 2 --rounds 4 --json $OUT/regression.json

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial
from typing import Any

import torch
from _measure import add_device  # type: ignore
from torch import nn
from tqdm import tqdm

from graphcollab import compare, report, run
from graphcollab._base.files import write_whole
from graphcollab.data.partition import linear_regression_tasks
from graphcollab.methods import dac, local, oracle, panm, pens, random_peers

LRS = [0.02, 0.05, 0.1]
METRICS: tuple[Any, ...] = ("cosine_updates", "cosine_weights", "inverse_loss", "inverse_distance")
PUBLISHED = 52.0  # seconds of one run


def model() -> nn.Module:
    return nn.Linear(10, 1)


def methods(batch_size: int, patience: int) -> dict[str, Any]:
    train: dict[str, Any] = {"batch_size": batch_size, "patience": patience}
    out: dict[str, Any] = {
        "oracle": partial(oracle, **train),
        "random": partial(random_peers, **train),
        "none": partial(local, epochs=1, optimizer="adam", weight_decay=0.0, **train),
    }
    for metric in METRICS:
        merges: list[Any] = ["fedavg", "similarity"] + ["softmax"] * metric.startswith("cosine")
        out.update({f"{metric} {merge}": partial(dac, metric=metric, merge=merge, **train) for merge in merges})
    out["cosine_weights bounded"] = partial(
        dac, metric="cosine_weights", merge="similarity", two_step="bounded", **train
    )
    out["pens"] = partial(pens, samples=10, explore_rounds=20, **train)
    peers = partial(panm, explore_rounds=20, **train)
    out |= {
        "panm inverse_loss": partial(peers, metric="inverse_loss"),
        "panm cosine_weights": partial(peers, metric="cosine_weights"),
    }
    out |= {"panm cosine_change": peers, "panm cosine_change softmax": partial(peers, merge="softmax")}
    return out


def times(args: argparse.Namespace) -> list[float]:
    """Return the seconds of one run for every seed, from making the tasks to the evaluation."""
    method = dac(
        metric="cosine_updates", merge="similarity", lr=0.05, batch_size=args.batch_size, patience=args.patience
    )
    seconds = []
    for seed in range(args.seeds):
        start = time.perf_counter()
        tasks = linear_regression_tasks(seed=seed)
        run(method, tasks, model, rounds=args.rounds, seed=seed, evaluate_every=args.rounds, compute=args.device)
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--methods", nargs="+", metavar="NAME", help="default: all")
    add("--seeds", type=int, default=15, help="default: %(default)s")
    add("--rounds", type=int, default=50, help="default: %(default)s")
    add("--batch-size", type=int, default=5, help="default: %(default)s")
    add("--patience", type=int, default=50, help="rounds after which a node stops (default: %(default)s)")
    add("--lrs", type=float, nargs="+", default=LRS, help="step sizes to choose from (default: %(default)s)")
    add("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    add_device(parser)
    add("--checkpoint", help="folder for checkpoints, to stop and resume")
    add("--json", metavar="FILE", help="write the results there")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    every = methods(args.batch_size, args.patience)
    if unknown := sorted(set(args.methods or ()) - set(every)):
        parser.error(f"unknown methods {unknown}; there are {', '.join(every)}")
    chosen = {name: every[name] for name in args.methods or every}
    with tqdm(total=len(chosen) * len(args.lrs) * args.seeds, unit="run") as bar:
        comparison = compare(
            chosen,
            lambda seed: linear_regression_tasks(seed=seed),
            model,
            range(args.seeds),
            {"*": {"lr": args.lrs}},
            on_trial=lambda *_: bar.update(1),
            rounds=args.rounds,
            budget="rounds",
            evaluate_every=args.rounds,
            checkpoint=args.checkpoint,
            compute=args.device,
        )
    print(report.results_table(comparison))
    if {"none"} < chosen.keys() and args.seeds > 1:
        print(f"\n{report.paired_table(comparison, 'none', over='seeds')}")
    seconds = times(args)
    typical = statistics.median(seconds)
    print(f"\nDAC, cosine of updates, {args.rounds} rounds: {typical:.2f} s a run, {sum(seconds):.1f} s for all seeds")
    if args.rounds == 50:
        print(f"the published implementation takes about {PUBLISHED:.0f} s, {PUBLISHED / typical:.0f} times as long")
    if args.json:
        arguments = {**vars(args), "seconds_a_run": seconds}
        print("wrote", write_whole(args.json, report.results_json(comparison, "none", arguments=arguments).encode()))


if __name__ == "__main__":
    main()
