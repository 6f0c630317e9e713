"""42 patients, each with a model of their own: who should learn from whom?

Voices were recorded at home for half a year; how severe is the speaker's Parkinson's disease (UCI Parkinsons
Telemonitoring, see datasets/README.md)? Every patient is a site. What the voice says differs from one to the other, so
one model for all is of little use, and even with eight recordings a patient the question is whether others help:

    patients.py --root DATA
    patients.py --root DATA --recordings 24

All pairs of 42 would be 861; some are drawn (--limit).
"""

# ci: --help

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from graphcollab import benefit, build_model, load_dataset, report
from graphcollab.datasets import SiteTable
from graphcollab.methods import get_method
from graphcollab.tasks import Tasks


def split(table: SiteTable, recordings: int, seed: int) -> Tasks:
    """Draw recordings to learn from, a quarter as many to choose by, and test on the patient's others."""
    part = np.full(len(table), "test", dtype="<U5")
    whose = table.columns[table.node]
    for k, patient in enumerate(np.unique(whose)):
        rows = np.random.default_rng([seed, k]).permutation(np.flatnonzero(whose == patient))
        part[rows[:recordings]] = "train"
        part[rows[recordings : recordings + max(2, recordings // 4)]] = "val"
    whole = SiteTable(table.name, {**table.columns, "part": part}, table.node, table.target, table.categorical)
    return whole.tasks(loss="mse", metric="mae", split="part", seed=seed, standardise_target=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--root", required=True, help="folder with tabular/parkinsons_updrs.data")
    add("--recordings", type=int, default=8, help="of a patient, to learn from (default: %(default)s)")
    add("--methods", nargs="*", default=["meta_l2c"], help="methods to try beside averaging (default: %(default)s)")
    add("--limit", type=int, default=10, help="as many pairs are drawn as so many sites have (default: %(default)s)")
    add("--repeats", type=int, default=10, help="random splits (default: %(default)s)")
    add("--rounds", type=int, default=60, help="default: %(default)s")
    add("--epochs", type=int, default=5, help="in each round (default: %(default)s)")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--out", type=Path, default=Path("results/patients"), help="folder for the picture (default: %(default)s)")
    add("--json", type=Path, help="write all numbers to this file")
    args = parser.parse_args()
    table = load_dataset("parkinsons", args.root)
    print(table)
    found = benefit(
        lambda seed: split(table, args.recordings, seed),
        lambda tasks: build_model("mlp", tasks.input_shape, 1, hidden=32),
        methods={name: get_method(name) for name in args.methods},
        repeats=args.repeats,
        rounds=args.rounds,
        epochs=args.epochs,
        batch_size=10,
        lrs=(0.01, 0.02, 0.05),
        limit=args.limit,
        seed=args.seed,
        progress=True,
    )
    print(f"\n{report.benefit_answer(found)}\n\n{report.benefit_table(found)}")
    if args.json is not None:
        print("wrote", found.save(args.json))
    print("wrote", report.save_figure(report.benefit_figure(found), args.out / "benefit.png"))


if __name__ == "__main__":
    main()
