"""The program, with all its commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from graphcollab_command.line import Line
from graphcollab_command.program import Program

__all__ = ["DECLARED", "main"]

DECLARED = Path(__file__).with_name("declared.json")


def _program(declared: dict[str, Any]) -> Program:
    """Return the program whose commands take what is declared."""
    program = Program(
        "graphcollab",
        [Line(name, one) for name, one in declared["commands"].items()],
        help="Collaborative learning of personalised models: which sites should listen to whom, and what do they gain?",
        params=[
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                help="Show where an error comes from; may stand anywhere.",
            )
        ],
        epilog="graphcollab COMMAND --help says what a command takes. To begin with: graphcollab compare heart_disease "
        "--methods local fedavg",
    )
    return click.version_option(declared["version"], prog_name="graphcollab")(program)


main = _program(json.loads(DECLARED.read_text(encoding="utf-8")))
