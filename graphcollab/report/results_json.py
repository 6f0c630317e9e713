"""A comparison as JSON, for other programs."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch_geometric

from graphcollab._version import __version__
from graphcollab.report._text import shown
from graphcollab.train import Comparison
from graphcollab.train.trial import COLUMNS, METRIC_COLUMNS


@shown
def results_json(comparison: Comparison, reference: str | None = None, **more: Any) -> str:
    """Return a comparison as JSON text; numbers that are not defined are null.

    ``methods`` holds for every method the means over seeds of ``mean``, ``worst10``, ``worst20``, ``std`` (over nodes),
    ``bytes_per_node`` and ``seconds``, and the same of every seed in ``per_seed``. Beside it are the chosen
    ``settings``, the differences to the reference in ``paired`` with their 95 % intervals, and the ``versions`` used.
    Where a method failed, ``failed`` counts the seeds: then it has no means and nothing in ``paired`` (nor where a mean
    is not defined), and the seed's entry says why in ``failure``. Where means are not over all nodes, they are over
    ``nodes`` of ``of_nodes``; ``rounds``, ``local_steps`` and ``models`` are what was spent; where nodes were left
    behind, ``isolated`` says how many, the most on any seed; and where something was found wrong with runs,
    ``findings`` says on how many seeds, by kind.

    Args:
        more: Further entries, such as a script's arguments.
    """
    scale = 100.0 if comparison.share else 1.0

    def entry(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: scale * v if key in (*METRIC_COLUMNS, "validation") else v for key, v in values.items()}

    methods: dict[str, Any] = {}
    for name, row in comparison.rows().items():
        few = row["nodes"] < row["of_nodes"]  # not so where trials do not say: both are NaN
        keys = [
            *COLUMNS,
            *["nodes", "of_nodes"] * few,
            *["rounds", "local_steps", "models"] * (row["local_steps"] > 0),
            *(key for key in ("failed", "isolated", "findings") if row[key]),
        ]
        methods[name] = entry({key: row[key] for key in keys})
        methods[name]["per_seed"] = [entry(seed) for seed in row["per_seed"]]
    paired: dict[str, Any] = {}
    for name in comparison.chosen:
        if reference is None or name == reference:
            continue
        paired[name] = {}
        for column in ("mean", "worst10"):
            if comparison.undefined(name, reference, column):
                continue
            found = comparison.paired(name, reference, column)
            ends = {key: scale * getattr(found, key) for key in ("mean", "low", "high", "std")}
            paired[name][column] = {**ends, "n": found.n, "p_value": found.p_value}
            paired[name][column] |= {"ratio": found.ratio, "reference": reference}
    settings = {name: [dict(trial.setting) for trial in trials] for name, trials in comparison.chosen.items()}
    content = {"methods": methods, "settings": settings, "paired": paired, "metric": comparison.metric}
    text = json.dumps({**content, "versions": versions(), **more}, default=str)
    plain = json.loads(text, parse_constant=lambda constant: None)  # JSON knows neither NaN nor infinity
    return json.dumps(plain, indent=2) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of what numbers depend on."""
    found = {"python": platform.python_version(), "graphcollab": __version__, "torch": torch.__version__}
    return found | {"torch-geometric": torch_geometric.__version__, "numpy": np.__version__}
