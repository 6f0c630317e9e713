"""`graphcollab predict`: what the models of every site say about the rows of a table."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from graphcollab.command.data import require_data
from graphcollab.command.declared import Setting
from graphcollab.command.out_file import require_free
from graphcollab.command.settings_file import COMMAND, RUN, read_toml
from graphcollab.command.work import Work, note, tell
from graphcollab.files import csv_text, write_csv
from graphcollab.naming import close, few
from graphcollab.tasks._values import factorised
from graphcollab.tasks.table import Table, open_table
from graphcollab.train import Models, load
from graphcollab.train.bundle import MANIFEST

__all__ = ["PREDICT", "folders_of_models", "saved_models"]

MODELS = "models"  # the folder in that of a comparison
PAST = 1.1  # times its least value is a validation loss that chance hardly explains

SAVED = Setting("saved", str, text="A folder of saved models, such as OUT/models/ditto.", required=True)
ROWS = Setting("data", str, text="A CSV or Parquet file of rows, with the same columns.", required=True)
SETTINGS = [
    Setting("site", str | None, text="The site whose rows they are. Default: the table has the column of sites."),
    Setting("proba", bool, False, "Write the probability of every class, too."),
    Setting("out", str | None, text="CSV file to write; earlier predictions are replaced. Default: standard output."),
]


def saved_models(folder: str) -> Models:
    """Load saved models; of a comparison's folder those of its only method, of a site's its own."""
    path, found = Path(folder), folders_of_models(folder)
    if len(found) > 1:
        raise ValueError(f"{folder} has the models of several methods: name one, {few([*map(str, found)], ' or ')}")
    if found:
        return load(found[0])
    if (path / RUN).is_file():
        raise ValueError(f"{folder} has no saved models: {_advice(path / RUN)}")
    if path.exists():
        what = "holds no saved models" if path.is_dir() else "is a file"
        raise ValueError(f"{folder} {what}: give a folder of graphcollab compare --save, such as OUT/models/ditto")
    near = close(path.name, [one.name for one in path.parent.iterdir()], 1) if path.parent.is_dir() else ""
    raise ValueError(f"there is no folder {folder}; {near}graphcollab compare --save writes models".rstrip("; "))


def past_best(models: Models) -> str:
    """Say so where models were clearly better before the end of their training; nothing where they were not."""
    best = models.about.get("best")
    if not best or not best["saved_val_loss"] > PAST * best["val_loss"] > 0:
        return ""
    return (
        f"these models were trained past their best: their mean validation loss was {best['val_loss']:.4g} after "
        f"{best['rounds']} rounds and is {best['saved_val_loss']:.4g} after {models.about['rounds']}; train them anew "
        "with --patience 20"
    )


def folders_of_models(folder: str) -> list[Path]:
    """Return which folders hold saved models: one itself, or those in it of a site or of a comparison's methods."""
    path = Path(folder)
    for place in (path, path / MODELS):
        if (place / MANIFEST).is_file():
            return [place]
    place = path if path.resolve().name == MODELS else path / MODELS
    return sorted(one.parent for one in place.glob(f"*/{MANIFEST}"))


def _advice(run: Path) -> str:
    """Say how there come to be models, by the file of settings of a run that has none."""
    with suppress(ValueError):
        command = read_toml(run).get(COMMAND)
        if command == "benefit":
            return "graphcollab benefit keeps none, graphcollab compare with --save does"
        if command == "site":
            return "repeat its command, which goes on there and writes them at the end"
    return "repeat its command with --save, which goes on there"


def play_predict(asked: dict[str, Any]) -> None:
    """Predict, and write a line for every row of the table, in its order."""
    models = saved_models(asked["saved"])
    if past := past_best(models):
        note(f"warning: {past}", asked["quiet"])
    require_data(asked["data"])
    prepared = models.preparation
    if prepared is None:
        raise ValueError(f"the models in {asked['saved']} were not trained on a table: use them in Python")
    if asked["proba"] and not models.classes:
        raise ValueError("--proba is of classes, and these models predict amounts: leave it out")
    header = ["row", prepared.node, prepared.target.name]
    header += [f"{prepared.target.name} = {one}" for one in models.classes] if asked["proba"] else []
    if asked["out"]:
        require_free(asked["out"], asked["data"], asked["saved"], header)
    table = open_table(asked["data"])
    names, whose = _sites(table, asked["site"], prepared.node)
    columns = {name: table.column(name) for name in table.names if name != prepared.node}
    found: dict[int, list[Any]] = {}
    for k, name in enumerate(names):
        rows = np.flatnonzero(whose == k)
        own = {column: values[rows] for column, values in columns.items()}
        told = [models.predict(name, own)[:, None]]
        told += [models.predict_proba(name, own)] if asked["proba"] else []
        answers = [one.tolist() for one in told]
        for n, row in enumerate(rows.tolist()):
            found[row] = [row, name, *(value for one in answers for value in one[n])]
    _write(asked, header, [found[row] for row in sorted(found)])


def _sites(table: Table, site: str | None, node: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the sites whose rows are in a table, and which of them every row has."""
    if site is not None:
        return (site,), np.zeros(table.rows, np.int64)
    if node not in table.names:
        raise ValueError(f"the table has no column {node!r} that says whose rows they are: give --site NAME")
    names, whose = factorised(table.column(node))
    if (whose < 0).any():
        raise ValueError(f"row {int(np.flatnonzero(whose < 0)[0])} has no site in column {node!r}: fill it in")
    return names, whose


def _write(asked: dict[str, Any], header: list[str], rows: list[list[Any]]) -> None:
    if asked["out"]:
        note(f"wrote {write_csv(asked['out'], header, rows)}", asked["quiet"])
        return
    tell(csv_text(header, rows).rstrip("\n"), table=True)


PREDICT = Work(
    "predict",
    SETTINGS,
    play_predict,
    "Predict the rows of a table by the saved models of their sites, as CSV with a line for every row.",
    SAVED,
    ROWS,
)
