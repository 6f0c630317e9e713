"""`graphcollab datasets`, `graphcollab methods`, and `graphcollab show`, of what there is and what was saved."""

from __future__ import annotations

import inspect
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from graphcollab import datasets, methods
from graphcollab.command.declared import in_words
from graphcollab.command.predicting import saved_models
from graphcollab.command.settings_file import RUN
from graphcollab.documentation import entries
from graphcollab.methods import get_method
from graphcollab.naming import close
from graphcollab.settings import describe

__all__ = ["DATASETS", "METHODS", "SHOW"]

WIDTH = 100
LOADERS: Mapping[str, Callable[..., Any]] = {**datasets.TABLES, **datasets.DATASETS}


def _first_line(of: Callable[..., Any]) -> str:
    return in_words((inspect.getdoc(of) or "").partition("\n")[0])


def _listed(rows: Iterable[Sequence[str]]) -> str:
    """Return names and what they mean, one a line."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {text}" for name, text in rows)


@click.command("datasets", help="List the datasets that are known by name; tables have sites of their own.")
def DATASETS() -> None:
    """List the datasets."""
    tables = [(name, _first_line(load)) for name, load in datasets.TABLES.items()]
    others = [(name, _first_line(load)) for name, load in datasets.DATASETS.items()]
    click.echo(f"Tables, for graphcollab compare and benefit:\n{_listed(tables)}\n")
    click.echo(f"Others, which are dealt out to nodes in Python:\n{_listed(others)}")


@click.command("methods", help="List the methods.")
def METHODS() -> None:
    """List the methods."""
    click.echo(_listed((name, _first_line(get_method(name))) for name in methods.__all__))


class _Name(click.ParamType):
    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so, and folders."""
        known = [name for name in (*methods.__all__, *LOADERS) if name.startswith(incomplete)]
        return [CompletionItem(name) for name in known] or [CompletionItem(incomplete, type="dir")]


@click.command("show", help="Show a method's settings, what a dataset is, or what a folder of saved models holds.")
@click.argument("name", type=_Name())
def SHOW(name: str) -> None:
    """Show what is known by a name."""
    if name in methods.__all__:
        click.echo(_method(name))
    elif name in LOADERS:
        click.echo(_about(LOADERS[name]))
    elif Path(name).is_dir():
        click.echo(_folder(name))
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
        lines.append(f"\n  {key} = {one.default}    ({describe(hints[key])})")
        lines.append(textwrap.fill(in_words(said.get(key, "")), WIDTH, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(lines)


def _folder(name: str) -> str:
    """Return what a folder of saved models, or of a run, holds."""
    told = (Path(name) / RUN).read_text(encoding="utf-8") if (Path(name) / RUN).is_file() else ""
    if told and not (Path(name) / "models").is_dir():
        return told.rstrip()
    models = saved_models(name)
    about = [f"{key}: {value}" for key, value in models.about.items() if key != "values"]
    columns = [] if models.preparation is None else [f"features: {', '.join(models.preparation.features)}"]
    classes = [f"classes: {', '.join(map(str, models.classes))}"] if models.classes else []
    return "\n".join([f"sites: {', '.join(models.names)}", *classes, *columns, *about])
