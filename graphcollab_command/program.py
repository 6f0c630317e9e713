"""The program: how errors and interruptions end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from graphcollab_command.encoding import write_in_any_encoding
from graphcollab_command.ending import INTERRUPTED, WRONG, about, keep_traceback, on_purpose
from graphcollab_command.line import Line
from graphcollab_command.wording import on_the_line, printable

__all__ = ["Program"]


class Program(click.Group):
    """The program. Errors are one sentence; ``--debug`` shows where they come from.

    Args:
        name: Its name.
        lines: Its commands.
        extra: Further arguments of a click group.
    """

    def __init__(self, name: str, lines: Sequence[Line], **extra: Any) -> None:
        super().__init__(name, **extra)
        for line in lines:
            self.add_command(line)
        self.settings = {one["name"] for line in lines for one in line.settings}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order in which they are declared."""
        return list(self.commands)

    def main(  # type: ignore[override] # click overloads it by what it returns
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command, and exit by how it ended: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted.

        With ``standalone_mode=False``, as in a script, it returns, and errors are raised as they are.
        """
        if extra.get("standalone_mode") is False:
            return super().main(args, prog_name, **extra)
        write_in_any_encoding()
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        words = [word for word in words if word != "--debug"]
        extra["standalone_mode"] = False
        try:
            code = super().main(words, prog_name, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(WRONG)
        except click.ClickException as error:
            where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else self.name
            self._end(WRONG, error, debug, error.format_message(), str(where))
        except (KeyboardInterrupt, click.Abort) as error:
            said = error.__cause__ or error
            self._end(INTERRUPTED, error, debug, f"interrupted; {said}".rstrip("; "))
        except Exception as error:
            code, text = about(error)
            if not debug and not on_purpose(error) and "please report" in text:
                text += f"; {keep_traceback(error)} says where it comes from"
            self._end(code, error, debug, text)
        else:
            sys.exit(code if isinstance(code, int) else 0)

    def _end(self, code: int, error: BaseException, debug: bool, text: str, where: str = "") -> None:
        """Say what has happened, in one line, and exit."""
        if debug:
            sys.excepthook(type(error), error, error.__traceback__)
        said = " ".join(on_the_line(text, self.settings).split())
        click.echo(f"{where or self.name}: {printable(said)}", err=True)
        sys.exit(code)
