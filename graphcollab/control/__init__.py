"""Who takes part in a round, who may hear whom, and which nodes have diverged."""

from graphcollab.control.at_work import Attendance, attend, dismiss
from graphcollab.control.guard import Isolate

__all__ = ["Attendance", "Isolate", "attend", "dismiss"]
