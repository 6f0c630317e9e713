"""graphcollab: collaborative learning of personalised models and of the graph that says who listens to whom."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy
from graphcollab._version import __version__ as __version__
from graphcollab.methods import __all__ as _methods

if TYPE_CHECKING:
    from graphcollab.datasets import load_dataset
    from graphcollab.gains.benefit import benefit
    from graphcollab.method import Method
    from graphcollab.methods import *  # noqa: F403 - the methods list themselves
    from graphcollab.methods import get_method
    from graphcollab.models import build_model
    from graphcollab.nn import MixConv, Mixer
    from graphcollab.phases import Phases
    from graphcollab.sites.site import site
    from graphcollab.tasks import (
        Preparation,
        Tasks,
        concept_shift,
        covariate_shift,
        disjoint_classes,
        grouped_tasks,
        label_shift,
        linear_regression_tasks,
        majority_tasks,
        permuted_labels,
        rotation_shift,
        shard_tasks,
    )
    from graphcollab.train.compare import compare
    from graphcollab.train.join import join
    from graphcollab.train.run import run
    from graphcollab.train.saved_models import load

__all__ = [
    "Method",
    "MixConv",
    "Mixer",
    "Phases",
    "Preparation",
    "Tasks",
    "benefit",
    "build_model",
    "compare",
    "concept_shift",
    "covariate_shift",
    "disjoint_classes",
    "get_method",
    "grouped_tasks",
    "join",
    "label_shift",
    "linear_regression_tasks",
    "load",
    "load_dataset",
    "majority_tasks",
    "permuted_labels",
    "rotation_shift",
    "run",
    "shard_tasks",
    "site",
    *_methods,
]

make_lazy(__name__)
