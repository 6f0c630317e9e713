"""Kinds of columns, as sites compare them."""

from __future__ import annotations

import numpy as np

__all__ = ["NOTHING", "kind_of"]

NOTHING = "no values"
"""The kind of a column that is empty at a site, which goes with every other."""


def kind_of(values: np.ndarray) -> str:
    """Return what a column holds."""
    if values.dtype.kind == "O":
        return NOTHING if all(one is None for one in values.tolist()) else "text"
    return NOTHING if bool(np.isnan(values).all()) else "numbers"
