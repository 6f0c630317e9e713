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

from _answers import answer, asked, options, split  # type: ignore

from graphcollab import benefit, build_model, load_dataset
from graphcollab.comm import only_main_process


@only_main_process()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--root", required=True, help="folder with tabular/parkinsons_updrs.data")
    add("--recordings", type=int, default=8, help="of a patient, to learn from (default: %(default)s)")
    add("--limit", type=int, default=10, help="as many pairs are drawn as so many sites have (default: %(default)s)")
    add("--epochs", type=int, default=5, help="in each round (default: %(default)s)")
    options(parser, rounds=60, out="patients")
    args = parser.parse_args()
    table = load_dataset("parkinsons", args.root)
    print(table)
    amounts = {"loss": "mse", "metric": "mae", "standardize_target": True}
    found = benefit(
        lambda seed: split(table, args.recordings, 2, seed, **amounts),
        lambda tasks: build_model("mlp", tasks.input_shape, 1, hidden=32),
        epochs=args.epochs,
        batch_size=10,
        lrs=(0.01, 0.02, 0.05),
        limit=args.limit,
        **asked(args),
    )
    answer(found, args)


if __name__ == "__main__":
    main()
