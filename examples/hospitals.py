"""Four hospitals, each with its own heart patients: should they learn together?

The patients are real (UCI Heart Disease, see datasets/README.md), and the question is open: does any hospital tell the
healthy from the diseased better with the help of others? Every hospital alone, all together, every pair, all but one,
and meta-L2C among them are compared on random splits. With --patients 20, each hospital has only so many to learn from:

    hospitals.py
    hospitals.py --patients 20
"""

# ci: --repeats 3 --rounds 3 --out $OUT/hospitals --json $OUT/hospitals.json
# ci: --patients 20 --repeats 3 --rounds 2 --methods --metrics brier --jobs 2 --no-pictures

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from graphcollab import benefit, build_model, load_dataset, report
from graphcollab.datasets import SiteTable
from graphcollab.methods import get_method
from graphcollab.tasks import Tasks


def split(table: SiteTable, patients: int, seed: int) -> Tasks:
    """Draw patients to learn from, a quarter as many to choose by, and test on all others of the hospital.

    With so few, healthy and diseased alike are drawn in turn, so that every hospital has some of both.
    """
    part = np.full(len(table), "test", dtype="<U5")
    whose, disease = table.columns[table.node], table.columns[table.target]
    for k, name in enumerate(table.sizes):
        rows = np.random.default_rng([seed, k]).permutation(np.flatnonzero(whose == name))
        rank = np.zeros(len(rows), dtype=np.int64)
        for label in (0, 1):
            rank[disease[rows] == label] = np.arange((disease[rows] == label).sum())
        rows = rows[np.argsort(rank, kind="stable")]
        part[rows[:patients]] = "train"
        part[rows[patients : patients + max(4, patients // 4)]] = "val"
    whole = SiteTable(table.name, {**table.columns, "part": part}, table.node, table.target, table.categorical)
    return whole.tasks(metric="auc", split="part", seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--patients", type=int, help="patients that a hospital learns from (default: three fifths of its own)")
    add("--methods", nargs="*", default=["meta_l2c"], help="methods to try beside averaging (default: %(default)s)")
    add("--repeats", type=int, default=10, help="random splits (default: %(default)s)")
    add("--rounds", type=int, default=30, help="default: %(default)s")
    add("--metrics", nargs="*", default=[], help="metrics beside the AUC, such as brier")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    add("--out", type=Path, default=Path("results/hospitals"), help="folder for the picture (default: %(default)s)")
    add("--json", type=Path, help="write all numbers to this file")
    add("--no-pictures", action="store_true", help="draw nothing")
    args = parser.parse_args()
    table = load_dataset("heart_disease")
    print(table, table.sizes)

    def tasks(seed: int) -> Tasks:
        return table.tasks(metric="auc", seed=seed) if args.patients is None else split(table, args.patients, seed)

    found = benefit(
        tasks,
        lambda split: build_model("mlp", split.input_shape, 2, hidden=16),
        methods={name: get_method(name) for name in args.methods},
        metrics=args.metrics,
        repeats=args.repeats,
        rounds=args.rounds,
        seed=args.seed,
        jobs=args.jobs,
        progress=True,
    )
    print(f"\n{report.benefit_answer(found)}\n\n{report.benefit_table(found)}")
    if args.json is not None:
        print("wrote", found.save(args.json))
    if not args.no_pictures:
        print("wrote", report.save_figure(report.benefit_figure(found), args.out / "benefit.png"))


if __name__ == "__main__":
    main()
