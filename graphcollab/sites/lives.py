"""`Lives`: which process speaks for a site, where it was started more than once."""

from __future__ import annotations

from collections.abc import Sequence

from graphcollab.sites.frame import FrameError

__all__ = ["Lives"]

GREETINGS, FORMER = 100, 1000  # lives of a site that are remembered, at most


class Lives:
    """Tells the process that speaks for a site from those before it, whose messages may come late.

    A process draws its *life*, greets with it, and says it in every message. It speaks for its site from its next
    message on: only who has got an answer to its greeting goes on, so a greeting that comes late changes nothing.

    Args:
        sites: Names of all sites.
    """

    def __init__(self, sites: Sequence[str]) -> None:
        self._greeted: dict[str, list[str]] = {site: [] for site in sites}
        self._former: dict[str, list[str]] = {site: [] for site in sites}
        self._now: dict[str, str] = {}

    def begun(self, site: str) -> bool:
        """Tell whether a site has greeted."""
        return site in self._now or bool(self._greeted[site])

    def greet(self, site: str, life: str) -> bool:
        """Hear a greeting, and return whether another process has spoken for the site before."""
        now = self._now.get(site)
        if life != now and life not in self._greeted[site]:  # else it asks once more, as it has got no answer
            self._greeted[site] = [*self._greeted[site], life][-GREETINGS:]
        return now not in (None, life)

    def speak(self, site: str, life: str) -> bool:
        """Return whether a life speaks for its site from now on, in place of another; a `FrameError` if it may not."""
        now, greeted = self._now.get(site), self._greeted[site]
        if life == now:
            return False
        if life not in greeted:
            raise FrameError(f"site {site!r}", "messages of a process that has not greeted")
        at = greeted.index(life)
        self._former[site] = [*self._former[site], *greeted[:at], *([] if now is None else [now])][-FORMER:]
        self._greeted[site], self._now[site] = greeted[at + 1 :], life
        return now is not None

    def require(self, site: str, life: str) -> None:
        """Raise a `FrameError` for a life that has ended."""
        if life in self._former[site]:
            raise FrameError(
                f"site {site!r}", "messages of a process of this site that was started before the one that is there"
            )
