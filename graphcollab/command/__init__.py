"""The command ``graphcollab``: comparisons, answers and predictions without writing Python.

Options, their defaults and their help are read off the functions that take them, so they are written once.
"""

from graphcollab.command.main import main

__all__ = ["main"]
