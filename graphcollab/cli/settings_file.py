"""Settings of a command in a TOML file, which `--config` reads and a run writes as `run.toml`."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from graphcollab.cli.options import Dataset
from graphcollab.errors import FormatError, InvalidTypeError, MismatchError

RUN = "run.toml"
PATHS = ("data", "saved", "out")
"""Options that are paths; in a file they are relative to its folder."""
TABLES = ("categories", "graphs", "set")
"""Options of entries ``NAME=VALUE``, which may be tables in a file."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of brackets
        raise FormatError(f"file {path}", f"{path} is not a TOML file: {error}") from error


def read_settings(path: Path, command: str) -> dict[str, Any]:
    """Return the settings in a file as values of options: paths relative to the current folder, tables as entries."""
    content = read_toml(path)
    if (other := content.pop("command", command)) != command:
        raise MismatchError(f"file {path}", f"{path} has settings of graphcollab {other}, not of graphcollab {command}")
    for name in (name for name in TABLES if isinstance(content.get(name), Mapping)):
        content[name] = _entries(name, content[name], path.parent)
    for name in (name for name in PATHS if name in content):
        if not isinstance(content[name], str):
            raise InvalidTypeError(name, f"{path}: expected a path, got {content[name]!r}")
        if not _is_dataset(name, content[name]):
            content[name] = os.path.normpath(path.parent / content[name])
    return content


def _is_dataset(option: str, value: object) -> bool:
    return option == "data" and value in get_args(Dataset)


def _entries(option: str, table: Mapping[str, Any], folder: Path) -> list[str]:
    """Return a table as the entries that the command line has: ``[set.cobo] rho = 0.1`` is ``cobo.rho=0.1``."""
    if option == "set":
        nested = {name: own if isinstance(own, Mapping) else {"": own} for name, own in table.items()}
        table = {f"{name}.{key}": value for name, own in nested.items() for key, value in own.items()}
    if option == "graphs":
        table = {name: os.path.normpath(folder / str(value)) for name, value in table.items()}
    return [f"{name}={','.join(map(_quoted, _listed(value)))}" for name, value in table.items()]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if "," in str(value) else str(value)


def settings_text(folder: Path, command: str, settings: Mapping[str, Any]) -> str:
    """Return settings as the text of a file in a folder, without those that are None or empty."""
    content: dict[str, Any] = {"command": command, **settings}
    for name in (name for name in PATHS if content.get(name) is not None):
        if not _is_dataset(name, content[name]):
            content[name] = os.path.relpath(content[name], folder)
    shown = {name: value for name, value in content.items() if value is not None and (value or name not in TABLES)}
    return "".join(f"{name} = {_toml(value)}\n" for name, value in shown.items())


def _toml(value: Any) -> str:
    """Return a number, a text or a sequence of these as TOML, which reads JSON but for DEL."""
    plain = list(value) or "none" if isinstance(value, tuple) else value
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
