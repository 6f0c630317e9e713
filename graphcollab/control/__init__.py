"""Who takes part in a round, who may hear whom, and which nodes have diverged."""

from __future__ import annotations

from graphcollab.control.at_work import Attendance, attend, dismiss
from graphcollab.control.guard import Isolate

__all__ = ["Attendance", "Isolate", "attend", "dismiss"]
