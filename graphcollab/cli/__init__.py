"""The command `graphcollab`: parsing, help, completion and settings files by cyclopts, and the commands' bodies.

Modules here import PyTorch inside functions, so that help and completion start without it.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.cli.app import call as call

__all__ = make_lazy(__name__)
