"""What a command does: its settings, from a line or a file, checked and handed to a function."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from graphcollab.command.declared import Setting
from graphcollab.command.settings_file import PATHS, read_settings
from graphcollab.command.wording import GROUPS
from graphcollab_command.wording import on_the_line, printable

__all__ = ["Work", "note", "tell"]

QUIET = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning, FutureWarning)  # of libraries


class Work:
    """A command whose settings are declared.

    Args:
        name: Its name.
        settings: What it takes as options.
        play: Function of the checked settings, by name.
        text: What it does.
        first: Those that are given first, without their names.
        from_file: Whether settings may also come from a file.
    """

    def __init__(
        self,
        name: str,
        settings: Sequence[Setting],
        play: Callable[[dict[str, Any]], None],
        text: str,
        *first: Setting,
        from_file: bool = True,
    ) -> None:
        self.settings = {one.name: one for one in (*first, *settings)}
        self.name, self.first, self.play, self.text, self.from_file = name, first, play, text, from_file

    def declared(self) -> dict[str, Any]:
        """Return what the command takes, as graphcollab_command reads it."""
        ordered = sorted(self.settings.values(), key=lambda one: GROUPS.index(one.group))
        told = [{**one.declared(), "first": one in self.first, "is_path": one.name in PATHS} for one in ordered]
        return {"text": self.text, "from_file": self.from_file, "settings": told}

    def start(self, config: Path | None, quiet: bool, given: Mapping[str, Any]) -> None:
        """Do what was asked for, by the words of a line and a file of settings."""
        with _told(quiet, self.settings):
            said = {} if config is None else read_settings(config, self.name, self.settings)
            self.play({**self._checked(said, given, config), "quiet": quiet})

    def _checked(self, said: Mapping[str, Any], given: Mapping[str, Any], config: Path | None) -> dict[str, Any]:
        """Return all settings: those given on the line, those of a file, and else defaults."""
        found: dict[str, Any] = {}
        for name, one in self.settings.items():
            words = given[name]
            if one.is_table:
                both = (words or (), _table(name, said.get(name, {})))
                found[name] = both if one.read is None else one.read(*both)
            elif words is not None and words != ():
                found[name] = words if one.is_flag else one.of_words([words] if isinstance(words, str) else words)
            elif name in said:
                try:
                    found[name] = one.check(said[name])
                except ValueError as error:
                    raise ValueError(f"{config}: {error}") from None
            elif one.required:
                raise click.UsageError(f"{one.option} is missing: {one.text}", click.get_current_context(silent=True))
            else:
                found[name] = one.default
        return found


def _table(name: str, said: Any) -> Mapping[str, Any]:
    """Return a table of a file of settings."""
    if not isinstance(said, Mapping):
        raise ValueError(f"{name} must be tables, headed by [{name}], got {said!r}")
    return said


def tell(text: str, table: bool = False) -> None:
    """Print the answer; where nobody reads on, as behind ``| head``, the command goes on without a word.

    A ``table`` in CSV that no terminal shows stays as it is.
    """
    try:
        click.echo(text if table and not sys.stdout.isatty() else printable(text))
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def note(text: str, quiet: bool = False) -> None:
    """Say something that is no part of the answer, beside it."""
    if not quiet:
        tqdm.write(printable(text), file=sys.stderr)


@contextmanager
def _told(quiet: bool, names: Mapping[str, object]) -> Iterator[None]:
    """Tell warnings as lines of their own, once each, without a line of code."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            note(f"warning: {on_the_line(text, names)}", quiet)
        said.add(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for kind in QUIET:
            warnings.simplefilter("ignore", kind)
        warnings.showwarning = show
        yield
