"""Who takes part in a round, who may hear whom, and which nodes have diverged."""

from __future__ import annotations

from graphcollab.control.attendance import Everyone, Membership, Stragglers, attend, dismiss
from graphcollab.control.guard import Isolate

__all__ = ["Everyone", "Isolate", "Membership", "Stragglers", "attend", "dismiss"]
