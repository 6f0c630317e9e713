"""Who takes part in a round, who may hear whom, and which nodes have diverged."""

from graphcollab.control.at_work import attend, dismiss
from graphcollab.env import Attendance, Isolate

__all__ = ["Attendance", "Isolate", "attend", "dismiss"]
