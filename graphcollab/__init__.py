"""graphcollab: collaborative learning of personalized models and of the graph that says who listens to whom."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy
from graphcollab._version import __version__ as __version__

if TYPE_CHECKING:
    from graphcollab.datasets import load_dataset as load_dataset
    from graphcollab.gains.benefit import benefit as benefit
    from graphcollab.method import Method as Method
    from graphcollab.methods import (
        cga as cga,
        cobo as cobo,
        dac as dac,
        dfedavgm as dfedavgm,
        directed as directed,
        ditto as ditto,
        dpfl as dpfl,
        dpsgd as dpsgd,
        fc as fc,
        fedamp as fedamp,
        fedavg as fedavg,
        fedavg_finetuned as fedavg_finetuned,
        fedclassavg as fedclassavg,
        fedproto as fedproto,
        fedsim as fedsim,
        flt as flt,
        fomo as fomo,
        get_method as get_method,
        heurfedamp as heurfedamp,
        ifca as ifca,
        l2c as l2c,
        local as local,
        mapl as mapl,
        meta_l2c as meta_l2c,
        oracle as oracle,
        panm as panm,
        partial_pooling as partial_pooling,
        pens as pens,
        pfedgraph as pfedgraph,
        pfedsim as pfedsim,
        random_peers as random_peers,
    )
    from graphcollab.models import build_model as build_model
    from graphcollab.nn import MixConv as MixConv, Mixer as Mixer
    from graphcollab.phases import Phases as Phases
    from graphcollab.sites.site import site as site
    from graphcollab.tasks import (
        Preparation as Preparation,
        Tasks as Tasks,
        concept_shift as concept_shift,
        covariate_shift as covariate_shift,
        disjoint_classes as disjoint_classes,
        grouped_tasks as grouped_tasks,
        label_shift as label_shift,
        linear_regression_tasks as linear_regression_tasks,
        majority_tasks as majority_tasks,
        permuted_labels as permuted_labels,
        rotation_shift as rotation_shift,
        shard_tasks as shard_tasks,
    )
    from graphcollab.train.compare import compare as compare
    from graphcollab.train.join import join as join
    from graphcollab.train.run import run as run
    from graphcollab.train.saved_models import load as load

__all__ = make_lazy(__name__)
