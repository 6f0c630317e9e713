"""What several processes gain, and what they send each other: one run played by 1, 2 and 4 of them, on the same work.

Started by itself the script starts torchrun once for every number of processes. Nodes have two of the ten digits each,
a small CNN, and listen to their neighbors on a ring (DPSGD); then it is timed what a round of the control plane takes.
"""

# ci: --processes 1 2 --nodes 20 --rounds 1 --counts 1000

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from _measure import add_device  # type: ignore

from graphcollab import build_model, load_dataset, run
from graphcollab.comm.launch import meet
from graphcollab.data.partition import shard_tasks
from graphcollab.methods import dpsgd
from graphcollab.report.values import text_table
from graphcollab.train import Compute
from graphcollab.transforms import Ring

REPEATS = 5


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--processes", type=int, nargs="*", default=[1, 2, 4], help="default: %(default)s")
    add("--nodes", type=int, default=40, help="default: %(default)s")
    add("--neighbors", type=int, default=2, help="on either side of the ring (default: %(default)s)")
    add("--rounds", type=int, default=5, help="rounds that are timed, after one that is not (default: %(default)s)")
    add("--epochs", type=int, default=2, help="default: %(default)s")
    add_device(parser)
    add("--counts", type=int, nargs="*", default=[10**3, 10**4, 10**5], help="nodes of the control plane alone")
    add("--found", help=argparse.SUPPRESS)  # the folder that a started process writes into
    return parser.parse_args()


def played(args: argparse.Namespace) -> dict[str, Any]:
    """Return seconds, rows and bytes per round of this process's part of the run."""
    data = load_dataset("digits")
    tasks = shard_tasks(data, args.nodes * 2 // data.num_classes, 2)
    model = lambda: build_model("small_cnn", data.input_shape, data.num_classes, padding="same")  # noqa: E731

    def play(rounds: int) -> tuple[float, Any]:
        began = time.perf_counter()
        settings: dict[str, Any] = {"evaluate_every": rounds, "compute": Compute(args.device, num_threads=1)}
        result = run(dpsgd(epochs=args.epochs), tasks, model, Ring(args.neighbors), rounds=rounds, **settings)
        return time.perf_counter() - began, result.env.plane.transport

    first, before = play(1)
    last, after = play(1 + args.rounds)
    moved = {name: getattr(after, name, 0) - getattr(before, name, 0) for name in ("rows_moved", "bytes_moved")}
    found = {name: value / args.rounds for name, value in {"seconds": last - first, **moved}.items()}
    return found


def controlled(count: int) -> dict[str, float]:
    """Return the milliseconds of the control plane's verbs for so many nodes with ten neighbors each."""
    transport = meet([str(k) for k in range(count)], lambda: torch.ones(count))
    values, receiver = torch.rand(count, dtype=torch.float64), torch.arange(count).repeat_interleave(10)
    weights = torch.rand(len(receiver))
    verbs: dict[str, Callable[[], object]] = {
        "a word": transport.status,
        "told by all nodes": lambda: transport.all_gather(transport.local_values(values)),
        "told of all edges": lambda: transport.broadcast(weights, receiver),
    }
    found = {}
    for name, verb in verbs.items():
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            verb()
            times.append(time.perf_counter() - began)
        found[name] = 1000 * sorted(times)[REPEATS // 2]
    return found


def started(args: argparse.Namespace, count: int) -> list[dict[str, Any]]:
    """Return what each of so many processes has found, which a launcher starts with this script.

    Each writes a file of its own: lines of several processes could run into one another on one output.
    """
    options = ["--nodes", args.nodes, "--neighbors", args.neighbors, "--rounds", args.rounds, "--epochs", args.epochs]
    options += ["--device", args.device]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    command = [sys.executable, *launcher, __file__, *map(str, options), "--counts", *map(str, args.counts)]
    with TemporaryDirectory() as folder:
        subprocess.run([*command, "--found", folder], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
        return [json.loads(Path(folder, str(rank)).read_text()) for rank in range(count)]


def main() -> None:
    args = arguments()
    if "LOCAL_RANK" in os.environ:
        own = {"run": played(args), "control": {n: controlled(n) for n in args.counts}}
        Path(args.found, os.environ["RANK"]).write_text(json.dumps(own))
        return
    rows: list[list[str]] = []
    control: list[list[str]] = []
    alone = 0.0
    for count in args.processes:
        found = started(args, count)
        seconds = max(one["run"]["seconds"] for one in found)
        alone = alone or seconds
        moved, sent = (sum(one["run"][name] for one in found) for name in ("rows_moved", "bytes_moved"))
        rows.append([str(count), f"{seconds:.2f}", f"{alone / seconds:.2f}", f"{moved:.0f}", f"{sent / 1e6:.2f}"])
        for nodes in map(str, args.counts) if count > 1 else ():
            verbs = [max(one["control"][nodes][verb] for one in found) for verb in found[0]["control"][nodes]]
            control.append([str(count), nodes, *(f"{ms:.2f}" for ms in verbs)])
    print(f"{args.nodes} nodes, a CNN each, one thread per process")
    print(text_table(["processes", "seconds per round", "times as fast", "rows moved", "MB moved"], rows))
    head = ["processes", "nodes", "a word (ms)", "told by all nodes (ms)", "told of all edges (ms)"]
    print(f"\n{text_table(head, control)}")


if __name__ == "__main__":
    main()
