"""The file of `--out`: written over only where it is one that the same command has written."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from graphcollab.files import as_cell

__all__ = ["require_free"]


def require_free(out: str, data: str, saved: str, header: Sequence[str]) -> None:
    """Check, before anything is written, that nothing is lost where predictions are to lie.

    They may replace earlier ones, told by what they begin with: the same site column and target, with probabilities or
    without, and rows numbered from 0.

    Args:
        out: The file of predictions.
        data: The table that they are of.
        saved: The folder of models.
        header: What the file is to begin with: the number of a row, its site, the prediction, and perhaps more.

    Raises:
        ValueError: If it is that table, also by another path, lies in that folder, or holds something else.
    """
    path, models = Path(out), Path(saved).resolve()
    if path.exists() and os.path.exists(data) and path.samefile(data):
        raise ValueError(f"--out {out} is the table to predict, {data}: name another file")
    if path.resolve().is_relative_to(models) or (path.parent.resolve() / path.name).is_relative_to(models):
        raise ValueError(f"--out {out} lies in the folder of saved models, {saved}: name a file outside of it")
    if path.is_dir():
        raise ValueError(f"--out {out} is a folder: name a file, such as {path / 'predictions.csv'}")
    if os.path.lexists(path) and not _are_predictions(path, header):
        raise ValueError(f"--out {out} holds something else than predictions of these models: name another file")


def _are_predictions(path: Path, header: Sequence[str]) -> bool:
    """Tell whether a file is one of predictions of the same target, or empty."""
    if not path.is_file():
        return False
    if not path.stat().st_size:
        return True
    header = [str(as_cell(name)) for name in header]
    target = header[2]
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        try:
            lines = csv.reader(file)
            first, second = next(lines, []), next(lines, ["0"])
        except csv.Error:
            return False
    more = all(name.startswith(f"{target} = ") for name in first[3:])
    return first[:3] == [*header[:3]] and more and second[:1] == ["0"]
