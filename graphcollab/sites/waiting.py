"""`Waiting`: whom everybody waits for, in the coordinator's log."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from graphcollab.naming import few

__all__ = ["Waiting"]

LOG = logging.getLogger("graphcollab.sites.coordinator")
AGAIN = 10  # deadlines after which it is said once more


class Waiting:
    """Says who has told nothing for longer than others may be silent, though it gives signs of life.

    Args:
        deadline: Seconds for which a site may tell nothing while others wait for it.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._since, self._due = 0.0, 0.0  # since when somebody waits, and when it is to be said

    def watch(self, now: float, since: Sequence[float], heard: Mapping[str, float]) -> None:
        """Log it now and then.

        Args:
            now: The time.
            since: Since when some sites wait.
            heard: When those that do not wait have told something.
        """
        idle = {site: now - then for site, then in heard.items() if now - then > self.deadline}
        if not since or not idle:
            return
        if self._since != min(since):
            self._since, self._due = min(since), min(since) + self.deadline
        if now > self._due:
            told = " and ".join(f"{seconds:.0f} s" for seconds in idle.values())
            them = "which is there but has" if len(idle) == 1 else "which are there but have"
            LOG.warning("still waiting for %s, %s told nothing for %s", few(list(idle)), them, told)
            self._due = now + AGAIN * self.deadline
