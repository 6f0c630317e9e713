"""What is recorded of a case, and how it is compared with what was recorded."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphcollab import Tasks, load, load_dataset, run
from graphcollab.data import Preparation
from graphcollab.methods import local
from graphcollab.sites import told_by_site
from tests.frozen.tables import days, patients, written

CLOSE = 1e-6  # relative to the larger of 1 and the recorded number; tensors have their bits recorded besides
SHOWN = 6  # numbers of a tensor that are recorded as they are


def outcome(make: Callable[[Path], Any], of: Callable[[Any], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return what ``of`` says of what is made, or how it is refused, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = of(make(folder))
        except Exception as error:  # whatever a user would see
            found = {"error": builtin(type(error)), "text": str(error).replace(str(folder), "FOLDER")}
    found["warnings"] = dict(sorted(Counter(builtin(one.category) for one in caught).items()))
    found["warning texts"] = sorted(str(one.message).replace(str(folder), "FOLDER") for one in caught)
    return found


def builtin(kind: type) -> str:
    """Return by which class of Python's own an error or a warning can be caught."""
    return next(one.__name__ for one in kind.__mro__ if one.__module__ == "builtins")


def tasks(made: Tasks) -> dict[str, Any]:
    """Return names, preparation, and the samples of every node in every split."""
    found = {"names": [*made.names], "loss": str(made.loss), "metric": str(made.metric)}
    if made.preparation is not None:
        found["preparation"] = preparation(made.preparation)
    for name, split in made.splits.items():
        pool = made.pools[split.pool]
        fields = {"inputs": pool.inputs, "targets": pool.targets, "weight": pool.weight, "group": pool.group}
        for k, node in enumerate(made.names):
            own = {field: all_of[split.of(k)] for field, all_of in fields.items() if all_of is not None}
            found[f"{name} of {node}"] = {field: tensor(values) for field, values in own.items()}
    return found


def preparation(one: Preparation) -> dict[str, Any]:
    """Return features, classes, and how every column is read."""
    columns = {
        column.name: {
            "mean": [*column.mean],
            "deviation": [*column.deviation],
            "categories": column.categories and [*column.categories],
            "reads": [kind for kind in ("indicator", "numbers", "truths") if getattr(column, kind)],
        }
        for column in (*one.columns, one.target)
    }
    plain = {"features": [*one.features], "classes": [*map(str, one.classes)], "sites": [*one.sites]}
    return {**plain, "node": one.node, "group": one.group, "floats": one.floats_per_site, "columns": columns}


def tensor(values: Tensor) -> dict[str, Any]:
    """Return the shape and type of a tensor, a checksum of its bits, and its first numbers."""
    values = values.detach().contiguous()
    bits = hashlib.sha256((values + 0.0 if values.is_floating_point() else values).numpy().tobytes()).hexdigest()
    first = [float(f"{one:.7g}") for one in values.flatten()[:SHOWN].tolist()]
    return {"shape": [*values.shape], "dtype": str(values.dtype), "bits": bits[:16], "first": first}


def messages_of_site(table: dict[str, Any]) -> dict[str, Any]:
    """Return what the site of a table would tell others."""
    messages = told_by_site("north", {name: one[::3] for name, one in table.items() if name != "site"})
    return {str(k): {"label": one["about"], "value": repr(one)} for k, one in enumerate(messages)}


def saved(made: Tasks, folder: Path, new: Path) -> dict[str, Any]:
    """Return what linear models say of a file, after they were trained, saved and loaded."""
    torch.manual_seed(0)
    module = nn.Linear(*made.input_shape, len(made.preparation.classes) or 1)
    run(local(lr=0.05), made, module, rounds=2, seed=0).save(folder / "models")
    models = load(folder / "models", model=lambda name: module)
    found: dict[str, Any] = {"classes": [*map(str, models.classes)]}
    for node in made.names:
        predicted = models.predict(node, new)
        found[node] = {
            "predicted": predicted.tolist() if predicted.dtype.kind == "f" else [*map(str, predicted)],
            "probabilities": models.predict_proba(node, new).flatten().tolist() if found["classes"] else [],
        }
    return found


def predictions() -> Iterator[tuple[str, Callable[[Path], dict[str, Any]]]]:
    """Yield the name and the case of every saved model, which reads words it has not seen and cells that lack."""

    def case(make: Callable[[], Tasks], rows: Callable[[], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
        def play(folder: Path) -> dict[str, Any]:
            (folder / "new.csv").write_text(written(rows()))
            return saved(make(), folder, folder / "new.csv")

        return play

    def of_heart() -> dict[str, Any]:
        some = {name: values[::97].tolist() for name, values in load_dataset("heart_disease").columns.items()}
        rows = {name: [None if one != one else one for one in values] for name, values in some.items()}
        del rows["hospital"], rows["disease"]
        return rows | {"thal": [9, *rows["thal"][1:]], "age": [None, *rows["age"][1:]]}

    def new() -> dict[str, Any]:
        rows = patients(12, 9, sex=["f", "m", "other", None])
        return {name: rows[name] for name in ("age", "pressure", "sex", "height")}

    yield "heart_disease", case(lambda: load_dataset("heart_disease").tasks(), of_heart)
    yield "classes", case(lambda: Tasks.from_frame(patients()), new)
    yield "amounts", case(lambda: Tasks.from_frame(days(), standardize_target=True, pooled="per_site"), new)


def moved(found: Any, recorded: Any, at: str) -> list[str]:
    """Return in words what differs from what was recorded: of numbers by how much, of all else what it was and is."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        words = [f"{at}: {name} is new" for name in found.keys() - recorded.keys()]
        words += [f"{at}: {name} is gone" for name in recorded.keys() - found.keys()]
        both = [name for name in found if name in recorded]
        return sorted(words) + [one for name in both for one in moved(found[name], recorded[name], f"{at}: {name}")]
    if found == recorded:
        return []
    if is_numbers(found) and is_numbers(recorded) and len(found) == len(recorded):
        one, two = np.array(found, float), np.array(recorded, float)
        far = float((abs(one - two) / np.maximum(abs(two), 1)).max())
        return [f"{at} moved by {far:.3g}"] if not far <= CLOSE else []
    return [f"{at} was {recorded!r}, is {found!r}"]


def is_numbers(values: Any) -> bool:
    """Return whether these are a list of numbers."""
    return isinstance(values, list) and all(isinstance(one, float | int) and math.isfinite(one) for one in values)
