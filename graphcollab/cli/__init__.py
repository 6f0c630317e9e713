"""The command `graphcollab`: parsing, help, completion and settings files by cyclopts, and the commands' bodies.

Modules here import PyTorch inside functions, so that help and completion start without it.
"""

from graphcollab.cli.app import call, main

__all__ = ["call", "main"]
