"""Runs between sites that keep their data: `graphcollab.site`, over NVIDIA FLARE.

Every site plays the run locally with its own samples and synchronizes with the others step by step. Models travel from
site to site along edges; public values and sums pass through a coordinator, which has neither data nor models. A site
without heartbeats is left behind: the others replay the current round without it, as if it had been away from the
beginning of the round (`graphcollab.components.Participation`), and it rejoins between two rounds.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.sites.deploying import allow as allow, job as job
    from graphcollab.sites.errors import SiteLostError as SiteLostError
    from graphcollab.sites.leaving import Leaving as Leaving
    from graphcollab.sites.site import Site as Site
    from graphcollab.sites.statistics import SiteStatistics as SiteStatistics
    from graphcollab.sites.tasks_of_site import tasks_of_site as tasks_of_site, told_by_site as told_by_site
    from graphcollab.sites.transport import connected as connected

__all__ = make_lazy(__name__)
