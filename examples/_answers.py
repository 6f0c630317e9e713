"""What hospitals.py and patients.py share: so many rows of every site to learn from, and the end of the script."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _device import add_device  # type: ignore

from graphcollab import Tasks, get_method, report
from graphcollab.analysis import Benefit
from graphcollab.data.datasets import SiteTable


def split(table: SiteTable, many: int, least: int, seed: int, in_turn: bool = False, **settings: Any) -> Tasks:
    """Draw ``many`` rows of every site to learn from, a quarter as many to choose by, and test on all others.

    Args:
        table: The table.
        many: Rows to learn from.
        least: Rows to choose by at least.
        seed: Seed of the draw.
        in_turn: Whether rows of every class are drawn in turn, half of them at first, so that there are some of each to
            learn from and to test on.
        settings: Of `SiteTable.tasks`.
    """
    part = np.full(len(table), "test", dtype="<U5")
    whose, target = table.columns[table.node], table.columns[table.target]
    for k, site in enumerate(np.unique(whose)):
        rows = np.random.default_rng([seed, k]).permutation(np.flatnonzero(whose == site))
        if in_turn:
            rank = np.zeros(len(rows), dtype=np.int64)
            for label in np.unique(target):
                mine = np.arange((target[rows] == label).sum())
                rank[target[rows] == label] = mine + len(rows) * (2 * mine >= len(mine))  # half are left to test on
            rows = rows[np.argsort(rank, kind="stable")]
        part[rows[:many]] = "train"
        part[rows[many : many + max(least, many // 4)]] = "val"
    whole = SiteTable(table.name, {**table.columns, "part": part}, table.node, table.target, table.categorical)
    return whole.tasks(split="part", seed=seed, **settings)


def options(parser: argparse.ArgumentParser, rounds: int, out: str) -> None:
    """Add the options that both scripts have."""
    add = parser.add_argument
    add("--methods", nargs="*", default=["meta_l2c"], help="methods to try beside averaging (default: %(default)s)")
    add("--metrics", nargs="*", default=[], help="metrics beside the tasks' own, such as brier or rmse")
    add("--repeats", type=int, default=10, help="random splits (default: %(default)s)")
    add("--rounds", type=int, default=rounds, help="default: %(default)s")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add_device(parser)
    add("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    add("--out", type=Path, default=Path("results") / out, help="folder for the page (default: %(default)s)")
    add("--json", type=Path, help="write all numbers to this file")
    add("--no-pictures", action="store_true", help="draw nothing")


def asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return what these options ask `benefit` for."""
    given = {name: getattr(args, name) for name in ("metrics", "repeats", "rounds", "seed")}
    given |= {"compute": args.device, "n_jobs": args.jobs}
    return {**given, "methods": {name: get_method(name) for name in args.methods}, "progress": True}


def answer(found: Benefit, args: argparse.Namespace) -> None:
    """Print the answer, and write what is asked for."""
    print(f"\n{report.benefit_answer(found)}\n\n{report.benefit_table(found)}")
    if args.json is not None:
        print("wrote", found.save(args.json))
    if not args.no_pictures:
        print("wrote", report.page(found, args.out / "report.html"))
