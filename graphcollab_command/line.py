"""One command: which words it takes, its help and its completion; what it does is imported when it is done."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = ["Line"]

SHOWN = 6  # words to choose from that are shown in the help, below which
OPEN = "graphcollab.open"  # the option whose values a line ends with
LOADING = "loading …"


class _Word(click.ParamType):
    """A word of a setting, which is checked when all settings are known, and completed by the words to choose from."""

    def __init__(self, setting: Mapping[str, Any]) -> None:
        self.words, self.is_path, self.name = setting["words"], setting["is_path"], "word"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return what stands for a value in the help."""
        if isinstance(param, click.Argument):
            return None
        shown = "|".join(self.words) if 0 < len(self.words) < SHOWN else "PATH" if self.is_path else "VALUE"
        return f"{shown} …" if param.multiple else shown

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that begin so, or where there are none, files."""
        found = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        return found or ([CompletionItem(incomplete, type="file")] if self.is_path else [])


class Line(click.Command):
    """A command whose settings are declared, may come from a file, and of which some take several values.

    Args:
        name: Its name.
        declared: What it takes, as `graphcollab.command.work.Work` tells it.
    """

    def __init__(self, name: str, declared: Mapping[str, Any]) -> None:
        self.settings: list[dict[str, Any]] = declared["settings"]
        self.groups: dict[str, str] = {"--" + one["name"].replace("_", "-"): one["group"] for one in self.settings}
        params: list[click.Parameter] = [
            click.Argument([one["name"]], required=False, type=_Word(one)) for one in self.settings if one["first"]
        ]
        params += [_option(one) for one in self.settings if not one["first"]]
        if declared["from_file"]:
            params.append(
                click.Option(["--config"], type=click.Path(path_type=Path), help="A file of settings, in TOML.")
            )
            params.append(click.Option(["--quiet", "-q"], is_flag=True, help="Say nothing but the answer."))
        super().__init__(name, params=params, callback=self._start, help=declared["text"])

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

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all options, group by group."""
        listed: dict[str, list[tuple[str, str]]] = {group: [] for group in self.groups.values()}
        for one in self.params:
            record = one.get_help_record(ctx)
            if isinstance(one, click.Argument):
                setting = next(each for each in self.settings if each["name"] == one.name)
                record = (str(one.name).upper(), setting["text"])
            group = self.groups.get("--" + str(one.name).replace("_", "-"), "Output and more")
            if record is not None:
                listed.setdefault(group, []).append(record)
        listed.setdefault("Output and more", []).append(("--help", "Show this message and exit."))
        for group, records in listed.items():
            with formatter.section(group):
                formatter.write_dl(records, col_max=24)

    def _start(self, config: Path | None = None, quiet: bool = False, **given: Any) -> None:
        if config is None:
            self._require(given)
        with_sign = not quiet and sys.stderr.isatty()
        click.echo(LOADING + "\r" * with_sign, nl=False, err=True) if with_sign else None
        play = importlib.import_module("graphcollab.command.works").play
        click.echo(" " * len(LOADING) + "\r", nl=False, err=True) if with_sign else None
        play(self.name, config, quiet, given)

    def _require(self, given: Mapping[str, Any]) -> None:
        """Check that everything is given that must be, before anything is imported."""
        for one in self.settings:
            if one["required"] and given[one["name"]] in (None, ()):
                how = one["name"].upper() if one["first"] else "--" + one["name"].replace("_", "-")
                hint = self._behind(one, given) if one["first"] else ""
                raise click.UsageError(f"{how} is missing: {one['text']}{hint}", click.get_current_context())

    def _behind(self, missing: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        """Say so where what must come first was taken for one of the values of an option."""
        for one in self.settings:
            words: Iterable[str] = given[one["name"]] if one["several"] else ()
            for word in words or ():
                if word in missing["words"] or os.path.isfile(word):
                    option = "--" + one["name"].replace("_", "-")
                    return f" Behind {option}, {word} is one of its values: put it right behind {self.name}."
        return ""


def _option(one: Mapping[str, Any]) -> click.Option:
    """Return a setting as an option; what was not given is None, or nothing."""
    option = "--" + one["name"].replace("_", "-")
    known: dict[str, Any] = {"help": one["text"], "default": None, "show_default": one["default"] or False}
    if one["is_flag"]:
        return click.Option([f"{option}/--no-{option[2:]}"], **known)
    return click.Option([option], type=_Word(one), multiple=one["several"], **known)
