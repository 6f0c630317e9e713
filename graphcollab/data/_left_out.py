"""Dropping rows of a table on request: rows without a target or a site, and small sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from graphcollab._base.errors import EmptyError
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few
from graphcollab.data._sites import names_of_groups
from graphcollab.data._values import factorized, lacks, objects
from graphcollab.data.table import read_column


def kept_rows(
    table: pd.DataFrame, node: str, target: str, event: str | None, group: Any, drop_missing: bool, min_rows: int
) -> tuple[np.ndarray, tuple[Finding, ...]]:
    """Return the numbers of the kept rows, with findings about which rows are dropped and why."""
    values = read_column(table, target, f"target={target!r}")
    names, codes = factorized(read_column(table, node, f"node={node!r}"))
    keep = np.ones(len(table), bool)
    lacking = {f"target in column {target!r}": lacks(values), f"site in column {node!r}": codes < 0}
    if event is not None:
        lacking[f"known event in column {event!r}"] = lacks(read_column(table, event, f"event={event!r}"))
    if drop_missing:
        keep = ~np.any([*lacking.values()], 0)
    counted = keep & (codes >= 0)
    units, what = codes[counted], "rows"
    if isinstance(group, str):
        group = read_column(table, group, f"group={group!r}")
    if group is not None and len(group) == len(table):  # any other length is rejected later
        persons = factorized(names_of_groups(group))[1]
        units, what = np.unique(np.stack([codes, persons])[:, counted], axis=1)[0], "groups"
    sizes = np.bincount(units, minlength=len(names) + 1)  # one extra bin for rows without a site
    least = max(min_rows, 1)
    small = np.flatnonzero(sizes[:-1] < least).tolist()
    found, dropped = [], int((~keep).sum())
    if dropped:
        why = few([f"{int(mask.sum())} without a {what}" for what, mask in lacking.items() if mask.any()])
        message = f"{dropped} of {len(table)} rows are left out: {why}"
        found.append(Finding("left-out-rows", "drop_missing_target", message, {"rows": dropped}))
    if small:
        which = few([f"{names[k]!r} {sizes[k]}" for k in small])
        message = f"{len(small)} of {len(names)} sites are left out, which have fewer than {least} {what}: {which}"
        left = {names[k]: int(sizes[k]) for k in small}
        found.append(Finding("left-out-sites", "min_rows", message, {"sites": left, "min_rows": least}))
    keep &= (codes < 0) | (sizes[codes] >= least)
    if len(table) and not keep.any():
        raise EmptyError("table", f"no row of the table is left: {'; '.join(map(str, found))}")
    return np.flatnonzero(keep), tuple(found)


def of_kept(given: Any, kept: np.ndarray, table: pd.DataFrame) -> Any:
    """Restrict a per-row argument of a table to the kept rows; a column name is returned unchanged."""
    if given is None or isinstance(given, str) or not hasattr(given, "__len__") or len(given) != len(table):
        return given
    return given[kept] if isinstance(given, Tensor | np.ndarray) else objects(given)[kept]
