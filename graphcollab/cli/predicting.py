"""`graphcollab predict`: predictions of every site's model for the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphcollab._base.errors import AmbiguousError, ConflictError, ExistsError, MissingError, MissingFileError
from graphcollab._base.files import csv_text, write_csv
from graphcollab._base.naming import close, few, numbered
from graphcollab.cli.data import require_data
from graphcollab.cli.folder import RUN, note, tell
from graphcollab.data.losses import predicted_by
from graphcollab.data.table import open_table, read_column, sites_in
from graphcollab.persistence import Models
from graphcollab.persistence.folder import FILE
from graphcollab.persistence.saved_models import load

MODELS = "models"  # the folder in that of a comparison
SHOWN = 8  # sites without a model, of which it is asked whether another was meant
PAST = 1.1  # times its least value, a validation loss is clearly past its best


def folders_of_models(path: Path) -> list[Path]:
    """Return the folders of saved models: one itself, or those of a site or of a comparison's methods in it."""
    for place in (path, path / MODELS):
        if (place / FILE).is_file():
            return [place]
    place = path if path.resolve().name == MODELS else path / MODELS
    return sorted(file.parent for file in place.glob(f"*/{FILE}"))


def saved_models(path: Path) -> Models:
    """Load saved models; of a comparison's folder those of its only method."""
    found = folders_of_models(path)
    if len(found) > 1:
        raise AmbiguousError(
            "saved", f"{path} has the models of several methods: name {few([*map(str, found)], ' or ')}"
        )
    if found:
        return load(found[0])
    if not path.exists():
        near = close(path.name, [other.name for other in path.parent.iterdir()], 1) if path.parent.is_dir() else ""
        raise MissingFileError("saved", f"there is no folder {path}; {near}graphcollab compare --save writes models")
    advice = "repeat its command with --save" if (path / RUN).is_file() else "graphcollab compare --save writes models"
    raise MissingFileError("saved", f"{path} holds no saved models: {advice}")


def warnings_of(models: Models) -> list[str]:
    """Return what is to be warned of: models no better than constants, or trained past their best."""
    found, best = [*filter(None, [models.about.get("warning")])], models.about.get("best")
    if best and best["saved_val_loss"] > PAST * best["val_loss"] > 0:
        found.append(
            f"these models were trained past their best: their mean validation loss was {best['val_loss']:.4g} after "
            f"{best['rounds']} rounds and is {best['saved_val_loss']:.4g} after {models.about['rounds']}; train them "
            "again with --patience 20"
        )
    return found


def play_predict(asked: dict[str, Any]) -> None:
    """Predict, and write a line for every row of the table, in its order."""
    saved, data, out, proba = asked["saved"], str(asked["data"]), asked["out"], asked["proba"]
    models = saved_models(saved)
    require_data(data)
    if (prepared := models.preparation) is None:
        raise ConflictError("saved", f"the models in {saved} were not trained on a table: use them in Python")
    if proba and not models.classes:
        raise ConflictError("proba", "these models have no classes: they predict numbers")
    answer = "log hazard ratio" if predicted_by(models.about.get("loss")) == "times" else prepared.target.name
    header = ["row", prepared.node, answer]
    header += [f"{prepared.target.name} = {name}" for name in models.classes] if proba else []
    if out is not None:
        require_free(out, saved)
    made = [f"these models were {models.about['made']}"] if "made" in models.about else []
    for line in (*made, *(f"warning: {one}" for one in warnings_of(models))):
        note(line, asked["quiet"])
    rows = _predicted(models, prepared.node, asked)
    if out is None:
        tell(csv_text(header, rows).rstrip("\n"), table=True)
    else:
        note(f"wrote {write_csv(out, header, rows)}", asked["quiet"])


def _predicted(models: Models, node: str, asked: Mapping[str, Any]) -> list[list[Any]]:
    """Return the rows of an answer, given the column of site names."""
    table, site = open_table(str(asked["data"])), asked["site"]
    if site is None and node not in table:
        raise MissingError("site", f"the table has no column {node!r} of site names: give --site NAME")
    names, codes = sites_in(table, node) if site is None else ((site,), np.zeros(len(table), np.int64))
    columns = {name: read_column(table, name) for name in table if name != node}
    found: dict[int, list[Any]] = {}
    if models.has_shared and (strange := [name for name in names if name not in models.names]):
        have = "site {} has no model of its own" if len(strange) == 1 else "sites {} have no models of their own"
        guesses = {} if numbered(strange) else {name: close(name, models.names, 1) for name in strange[:SHOWN]}
        asks = " ".join(f"{name}: {guess.strip()}" for name, guess in guesses.items() if guess)
        text = f"{have.format(few(strange))}: the model of all sites together answers. {asks}"
        note(text.rstrip(), asked["quiet"])
    for k, name in enumerate(names):
        rows = np.flatnonzero(codes == k)
        own = {column: values[rows] for column, values in columns.items()}
        whose = None if models.has_shared and name not in models.names else name
        answers = [[answer] for answer in models.predict(whose, own).tolist()]
        shares = models.predict_proba(whose, own).tolist() if asked["proba"] else [[]] * len(answers)
        for row, answer, share in zip(rows.tolist(), answers, shares, strict=True):
            found[row] = [row, name, *answer, *share]
    return [found[row] for row in sorted(found)]


def require_free(out: Path, saved: Path) -> None:
    """Check that predictions would replace nothing, and lie outside of the saved models."""
    if out.is_symlink() or (out.exists() and not (out.is_file() and out.stat().st_size == 0)):
        raise ExistsError("out", f"{out} exists: name another file, or remove it")
    if out.resolve().is_relative_to(saved.resolve()):
        raise ExistsError("out", f"{out} lies in the folder of saved models, {saved}: name a file outside of it")
