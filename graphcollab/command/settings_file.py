"""Settings of a command as a file in TOML: read, and written."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from graphcollab.datasets import DATASETS, TABLES
from graphcollab.settings import look_up

__all__ = ["COMMAND", "PATHS", "RUN", "as_text", "read_settings", "read_toml"]

RUN = "run.toml"
"""The file in which a run writes what it was asked for."""
COMMAND = "command"
"""The setting in it that says of which command it is."""
PATHS = ("data", "saved", "out")
"""Settings that are paths; in a file they are relative to its folder."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a file in TOML holds; a ValueError says why it cannot be read, and where."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give the path of a file of settings") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: a file of settings is TOML") from error
    except RecursionError as error:
        raise ValueError(f"{path} is no file of settings: it is nested too deeply") from error
    except ValueError as error:  # of TOML, or a number of too many digits
        raise ValueError(f"{path} is no TOML: {error}") from error


def read_settings(path: Path, command: str, known: Mapping[str, object]) -> dict[str, Any]:
    """Return what a file of settings says, paths as they are from here.

    Raises:
        ValueError: If it cannot be read, is of another command, or has settings that the command does not know; the
            message names the nearest.
    """
    content = read_toml(path)
    of = content.pop(COMMAND, command)
    if of != command:
        raise ValueError(f"{path} has settings of graphcollab {of}, and this is graphcollab {command}")
    for name in content:
        try:
            look_up("setting", name, known)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    for name in {*PATHS} & {*content}:
        if not isinstance(content[name], str):
            raise ValueError(f"{path}: {name} must be a path as text, got {content[name]!r}")
        if name != "data" or content[name] not in (*TABLES, *DATASETS):
            content[name] = os.path.normpath(path.parent / content[name])
    if isinstance(graphs := content.get("graphs"), dict):
        content["graphs"] = {
            name: os.path.abspath(path.parent / one) if isinstance(one, str) else one for name, one in graphs.items()
        }
    return content


def as_text(folder: Path, command: str, settings: Mapping[str, Any]) -> str:
    """Return settings as the text of a file in a folder; those that are None are left out."""
    content = {COMMAND: command, **settings}
    for name in {*PATHS} & {*content}:
        if content[name] is not None and (name != "data" or content[name] not in (*TABLES, *DATASETS)):
            content[name] = os.path.relpath(content[name], folder)
    return tomli_w.dumps(_plain(content))


def _plain(value: Any) -> Any:
    """Return settings as TOML has them."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, tuple | list | range):
        return ["none" if one is None else _plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str) else str(value)
