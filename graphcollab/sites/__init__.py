"""Runs between sites that keep their data: `graphcollab.site`, over NVIDIA FLARE.

Every site plays the run by itself, with its own samples, and meets the others step by step. Models go from site to
site along edges; what everybody may know, and sums, go through a coordinator, which has neither data nor models. A site
that gives no sign of life is left behind: the others play the round at hand again without it, as if it had been away
from its beginning (`graphcollab.control.Attendance`), and it comes back between two rounds.
"""

from graphcollab.sites.deploying import allow, job
from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.gathering import connected
from graphcollab.sites.leaving import Leaving, Line
from graphcollab.sites.ledger import Ledger
from graphcollab.sites.site import Site, site
from graphcollab.sites.statistics import Everyone, SiteStatistics
from graphcollab.sites.tasks_of_site import Message, tasks_of_site, told_by_site

__all__ = [
    "Everyone",
    "Leaving",
    "Ledger",
    "Line",
    "Message",
    "Site",
    "SiteLostError",
    "SiteStatistics",
    "allow",
    "connected",
    "job",
    "site",
    "tasks_of_site",
    "told_by_site",
]
