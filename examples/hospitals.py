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

from _answers import answer, asked, options, split  # type: ignore

from graphcollab import Tasks, benefit, build_model, load_dataset
from graphcollab.comm import only_main_process


@only_main_process()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--patients", type=int, help="patients that a hospital learns from (default: three fifths of its own)")
    options(parser, rounds=30, out="hospitals")
    args = parser.parse_args()
    table = load_dataset("heart_disease")
    print(table, table.sizes)

    def tasks(seed: int) -> Tasks:
        if args.patients is None:
            return table.tasks(metric="auc", seed=seed)
        return split(table, args.patients, 4, seed, in_turn=True, metric="auc")

    answer(benefit(tasks, lambda tasks: build_model("mlp", tasks.input_shape, 2, hidden=16), **asked(args)), args)


if __name__ == "__main__":
    main()
