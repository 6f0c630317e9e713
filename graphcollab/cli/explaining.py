"""What is in the models of a comparison: `--explain` and `--by`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphcollab import report
from graphcollab.cli.folder import note
from graphcollab.datasets import DATASETS, TABLES
from graphcollab.errors import ConflictError, GraphcollabError
from graphcollab.findings import Finding
from graphcollab.naming import setting
from graphcollab.report.inside import chosen_result
from graphcollab.report.values import Table
from graphcollab.tasks.table import Table as Source, open_table
from graphcollab.train import Comparison


def require_columns(asked: Mapping[str, Any]) -> None:
    """Check before anything is run that there is a table, with the columns whose groups are asked for."""
    for option in ("explain", "by"):
        if asked[option] and str(asked["data"]) in DATASETS:
            raise ConflictError(option, f"only tables have columns, and {asked['data']} is not a table")
    for name in asked["by"]:
        _source(asked).column(name, setting(by=[name]))


def explained(found: Comparison, asked: Mapping[str, Any]) -> list[Table]:
    """Return what is in the models of the best method by validation and of training alone, and how good all are."""
    both = {chosen_result(found)[0], *({"local"} & found.results.keys())} if asked["explain"] else set()
    tables: list[Table] = []
    for name in sorted(both):
        note(f"looking into the models of {name}, which takes fifty runs more where they are linear", asked["quiet"])
        tables.append(report.importance_table(found, name))
        try:
            tables.append(report.coefficient_table(found, name))
        except GraphcollabError as error:  # not linear, or a refit failed
            tables[-1] = tables[-1].noting(Finding("no-coefficients", name, f"no coefficients: {error}"))
    return [*tables, *(report.group_table(found, _source(asked), column) for column in asked["by"])]


def _source(asked: Mapping[str, Any]) -> Source:
    data = str(asked["data"])
    return open_table(TABLES[data]().columns if data in TABLES else data)
