"""`tasks_of_site`: make the tasks of all sites at one that keeps its samples, from statistics over all sites."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset

from graphcollab._base.errors import EmptyError
from graphcollab.data._pairs import to_tensors
from graphcollab.data.tasks import Tasks
from graphcollab.sites.ledger import Ledger
from graphcollab.sites.statistics import Everyone, SiteStatistics


def tasks_of_site(
    meeting: Everyone,
    site: object,
    data: Any,
    *,
    rehearsed: bool = False,
    ledger: Ledger | None = None,
    build: Callable[..., Tasks] | None = None,
    **settings: Any,
) -> Tasks:
    """Make the tasks of all sites at one of them, which gives its own samples and meets the others.

    The tasks are those of all samples together, with the others' samples held elsewhere (`Tasks.share`). Means and
    deviations, categories and classes are those of all rows that may train, whatever is drawn, so other seeds disclose
    nothing more. `SiteStatistics` lists what this site sends: nothing of single rows except names of categories and
    classes, which may each belong to one row. If categories are declared, ``categories={"ward": ["A", "B"]}``, no name
    is sent.

    Settings and facts that must agree are compared first. If they differ, or a site fails, all sites raise the same
    ``ValueError``, which names the site. The message of a failing site's own error stays there, as its cause.

    Args:
        meeting: The meeting of this site with the others.
        site: The site's name, text or a whole number.
        data: The site's table, see `Tasks.from_frame`; or a pair (inputs, targets), see `Tasks.from_arrays`; or a
            ``Dataset``, see `Tasks.from_samples`, which also reads pairs if ``val`` or ``test`` is given.
        rehearsed: Whether the others are absent, or have copies of this site's samples, so that a single class is no
            error.
        ledger: Record of what this site has disclosed about its columns: it discloses the same again, or nothing.
        build: Function that makes tasks from a dict {site: data}, such as `graphcollab.llm.text_tasks`. Default: one of
            those above.
        settings: Settings of that function; the same at all sites.

    Raises:
        ValueError: If sites differ in their versions of graphcollab, settings, columns, or kinds of samples; if two
            have the same name; or if one has no rows or cannot use them.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from threading import Barrier
        >>> class Room:
        ...     def __init__(self, sites):
        ...         self.said, self.wait = [None] * sites, Barrier(sites).wait
        ...
        ...     def at(self, place):
        ...         return type("Door", (), {"all_gather_object": lambda _, value: self.meet(place, value)})()
        ...
        ...     def meet(self, place, value):
        ...         self.wait()
        ...         self.said[place] = value
        ...         self.wait()
        ...         return [*self.said]
        >>> room, ages = Room(2), {"north": [*range(30, 40)], "south": [*range(60, 70)]}
        >>> def make(place, site):
        ...     return tasks_of_site(room.at(place), site, {"age": ages[site], "y": [0, 1] * 5})
        >>> north, south = ThreadPoolExecutor().map(make, range(2), ages)
        >>> north.names, north.sizes("train").tolist(), len(north.pools["samples"])
        (('north', 'south'), [6, 6], 10)
    """
    statistics = SiteStatistics(site, meeting, rehearsed, ledger)
    name = statistics.name
    if build is not None:
        with statistics.making(build.__name__, build, settings):
            return build({name: data}, statistics=statistics, **settings)
    if isinstance(data, Dataset) or {"val", "test"} & settings.keys():
        for split in ("val", "test"):
            if settings.get(split) is not None:
                settings[split] = {name: settings[split]}
        with statistics.making("samples", Tasks.from_samples, settings):
            return Tasks.from_samples({name: data}, statistics=statistics, **settings)
    if isinstance(data, tuple) and len(data) == 2:
        with statistics.making("arrays", Tasks.from_arrays, settings):
            inputs, targets = to_tensors(*data)
            if not len(inputs):
                raise EmptyError(f"site {name!r}", "there are no samples")
            return Tasks.from_arrays(inputs, targets, [name] * len(inputs), statistics=statistics, **settings)
    with statistics.making("a table", Tasks.from_frame, settings):
        return Tasks.from_frame({name: data}, statistics=statistics, **settings)


def told_by_site(site: object, data: Any, **settings: Any) -> list[dict[str, Any]]:
    """Return the JSON values that a site would send to others in `tasks_of_site` with these arguments; none leaves it.

    Args:
        site: See `tasks_of_site`.
        data: See `tasks_of_site`.
        settings: See `tasks_of_site`.

    Example:
        >>> agreement, counts, sizes = told_by_site(
        ...     "north", {"age": [*range(30, 40)], "ill": [0, 1] * 5}, target="ill"
        ... )
        >>> counts["known"], counts["names"]
        ({'age': 10}, {'ill': ['0', '1']})
    """
    rehearsal = _Rehearsal()
    tasks_of_site(rehearsal, site, data, rehearsed=True, **settings)
    return rehearsal.sent


class _Rehearsal:
    """A meeting without other sites."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def all_gather_object(self, value: Any) -> list[Any]:
        self.sent.append(json.loads(json.dumps(value)))
        return [json.loads(json.dumps(value))]
