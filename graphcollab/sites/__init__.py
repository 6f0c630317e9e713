"""Runs between sites that keep their data: `graphcollab.site`, over NVIDIA FLARE.

Every site plays the run by itself, with its own samples, and meets the others step by step. Models go from site to
site along edges; what everybody may know, and sums, go through a coordinator, which has neither data nor models. A site
that gives no sign of life is left behind: the others play the round at hand again without it, as if it had been away
from its beginning (`graphcollab.components.Participation`), and it comes back between two rounds.
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
