"""Who takes part in a round, who may hear whom, and which nodes have diverged."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.control.at_work import attend as attend
    from graphcollab.env import Attendance as Attendance

__all__ = make_lazy(__name__)
