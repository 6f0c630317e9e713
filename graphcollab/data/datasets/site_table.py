"""Tables whose rows belong to real sites: patients of hospitals, or recordings of patients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from graphcollab._base.errors import MissingFileError
from graphcollab._base.settings import checked
from graphcollab.data.table import open_table, read_column
from graphcollab.data.tasks import Tasks

_HEART = Path(__file__).with_name("heart_disease.csv")
_PARKINSONS = "parkinsons_updrs.data"
_TARGETS = ("motor_UPDRS", "total_UPDRS")


@dataclass(frozen=True, eq=False)
class SiteTable:
    """A table with a column that assigns every row to a site.

    Args:
        name: Name of the table in messages.
        columns: The columns by name: numbers, NaN where a value is missing, or text.
        node: The column with the site names.
        target: The column to predict.
        categorical: Columns whose numbers are categories.

    Example:
        >>> from graphcollab import load_dataset
        >>> table = load_dataset("heart_disease")
        >>> table
        SiteTable('heart_disease', 920 rows, sites=4, target='disease')
        >>> table.tasks(metric="auc").names
        ('cleveland', 'hungarian', 'switzerland', 'va')
    """

    name: str
    columns: Mapping[str, np.ndarray] = field(repr=False)
    node: str
    target: str
    categorical: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows of every site, {name: number}."""
        names, counts = np.unique(self.columns[self.node], return_counts=True)
        return dict(zip(map(str, names.tolist()), counts.tolist(), strict=True))

    def tasks(self, **settings: Any) -> Tasks:
        """Build tasks from the table with the settings of `Tasks.from_frame`.

        Columns have the categories and indicators of the whole table, including test rows, so all splits have the same
        features. Means and standard deviations are fitted to training rows.
        """
        about = {"node": self.node, "target": self.target, "categorical": self.categorical, **settings}
        if about.get("preparation") is None:
            split, weight, group = (
                about.get(name) if isinstance(about.get(name), str) else None for name in ("split", "weight", "group")
            )
            apart = (about["node"], about["target"], split, weight, group)
            about["categorical"] = [name for name in about["categorical"] if name not in apart]
            whole = {**about, "split": None, "val_fraction": 0, "test_fraction": 0}
            undivided = {name: values for name, values in self.columns.items() if name != split}
            about |= {"preparation": Tasks.from_frame(undivided, **whole).preparation, "refit": True}
        known = ("categorical", "categories")  # already in the preparation
        about = {key: value for key, value in about.items() if key not in known}
        return Tasks.from_frame(self.columns, **about)

    def __len__(self) -> int:
        return len(self.columns[self.node])

    def __repr__(self) -> str:
        return f"SiteTable({self.name!r}, {len(self)} rows, sites={len(self.sizes)}, target={self.target!r})"


@checked
def heart_disease() -> SiteTable:
    """Load the patients of four hospitals to predict heart disease. The data come with this package.

    `UCI Heart Disease <https://doi.org/10.24432/C52P4X>`_ (Janosi, Steinbrunn, Pfisterer, Detrano, 1988; CC BY 4.0):
    303 patients in Cleveland, 294 in Budapest, 123 in Switzerland and 200 in Long Beach. The target ``disease`` is 1
    if ``num`` in the files is above 0. A cholesterol of 0 is treated as missing, as it is for all patients in
    Switzerland. Categories and indicators are those of all rows, including test rows; see `SiteTable.tasks`.
    """
    read = open_table(_HEART)
    columns = {name: read_column(read, name) for name in read}
    columns["disease"] = (columns.pop("num") > 0).astype(np.int64)
    columns["chol"] = np.where(columns["chol"] == 0, np.nan, columns["chol"])
    return SiteTable("heart_disease", columns, "hospital", "disease", ("cp", "restecg", "slope", "thal"))


@checked
def parkinsons(
    root: str | os.PathLike[str], target: Literal["motor_UPDRS", "total_UPDRS"] = "motor_UPDRS"
) -> SiteTable:
    """Load recordings of 42 patients, from ``tabular``, to predict the severity of their Parkinson's disease.

    `UCI Parkinsons Telemonitoring <https://doi.org/10.24432/C5ZS3N>`_ (Tsanas, Little, 2009; CC BY 4.0): 5,875
    recordings with age, sex, time of the test and 16 voice measures. The score that is not the ``target`` is excluded.
    Categories and indicators would be those of all rows, including test rows, but this table has none; see
    `SiteTable.tasks`.

    Raises:
        FileNotFoundError: If the file does not exist; the message says where to get it.
        ValueError: If the file lacks a column.
    """
    path = Path(root) / "tabular" / _PARKINSONS
    if not path.is_file():
        raise MissingFileError(
            f"file {path}", f"there is no file {path}: it is in https://doi.org/10.24432/C5ZS3N; put it there"
        )
    read = open_table(path)
    columns = {"patient": read_column(read, "subject#"), target: read_column(read, target)}
    columns |= {name: read_column(read, name) for name in read if name not in ("subject#", *_TARGETS)}
    return SiteTable("parkinsons", columns, "patient", target)
