"""`graphcollab methods`, `graphcollab datasets`, and `graphcollab show`."""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from graphcollab import methods
from graphcollab._base.documentation import entries, of_sites
from graphcollab._base.errors import ConflictError, UnknownError
from graphcollab._base.files import write_whole
from graphcollab._base.naming import close
from graphcollab._base.ranges import describe
from graphcollab.cli.data import changed
from graphcollab.cli.folder import RESULTS, RUN, note_files, request_of, require_free, tell, write_page
from graphcollab.cli.options import Table
from graphcollab.cli.predicting import folders_of_models, saved_models, warnings_of
from graphcollab.data import datasets
from graphcollab.methods import get_method
from graphcollab.report import describe_table

WIDTH = 100
INSIDE = ("values", "higher_is_better", "best", "warning", "rows", "setting", "means")
"""Entries about saved models that `show` leaves out."""

LOADERS: Mapping[str, Callable[..., Any]] = {**datasets.TABLES, **datasets.DATASETS}


def list_methods() -> None:
    """List the methods."""
    tell(_listed({name: get_method(name) for name in methods.__all__}))


def list_datasets() -> None:
    """List the datasets."""
    tell(f"Tables of several sites:\n{_listed(datasets.TABLES)}\n")
    tell(f"Datasets without sites, which --partition deals out:\n{_listed(datasets.DATASETS)}\n")
    tell("Their files lie in the folder that the environment variable GRAPHCOLLAB_DATA names.")


def _listed(functions: Mapping[str, Callable[..., Any]]) -> str:
    width = max(map(len, functions))
    return "\n".join(f"{name:{width}}  {_doc(of).partition(chr(10))[0]}" for name, of in functions.items())


def _doc(of: Callable[..., Any]) -> str:
    return of_sites(inspect.getdoc(of) or "")


def show_name(name: str, settings: Mapping[str, Any]) -> None:
    """Show a method, a dataset, a table, or a folder of results or saved models."""
    if settings["out"] is not None and not (Path(name).is_file() and name not in (*methods.__all__, *LOADERS)):
        raise ConflictError("out", f"only what is shown of a file is written, and {name} is none: leave --out out")
    if name in methods.__all__:
        tell("\n".join(_method(name)))
    elif name in LOADERS:
        tell(_about(LOADERS[name]))
    elif Path(name).is_file():
        _table(name, settings)
    elif Path(name).is_dir():
        tell(_folder(Path(name)))
    else:
        near = close(name, [*methods.__all__, *LOADERS], 1)
        raise UnknownError("name", f"there is no method, dataset, file or folder {name!r}; {near}".rstrip("; "))


def _about(of: Callable[..., Any]) -> str:
    """Return what a docstring says before its sections."""
    return _plain(re.split(r"\n(?:Args|Returns|Raises|Example):\n", _doc(of))[0].strip())


def _plain(text: str) -> str:
    """Return a text without the markup around formulas, names and links."""
    text = re.sub(r"`([^`<]+?)\s+<([^`>]+)>`_", r"\1 (\2)", text)
    text = re.sub(r"^( *)\.\. math::\n?( ?)", r"\1\2", text, flags=re.M)
    return re.sub(r"(?::\w+:)?(?<!`)`([^`]+)`(?!`)", r"\1", text).replace("``", "")


def _method(name: str) -> Iterable[str]:
    """Yield what a method does, and its settings with their defaults, allowed values and meanings."""
    make = get_method(name)
    hints, meanings = typing.get_type_hints(make, include_extras=True), entries(make)
    yield from (_about(make), "", f"Settings, as in --set {name}.SETTING=VALUE:")
    for key, setting in inspect.signature(make).parameters.items():
        yield f"\n  {key} = {setting.default}    ({describe(hints[key])})"
        text = _plain(of_sites(" ".join(meanings.get(key, "").split())))
        yield textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent="    ")


def _table(data: str, asked: Mapping[str, Any]) -> None:
    out, request = asked["out"], request_of("show", {**asked, "name": data})
    require_free(out, request)
    found = describe_table(data, **changed(Table, asked))
    tell(str(found))
    if out is not None:
        answer = write_whole(out / RESULTS, f"{found}\n".encode())
        note_files([answer, *write_page(found, out, request), out / RUN], asked["quiet"])


def _folder(path: Path) -> str:
    saved, texts = folders_of_models(path), [path / RESULTS, path / RUN]
    if (path / RUN).is_file() and ((path / RESULTS).is_file() or not saved):
        parts = [file.read_text(encoding="utf-8", errors="replace").rstrip() for file in texts if file.is_file()]
        if saved:
            parts.append("\n".join(["Saved models, for graphcollab predict and show:", *(f"  {one}" for one in saved)]))
        return "\n\n".join(parts)
    models = saved_models(path)
    lines = [f"sites: {', '.join(models.names)}"]
    if models.classes:
        lines.append(f"classes: {', '.join(map(str, models.classes))}")
    if models.preparation is not None:
        lines.append(f"features: {', '.join(models.preparation.features)}")
    lines += [f"{key}: {_in_short(value)}" for key, value in models.about.items() if key not in INSIDE]
    lines += ["sites without a model: that of all sites together answers"] * models.has_shared
    return "\n".join([*lines, *(f"warning: {one}" for one in warnings_of(models))])


def _in_short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    named = re.match(r"Method\(name='(\w+)'", str(value))
    return named[1] if named else str(value)
