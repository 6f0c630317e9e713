"""What checkpoints cost: bytes and milliseconds of a save early and late in a run, and a run with and without them.

    checkpoints.py --every 1

The state is that of nodes with small models after a round of `cobo`; before every save, all values of a round and a
graph are added to the history. Then the same nodes are trained with and without a folder for checkpoints.
"""

# ci: --saves 20 --rounds 5 --nodes 4

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _measure import add_device  # type: ignore

from graphcollab import run
from graphcollab.data.partition import linear_regression_tasks
from graphcollab.methods import cobo
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.persistence.lock import hold_folder
from graphcollab.persistence.saver import Saver
from graphcollab.train import Checkpoint

SHOWN = (10, 100, 1000, 10_000)


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def size(path: Path) -> int:
    return path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--nodes", type=int, default=10, help="default: %(default)s")
    add("--saves", type=int, default=10_000, help="default: %(default)s")
    add("--rounds", type=int, default=1000, help="of the run with and without checkpoints (default: %(default)s)")
    add("--every", type=int, help="rounds between checkpoints (default: as run does it)")
    add_device(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tasks = linear_regression_tasks(nodes=(args.nodes,), dim=4, train=20, val=10, test=20)
    model = torch.nn.Linear(4, 1)
    with tempfile.TemporaryDirectory() as folder:
        measure_saves(tasks, model, Path(folder), args.saves, args.device)

    def play(folder: str | None) -> None:
        checkpoint = None if folder is None else Checkpoint(folder, args.every)
        run(cobo(), tasks, model, rounds=args.rounds, checkpoint=checkpoint, compute=args.device)

    play(None)
    without = seconds(lambda: play(None))
    with tempfile.TemporaryDirectory() as folder:
        share = seconds(lambda: play(folder)) / without
    print(f"{args.rounds} rounds: {without:.2f} s without checkpoints, {share:.2f} times that with")


def measure_saves(tasks: Any, model: torch.nn.Module, folder: Path, saves: int, device: str) -> None:
    result = run(cobo(), tasks, model, rounds=1, compute=device)
    data, history = result.data, result.history
    values = {name: rows[0] for name, rows in history.values.items()}
    saver, times = Saver(folder, 1), list[float]()
    with hold_folder(folder):
        for round_ in range(1, saves + 1):
            data = data.clone()
            data.round = round_
            history.add(round_ + 1, float(round_), values)
            history.graphs[round_] = (data.edge_index.clone(), data.edge_weight.clone())
            times.append(seconds(lambda: saver.save(data, history)))  # noqa: B023 - called at once
            last = max(folder.glob("round-*"))
            if round_ in SHOWN:
                written, middle = sum(map(size, last.iterdir())), 1000 * statistics.median(times[-9:])
                print(f"save {round_}: {middle:.1f} ms, {written} bytes written")
        print(f"reading the last one: {seconds(lambda: load_checkpoint(last)):.2f} s")


if __name__ == "__main__":
    main()
