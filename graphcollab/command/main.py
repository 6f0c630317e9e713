"""The program, with all its commands."""

from __future__ import annotations

import click

from graphcollab._version import __version__
from graphcollab.command.comparing import BENEFIT, COMPARE
from graphcollab.command.listing import DATASETS, METHODS, SHOW
from graphcollab.command.predicting import PREDICT
from graphcollab.command.program import Program
from graphcollab.command.rehearsing import SITE

__all__ = ["main"]

main = Program(
    "graphcollab",
    help="Collaborative learning of personalised models: which sites should listen to whom, and what do they gain?",
    params=[
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, help="Show where an error comes from; may stand anywhere."
        )
    ],
    epilog="A line that ends with several values of an option must have the file first: graphcollab compare FILE …",
)
"""The program ``graphcollab``, which a shell starts, with all its commands."""
click.version_option(__version__, prog_name="graphcollab")(main)
for command in (COMPARE, BENEFIT, PREDICT, SITE, DATASETS, METHODS, SHOW):
    main.add_command(command)
