"""Four hospitals, each with a file of its own patients, and the script that each of them runs."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from graphcollab import load_dataset

HOSPITALS = {"cleveland": "Cleveland", "hungarian": "Hungary", "switzerland": "Switzerland", "va": "LongBeach"}
SITES = tuple(sorted(HOSPITALS.values()))
SETTINGS = {"target": "disease", "metric": "auc", "categorical": ["cp", "restecg", "slope", "thal"]}

SCRIPT = """
from pathlib import Path
import graphcollab

private = Path(__file__).parent
hospital = graphcollab.site("{name}", private / "own.csv", **{settings})
{body}
"""


def write_files(folder: Path) -> dict[str, Path]:
    """Write the patients of each hospital into a file of its own; the files by site."""
    table = load_dataset("heart_disease")
    names = [name for name in table.columns if name != table.node]
    rows = list(zip(*(table.columns[name].tolist() for name in names), strict=True))
    found = {}
    for hospital, site in HOSPITALS.items():
        found[site] = folder / f"{site}.csv"
        with found[site].open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for where, row in zip(table.columns[table.node], rows, strict=True):
                if where == hospital:
                    writer.writerow(["" if isinstance(one, float) and math.isnan(one) else one for one in row])
    return found


def scripts(body: str) -> dict[str, str]:
    """Return what every site runs, by site."""
    return {name: SCRIPT.format(name=name, settings=SETTINGS, body=body) for name in SITES}
