"""What `compare` and `benefit` find, in one process or several: ``calls.py FOLDER``."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from graphcollab import Tasks, benefit, compare, methods, report
from graphcollab.models import MLP


def tasks(seed: int) -> Tasks:
    """Sites of one population, of which one has samples of one class only."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 40, 3, generator=draw)
    y = (x.sum(2) + torch.randn(4, 40, generator=draw) > 0).long()
    y[2] = 1
    sites = {f"site {k}": (x[k], y[k]) for k in range(4)}
    return Tasks.from_samples(sites, metric="auc").hold_out(0.3, seed, into="test").hold_out(0.2, seed)


def model() -> MLP:
    return MLP(3, 4, 2)


def play() -> dict[str, Any]:
    l2c = partial(methods.l2c, epochs=1)
    some = {"local": partial(methods.local, epochs=1), "l2c": l2c}
    compared = compare(some, tasks, model, [0, 1], grids={"*": {"lr": [0.05, 0.1]}}, rounds=2)
    found = benefit(tasks, model, methods={"l2c": l2c}, repeats=3, rounds=2, lrs=[0.1], batch_size=40)
    return {
        "compared": [[trial.validation, *trial.per_node] for trial in compared.trials],
        "chosen": [{**trials[0].setting} for trials in compared.chosen.values()],
        "matrix": found.matrix.tolist(),
        "answer": report.benefit_answer(found),
        "sites": str(report.site_table(compared, metrics=["accuracy"])),
    }


if __name__ == "__main__":
    (Path(sys.argv[1]) / f"{os.environ['RANK']}.json").write_text(json.dumps(play()))
