"""The program and its commands: how words become settings, and how errors and interruptions end."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from tqdm import tqdm

from graphcollab.command.declared import Setting
from graphcollab.command.settings_file import read_settings

__all__ = ["FAILED", "INTERRUPTED", "WRONG", "Program", "Work", "note"]

FAILED, WRONG, INTERRUPTED = 1, 2, 130
SHOWN = 6  # words to choose from that are shown in the help, below which
INPUT = (ValueError, TypeError, LookupError, ImportError, FileNotFoundError, FileExistsError, PermissionError)
"""Errors that say that what was given cannot be used."""
OPEN = "graphcollab.open"  # the option whose values a line ends with
QUIET = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning, FutureWarning)  # of libraries


class Program(click.Group):
    """The program. Errors are one sentence; ``--debug`` shows where they come from."""

    def main(  # type: ignore[override] # click overloads it by what it returns
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command, and exit by how it ended: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted.

        With ``standalone_mode=False``, as in a script, it returns, and errors are raised as they are.
        """
        if extra.get("standalone_mode") is False:
            return super().main(args, prog_name, **extra)
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        words = [word for word in words if word != "--debug"]
        extra["standalone_mode"] = False
        try:
            code = super().main(words, prog_name, **extra)
        except click.ClickException as error:
            where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else self.name
            _end(WRONG, error, debug, str(where), error.format_message())
        except (KeyboardInterrupt, click.Abort) as error:
            _end(INTERRUPTED, error, debug, str(self.name), f"interrupted; {error.__cause__ or ''}".rstrip("; "))
        except INPUT as error:
            _end(WRONG, error, debug, str(self.name))
        except Exception as error:
            _end(FAILED, error, debug, str(self.name))
        else:
            sys.exit(code if isinstance(code, int) else 0)


def _end(code: int, error: BaseException, debug: bool, where: str, text: str | None = None) -> None:
    """Say what has happened, in one line, and exit."""
    if debug:
        sys.excepthook(type(error), error, error.__traceback__)
    said = str(error.args[0] if isinstance(error, KeyError) and error.args else error) if text is None else text
    click.echo(f"{where}: {' '.join(said.split()) or type(error).__name__}", err=True)
    sys.exit(code)


class _Word(click.ParamType):
    """A word of a setting, which is checked when all settings are known, and completed by the words to choose from."""

    def __init__(self, setting: Setting) -> None:
        self.words, self.name = setting.words, "word"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return what stands for a value in the help."""
        if isinstance(param, click.Argument):
            return None
        shown = "|".join(self.words) if 0 < len(self.words) < SHOWN else "VALUE"
        return f"{shown} …" if param.multiple else shown

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that begin so."""
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class Work(click.Command):
    """A command whose settings are declared, may come from a file, and of which some take several values.

    Args:
        name: Its name.
        settings: What it takes as options.
        play: Function of the checked settings, by name.
        text: What it does.
        first: Those that are given first, without their names.
    """

    def __init__(
        self,
        name: str,
        settings: Sequence[Setting],
        play: Callable[[dict[str, Any]], None],
        text: str,
        *first: Setting,
    ) -> None:
        self.settings = {one.name: one for one in (*first, *settings)}
        self.first, self.play = first, play
        params: list[click.Parameter] = [click.Argument([one.name], required=False, type=_Word(one)) for one in first]
        params += map(_option, settings)
        params += [
            click.Option(["--config"], type=click.Path(path_type=Path), help="A file of settings, in TOML."),
            click.Option(["--quiet", "-q"], is_flag=True, help="Say nothing but the answer."),
        ]
        super().__init__(name, params=params, callback=self._start, help=text)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a line of words; an option that takes several values may have all of them behind it."""
        many = {option for one in self.params if isinstance(one, click.Option) and one.multiple for option in one.opts}
        out: list[str] = []
        name, behind = "", 0
        for word in args:
            if word.startswith("-") and not word[1:2].isdigit():
                name, behind = (word if word in many else ""), 0
                out.append(word)
            else:
                out += [name, word] if name and behind else [word]
                behind += 1
        ctx.meta[OPEN] = name
        if name and not behind and ctx.resilient_parsing:
            out.pop()
        return super().parse_args(ctx, out)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete further values of the last option, and options."""
        for one in self.params:
            if ctx.meta.get(OPEN) in one.opts and not incomplete.startswith("-"):
                return one.type.shell_complete(ctx, one, incomplete)
        return super().shell_complete(ctx, incomplete)

    def _start(self, config: Path | None, quiet: bool, **given: Any) -> None:
        values = self._checked({} if config is None else read_settings(config, str(self.name), self.settings), given)
        with _told(quiet):
            self.play({**values, "quiet": quiet})

    def _checked(self, said: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings: those given on the line, those of a file, and else defaults."""
        found: dict[str, Any] = {}
        for name, one in self.settings.items():
            words = given[name]
            if one.is_table:
                found[name] = (words or (), _table(name, said.get(name, {})))
            elif words is not None and words != ():
                found[name] = words if one.is_flag else one.of_words([words] if isinstance(words, str) else words)
            elif name in said:
                found[name] = one.check(said[name])
            elif one.required:
                how = name.upper() if one in self.first else one.option
                raise click.UsageError(f"{how} is missing: {one.text}", click.get_current_context())
            else:
                found[name] = one.default
        return found


def _table(name: str, said: Any) -> Mapping[str, Any]:
    """Return a table of a file of settings."""
    if not isinstance(said, Mapping):
        raise ValueError(f"{name} must be tables, such as [{name}.cobo], got {said!r}")
    return said


def _option(one: Setting) -> click.Option:
    """Return a setting as an option; what was not given is None, or nothing."""
    default = one.default
    shown = " ".join(map(str, default)) if isinstance(default, tuple | list) else str(default)
    known: dict[str, Any] = {"help": one.text, "default": None}
    known["show_default"] = False if default is None or default == () or one.is_flag else shown
    if one.is_flag:
        return click.Option([f"{one.option}/--no-{one.option[2:]}"], **known)
    if one.several:
        return click.Option([one.option], type=_Word(one), multiple=True, **known)
    return click.Option([one.option], type=_Word(one), **known)


def note(text: str, quiet: bool = False) -> None:
    """Say something that is no part of the answer, beside it."""
    if not quiet:
        tqdm.write(text, file=sys.stderr)


@contextmanager
def _told(quiet: bool) -> Iterator[None]:
    """Tell warnings as lines of their own, once each, without a line of code."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            note(f"warning: {text}", quiet)
        said.add(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for kind in QUIET:
            warnings.simplefilter("ignore", kind)
        warnings.showwarning = show
        yield
