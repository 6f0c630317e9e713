"""The preparation of tables is what scikit-learn's transformers make of them, on all rows and on new ones."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from graphcollab import Tasks
from graphcollab.data import Preparation

ALL = {"val_fraction": 0, "test_fraction": 0}


def frame(rows: int, seed: int, words: str = "pqrs") -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    age, dose = draw.normal(50, 12, rows), draw.gamma(2.0, 3e4, rows)
    age[draw.random(rows) < 0.2], dose[draw.random(rows) < 0.3] = np.nan, np.nan
    ward = np.where(draw.random(rows) < 0.1, None, draw.choice([*words], rows).astype(object))
    columns = {"site": draw.choice([*"abc"], rows), "age": age, "dose": dose, "ward": ward}
    return pd.DataFrame({**columns, "code": draw.choice([2, 7, 11], rows), "y": draw.integers(0, 2, rows)})


def transformer() -> ColumnTransformer:
    """Numbers are standardized by their known values and filled with the mean; unseen categories are all zeros."""
    numbers = make_pipeline(StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True))
    return ColumnTransformer(
        [
            ("age", numbers, ["age"]),
            ("dose", numbers, ["dose"]),
            ("ward", OneHotEncoder(categories=[[*"pqrs"]], handle_unknown="ignore", sparse_output=False), ["ward"]),
            ("code", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["code"]),
        ]
    )


@pytest.mark.parametrize("seed", range(5))
def test_rows_become_what_scikit_learn_makes_of_them(seed):
    table, new = frame(400, seed), frame(300, seed + 100, "pqrst")
    tasks = Tasks.from_frame(table, categorical=["code"], **ALL)
    reference = transformer().fit(table)
    features = [*tasks.preparation.features]
    missing = features.index("ward missing")  # scikit-learn has no indicator of it
    for rows in (table, new):
        expected = np.insert(reference.transform(rows), missing, ~rows["ward"].isin([*"pqrs"]), axis=1)
        np.testing.assert_allclose(tasks.preparation.apply(rows), expected, rtol=0, atol=1e-6)
    stored = json.loads(json.dumps(tasks.preparation.to_json()))
    np.testing.assert_array_equal(Preparation.from_json(stored).apply(new), tasks.preparation.apply(new))
