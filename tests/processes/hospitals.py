"""Each of three processes has the table of one hospital, and all ask who gains by whom: ``hospitals.py FOLDER``."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphcollab import Tasks, benefit, build_model, compare, load_dataset, methods, report
from graphcollab.comm import meeting
from graphcollab.sites import tasks_of_site

CASES: dict[str, dict[str, Any]] = {
    "mostly for testing": {"test_fraction": 0.7, "metric": "auc", "methods": {"l2c": methods.l2c}},
    "in groups": {"group": "family", "leave_out": [], "pooled": "per_site"},
    "amounts": {"target": "age", "loss": "mse", "standardize_target": True},
}


def tables() -> dict[str, dict[str, np.ndarray]]:
    columns = dict(load_dataset("heart_disease").columns)
    columns["family"] = np.arange(920) // 3  # none of two hospitals
    where = columns.pop("hospital")
    columns = {name: columns[name] for name in ("age", "sex", "cp", "thalach", "family", "disease")}
    return {str(name): {key: one[where == name] for key, one in columns.items()} for name in np.unique(where)[1:]}


def outcomes_of(make: Callable[..., Tasks]) -> dict[str, Any]:
    """Return what each case finds, given what makes tasks of settings."""
    found = {name: found_with(make, **settings) for name, settings in CASES.items()}
    return found | {"compared": compared_with(make)}


def compared_with(make: Callable[..., Tasks]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare(
            {"local": partial(methods.local, epochs=1), "fedavg": partial(methods.fedavg, epochs=1)},
            lambda seed: make(target="disease", leave_out=["family", "cp"], seed=seed),
            lambda split: build_model("mlp", split.input_shape, 2, hidden=4),
            [0, 1],
            rounds=2,
        )
    paired = found.paired("fedavg", "local")
    samples = [trial.samples for trial in found.trials if trial.samples is not None]
    return {
        "answer": str(paired),
        "told": [[one.train, one.test, one.share] for one in samples] + [[*trial.per_node] for trial in found.trials],
        "deals": len({one.of_nodes for one in samples}),
        "fingerprints": [trial.tasks for trial in found.trials],
    }


def found_with(make: Callable[..., Tasks], methods: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    settings = {"target": "disease", "categorical": ["cp"], "leave_out": ["family"], **settings}
    outputs = 1 if settings.get("loss") == "mse" else 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = benefit(
            lambda seed: make(**settings, seed=seed),
            lambda split: build_model("mlp", split.input_shape, outputs, hidden=4),
            methods=methods or {},
            metrics=["accuracy"] if outputs == 2 else [],
            repeats=3,
            rounds=2,
            lrs=[0.1],
            batch_size=256,
        )
    return {"answer": report.benefit_answer(found), "told": found._told()}


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    site, table = list(tables().items())[2 - rank]  # in another order than names are
    mine = outcomes_of(lambda **settings: tasks_of_site(meeting(), site, table, **settings))
    (Path(sys.argv[1]) / f"{rank}.json").write_text(json.dumps(mine))
