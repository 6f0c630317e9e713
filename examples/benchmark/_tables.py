"""Tables whose rows belong to real nodes, as arrays: patients of four hospitals, and recordings of 42 patients.

They are read from the folder ``tabular`` in the folder with the datasets.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TypeAlias

import numpy as np

__all__ = ["HEART_COLUMNS", "heart_disease", "parkinsons"]

Rows: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Inputs [N, columns], NaN where a value is missing, and targets [N] of a node."""

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
HEART_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal"),
    "num",
)
TARGETS = ("motor_UPDRS", "total_UPDRS")
VOICE = 16


def heart_disease(root: str | os.PathLike[str] | None = None) -> dict[str, Rows]:
    """Return the patients of every hospital in UCI Heart Disease: 13 columns, and 1 where the patient is diseased.

    A cholesterol of 0 is taken as missing, as it is for all patients in Switzerland.
    """
    out = {}
    for hospital in HOSPITALS:
        path = _find(root, f"processed.{hospital}.data", "UCI Heart Disease", "10.24432/C52P4X")
        table = _numbers(path, path.read_text().splitlines(), HEART_COLUMNS)
        inputs, diseased = table[:, :-1], table[:, -1] > 0
        chol = inputs[:, HEART_COLUMNS.index("chol")]  # a view
        chol[chol == 0] = np.nan
        out[hospital] = inputs, diseased.astype(np.int64)
    return out


def parkinsons(root: str | os.PathLike[str] | None = None) -> dict[str, Rows]:
    """Return the recordings of every patient in UCI Parkinsons Telemonitoring, with motor_UPDRS as the target.

    Inputs are age, sex, time of the test and 16 measures of the voice, never total_UPDRS, the other target.
    """
    path = _find(root, "parkinsons_updrs.data", "UCI Parkinsons Telemonitoring", "10.24432/C5ZS3N")
    first, *lines = path.read_text().splitlines()
    columns = first.replace("\t", ",").split(",")
    expected = ["subject#", "age", "sex", "test_time", *TARGETS]
    if columns[: len(expected)] != expected or len(columns) != len(expected) + VOICE:
        raise ValueError(f"{path}: expected a header with {expected} and {VOICE} measures, got {columns}")
    table = _numbers(path, lines, columns)
    inputs = [k for k, name in enumerate(columns) if name not in ("subject#", *TARGETS)]
    target, subject = table[:, columns.index("motor_UPDRS")], table[:, 0]
    return {f"patient {s:.0f}": (table[subject == s][:, inputs], target[subject == s]) for s in np.unique(subject)}


def _find(root: str | os.PathLike[str] | None, name: str, title: str, doi: str) -> Path:
    """Return the path of a file, or say where to get it."""
    root = root if root is not None else os.environ.get("GRAPHCOLLAB_DATA")
    where = f"{title} is at https://doi.org/{doi}"
    if not root:
        raise ValueError(f"{name} is read from a file: give --root or set GRAPHCOLLAB_DATA to FOLDER; {where}")
    path = Path(root) / "tabular" / name
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: {where}; put its file {name} there")
    return path


def _numbers(path: Path, lines: list[str], columns: list[str] | tuple[str, ...]) -> np.ndarray:
    """Return rows of numbers that commas or tabs separate, [N, columns], NaN where there is a question mark."""
    rows = [row for row in csv.reader(line.replace("\t", ",") for line in lines) if row]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"{path}: expected {len(columns)} values in every line, got {','.join(row)!r}")
    return np.array([[np.nan if cell == "?" else float(cell) for cell in row] for row in rows])
