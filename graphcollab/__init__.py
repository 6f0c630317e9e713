"""graphcollab: collaborative learning of personalized models and of the graph that says which node listens to which."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy
from graphcollab._base.version import __version__ as __version__

if TYPE_CHECKING:
    from graphcollab._base.errors import GraphcollabError as GraphcollabError, GraphcollabWarning as GraphcollabWarning
    from graphcollab.analysis.benefit import benefit as benefit
    from graphcollab.analysis.compare import compare as compare
    from graphcollab.data import partition as partition
    from graphcollab.data.datasets.catalog import load_dataset as load_dataset
    from graphcollab.data.tasks import Tasks as Tasks
    from graphcollab.methods import get_method as get_method
    from graphcollab.methods.method import Method as Method
    from graphcollab.methods.phases import Phases as Phases
    from graphcollab.models.catalog import build_model as build_model
    from graphcollab.persistence.saved_models import load as load
    from graphcollab.sites.site import site as site
    from graphcollab.train.join import join as join
    from graphcollab.train.run import run as run

__all__ = make_lazy(__name__)
