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
from graphcollab.train.trial import METRIC_COLUMNS

SHARES = (*METRIC_COLUMNS, "validation", "mean_std_over_seeds")


@shown
def results_json(comparison: Comparison, reference: str | None = None, **more: Any) -> str:
    """Return a comparison as JSON text; numbers that are not defined are null.

    ``methods`` holds the columns of `Comparison.rows` for every method, means over seeds, and in ``per_seed`` of each,
    with the ``failure`` of those that failed. Beside it are the chosen ``settings``, in ``paired`` the differences to
    the reference with 95 % intervals (none where a mean is not defined), and the ``versions``. Shares are in percent.

    Args:
        more: Further entries, such as a script's arguments.
    """
    scale = 100.0 if comparison.share else 1.0

    def entry(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: scale * v if key in SHARES else v for key, v in values.items()}

    rows = comparison.rows()
    settings = {name: row.pop("settings") for name, row in rows.items()}
    methods = {n: {**entry(row), "per_seed": [entry(seed) for seed in row["per_seed"]]} for n, row in rows.items()}
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
    content = {"methods": methods, "settings": settings, "paired": paired, "metric": comparison.metric}
    text = json.dumps({**content, "versions": versions(), **more}, default=str)
    plain = json.loads(text, parse_constant=lambda constant: None)  # JSON knows neither NaN nor infinity
    return json.dumps(plain, indent=2) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of what numbers depend on."""
    found = {"python": platform.python_version(), "graphcollab": __version__, "torch": torch.__version__}
    return found | {"torch-geometric": torch_geometric.__version__, "numpy": np.__version__}
