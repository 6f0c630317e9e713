"""Settings of a command in a TOML file, which `--config` reads and a run writes as `run.toml`."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphcollab._base.errors import FormatError, InvalidTypeError, MismatchError

RUN = "run.toml"
PATHS = ("data", "saved", "out")  # options that are paths; in a file they are relative to its folder
ENTRIES = ("categories", "graphs", "set")  # options of entries ``NAME=VALUE``, which are left out where there are none


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of brackets
        raise FormatError(f"file {path}", f"{path} is not a TOML file: {error}") from error


def read_settings(path: Path, command: str) -> dict[str, Any]:
    """Return the settings in a file as values of options: paths relative to the current folder."""
    content = read_toml(path)
    if (other := content.pop("command", command)) != command:
        raise MismatchError(f"file {path}", f"{path} has settings of graphcollab {other}, not of graphcollab {command}")
    for name in (name for name in PATHS if name in content):
        if not isinstance(content[name], str):
            raise InvalidTypeError(name, f"{path}: expected a path, got {content[name]!r}")
        if not _is_dataset(name, content[name]):
            content[name] = os.path.normpath(path.parent / content[name])
    if isinstance(graphs := content.get("graphs"), list):
        content["graphs"] = [_beside(path.parent, str(entry)) for entry in graphs]
    return content


def _beside(folder: Path, entry: str) -> str:
    """Return an entry ``NAME=PATH`` with the path relative to the current folder, given one relative to a folder."""
    name, equals, path = entry.partition("=")
    return f"{name}{equals}{os.path.normpath(folder / path)}" if path else entry


def _is_dataset(option: str, value: object) -> bool:
    from graphcollab.data.datasets import DATASETS, TABLES  # imports PyTorch

    return option == "data" and (value in DATASETS or value in TABLES)


def settings_text(folder: Path, command: str, settings: Mapping[str, Any]) -> str:
    """Return settings as the text of a file in a folder, without those that are None or empty."""
    content: dict[str, Any] = {"command": command, **settings}
    for name in (name for name in PATHS if content.get(name) is not None):
        if not _is_dataset(name, content[name]):
            content[name] = os.path.relpath(content[name], folder)
    shown = {name: value for name, value in content.items() if value is not None and (value or name not in ENTRIES)}
    return "".join(f"{name} = {_toml(value)}\n" for name, value in shown.items())


def _toml(value: Any) -> str:
    """Return a number, a text or a sequence of these as TOML, which reads JSON but for DEL."""
    plain = list(value) or "none" if isinstance(value, tuple) else value
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
