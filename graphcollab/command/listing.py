"""`graphcollab datasets`, `graphcollab methods`, and `graphcollab show`, of what there is and what was saved."""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphcollab import datasets, methods
from graphcollab._wording import describe
from graphcollab.command.declared import Setting, in_words
from graphcollab.command.folder import RESULTS
from graphcollab.command.predicting import folders_of_models, past_best, saved_models
from graphcollab.command.settings_file import RUN
from graphcollab.command.text_values import as_words, plain, writable
from graphcollab.command.wording import OF_METHODS
from graphcollab.command.work import Work, tell
from graphcollab.documentation import entries
from graphcollab.methods import get_method
from graphcollab.naming import close
from graphcollab_command.wording import on_the_line

__all__ = ["DATASETS", "METHODS", "SHOW"]

WIDTH = 100
ROOT = "GRAPHCOLLAB_DATA"
INSIDE = ("values", "higher_is_better", "best")  # of what is known of saved models, what says nothing here
LOADERS: Mapping[str, Callable[..., Any]] = {**datasets.TABLES, **datasets.DATASETS}


def _first_line(of: Callable[..., Any]) -> str:
    return in_words((inspect.getdoc(of) or "").partition("\n")[0])


def _listed(rows: Iterable[Sequence[str]]) -> str:
    """Return names and what they mean, one a line."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {text}" for name, text in rows)


def list_datasets(_: dict[str, Any]) -> None:
    """List the datasets."""
    tables = [(name, _first_line(load)) for name, load in datasets.TABLES.items()]
    others = [(name, _first_line(load)) for name, load in datasets.DATASETS.items()]
    tell(f"Tables, which have sites of their own:\n{_listed(tables)}\n")
    tell(f"Others, which are dealt out to sites (--partition):\n{_listed(others)}\n")
    tell(f"Files are looked for in the folder that the environment variable {ROOT} names.")


def list_methods(_: dict[str, Any]) -> None:
    """List the methods."""
    tell(_listed((name, _first_line(get_method(name))) for name in methods.__all__))


def show(asked: dict[str, Any]) -> None:
    """Show what is known by a name."""
    name = asked["name"]
    if name in methods.__all__:
        tell(_method(name))
    elif name in LOADERS:
        tell(re.sub(r"\broot\b", ROOT, _about(LOADERS[name])))
    elif Path(name).is_dir():
        tell(_folder(name))
    else:
        known = [*methods.__all__, *LOADERS]
        raise ValueError(
            f"there is no method, dataset or folder {name!r}; {close(name, known, 1)}graphcollab methods and "
            "graphcollab datasets list them"
        )


def _about(of: Callable[..., Any]) -> str:
    """Return what a docstring says before it lists arguments."""
    text = (inspect.getdoc(of) or "").partition("\nArgs:\n")[0].partition("\nRaises:\n")[0]
    parts = [part for part in text.split("\n\n") if not part.startswith((".. math::", "    "))]
    return "\n\n".join(textwrap.fill(in_words(part), WIDTH) for part in parts)


def _method(name: str) -> str:
    """Return what a method does, and its settings with their defaults."""
    make = get_method(name)
    hints, said = typing.get_type_hints(make, include_extras=True), entries(make)
    lines = [_about(make), "", f"Settings, as in --set {name}.SETTING=VALUE:"]
    for key, one in inspect.signature(make).parameters.items():
        if not writable(hints[key]):
            continue
        lines.append(f"\n  {key} = {as_words(one.default)}    ({_allowed(hints[key])})")
        text = OF_METHODS.get(key) or in_words(said.get(key, ""))
        lines.append(textwrap.fill(on_the_line(text, ()), WIDTH, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(lines)


def _allowed(annotation: Any) -> str:
    """Say what may be written for a setting."""
    text = on_the_line(describe(plain(annotation)), ())
    return text.replace("a string", "text").replace("a sequence of", "several")


def _in_short(key: str, value: Any) -> str:
    """Return what is known of saved models; of a method its name."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    named = re.match(r"Method\(name='(\w+)'", str(value))
    if key != "method" or named is None:
        return as_words(value)
    return named[1]


def _folder(name: str) -> str:
    """Return what a folder of results holds, or one of saved models."""
    run, answer, saved = Path(name) / RUN, Path(name) / RESULTS, folders_of_models(name)
    if run.is_file() and (answer.is_file() or not saved):
        parts = [one.read_text(encoding="utf-8", errors="replace").rstrip() for one in (answer, run) if one.is_file()]
        if saved:
            parts.append("\n".join(["Saved models, for graphcollab predict and show:", *(f"  {one}" for one in saved)]))
        return "\n\n".join(parts)
    models = saved_models(name)
    about = [f"{key}: {_in_short(key, value)}" for key, value in models.about.items() if key not in INSIDE]
    columns = [] if models.preparation is None else [f"features: {', '.join(models.preparation.features)}"]
    classes = [f"classes: {', '.join(map(str, models.classes))}"] if models.classes else []
    past = [text] if (text := past_best(models)) else []
    return "\n".join([f"sites: {', '.join(models.names)}", *classes, *columns, *about, *past])


NAME = Setting(
    "name",
    str,
    text="A method, a dataset, or a folder.",
    words=(*methods.__all__, *LOADERS),
    required=True,
)
DATASETS = Work("datasets", [], list_datasets, "List the datasets that are known by name.", from_file=False)
METHODS = Work("methods", [], list_methods, "List the methods.", from_file=False)
SHOW = Work(
    "show",
    [],
    show,
    "Show a method's settings, what a dataset is, or what a folder of results or saved models holds.",
    NAME,
    from_file=False,
)
