"""What L2C's and meta-L2C's weights do over rounds, and what drives them, in settings of different kinds.

    attention.py
    attention.py --settings fashion_mlp fashion_cnn cifar10 hospitals patients --root DATA

For some rounds, prints means over nodes: the weight of the own model, the entropy of the weights (1: all models count
alike, 0: one does), the norm of the codes, how strongly the validation gradient and weight decay pull at the encoders,
and each layer's share in the logits. Draws all of it over rounds. Settings are described in _settings.py.
"""

# ci: --rounds 3 --out $OUT/attention

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _attention import WatchWeights  # type: ignore
from _figures import own_weight_curves  # type: ignore
from _measure import add_device  # type: ignore
from _settings import SETTINGS  # type: ignore

from graphcollab import report, run
from graphcollab.methods import l2c, meta_l2c
from graphcollab.report.values import text_table

PAPER: dict[str, Any] = {"score": "product", "normalize": False, "own": "softmax", "decoupled": False}
METHODS: dict[str, Any] = {
    "meta_l2c": meta_l2c,
    "meta_l2c, paper's form": partial(meta_l2c, **PAPER, mixer_lr=0.1, scale="mean"),
    "meta_l2c, paper's form, sum of losses": partial(meta_l2c, **PAPER, mixer_lr=0.1),
    "meta_l2c, paper's form, sum of losses, step 0.01": partial(meta_l2c, **PAPER),
    "l2c": l2c,
    "l2c, paper's form": partial(l2c, own="softmax", decoupled=False),
}
SHOWN = (1, 3, 5, 10, 20, 50, 100)
COLUMNS = {"own_weight": "own", "weight_entropy": "entropy", "largest_weight": "largest other"}
FORCES = {"code_norm": "codes", "force/gradient": "gradient", "force/decay": "decay"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--settings", nargs="+", default=["digits"], choices=SETTINGS, help="default: digits, which needs no files")
    add("--methods", nargs="+", default=list(METHODS), choices=METHODS, help="default: all")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--lr", type=float, default=0.05, help="step size of the models (default: %(default)s)")
    add("--rounds", type=int, help="default: those of the setting")
    add("--seed", type=int, default=0, help="partition (default: %(default)s)")
    add_device(parser)
    add("--threads", type=int, default=1, help="default: %(default)s")
    add("--out", type=Path, default=Path("results/attention"), help="folder for pictures (default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.settings:
        setting = SETTINGS[name](args.root)
        tasks, rounds = setting.tasks(args.seed), args.rounds or setting.rounds
        for method in args.methods:
            made = METHODS[method](lr=args.lr, batch_size=setting.batch_size)
            settings: dict[str, Any] = {"rounds": rounds, "seed": args.seed, "compute": args.device}
            result = run(made, tasks, setting.model, callbacks=[WatchWeights()], **settings)
            print(f"\n{name}, {method}: test {float(result.history.mean('test_metric')[-1]):.4f}")
            print(table(result.history, rounds), flush=True)
            figure = own_weight_curves(result.history, f"{name}: {method}")
            place = args.out / f"{name}_{method.translate(str.maketrans({' ': '_', ',': None, chr(39): None}))}.png"
            print("wrote", report.save_figure(figure, place))


def table(history: Any, rounds: int) -> str:
    """Return means over nodes in some rounds."""
    values = history.values
    inside = {f"weigher/{name}": label for name, label in FORCES.items()}
    inside |= {name: name.rpartition("/")[2] for name in sorted(values) if name.startswith("weigher/layer_share/")}
    columns = {name: label for name, label in {**COLUMNS, **inside}.items() if name in values}
    rows = []
    for round_ in sorted({one for one in SHOWN if one < rounds} | {rounds}):
        place = history.rounds.index(round_)
        means = [float(history.table(name)[place].nanmean()) for name in columns]
        rows.append([str(round_), *(f"{mean:.3g}" for mean in means)])
    return text_table(["round", *columns.values()], rows)


if __name__ == "__main__":
    main()
