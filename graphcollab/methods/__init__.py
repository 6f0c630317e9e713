"""Collaboration methods, one function each, named after the acronym in the paper."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.methods.cga import cga as cga, fc as fc
    from graphcollab.methods.cobo import cobo as cobo
    from graphcollab.methods.directed import directed as directed
    from graphcollab.methods.ditto import ditto as ditto
    from graphcollab.methods.dpfl import dpfl as dpfl
    from graphcollab.methods.dpsgd import dfedavgm as dfedavgm, dpsgd as dpsgd
    from graphcollab.methods.fedamp import fedamp as fedamp, heurfedamp as heurfedamp
    from graphcollab.methods.fedavg import fedavg as fedavg, fedavg_finetuned as fedavg_finetuned, local as local
    from graphcollab.methods.fedclassavg import fedclassavg as fedclassavg
    from graphcollab.methods.fedproto import fedproto as fedproto
    from graphcollab.methods.fedsim import fedsim as fedsim
    from graphcollab.methods.flt import flt as flt
    from graphcollab.methods.fomo import fomo as fomo
    from graphcollab.methods.ifca import ifca as ifca
    from graphcollab.methods.l2c import l2c as l2c, meta_l2c as meta_l2c
    from graphcollab.methods.mapl import mapl as mapl
    from graphcollab.methods.method import Method
    from graphcollab.methods.partial_pooling import partial_pooling as partial_pooling
    from graphcollab.methods.peers import (
        dac as dac,
        oracle as oracle,
        panm as panm,
        pens as pens,
        random_peers as random_peers,
    )
    from graphcollab.methods.pfedgraph import pfedgraph as pfedgraph
    from graphcollab.methods.pfedsim import pfedsim as pfedsim
    from graphcollab.methods.phases import Phases

__all__ = make_lazy(__name__)


def get_method(name: str) -> Callable[..., Method | Phases]:
    """Return the function of a method by name; an unknown name raises an error that suggests the nearest one.

    Example:
        >>> get_method("l2c")().name
        'l2c'
    """
    from graphcollab._base.settings import look_up

    return look_up("method", name, {known: getattr(sys.modules[__name__], known) for known in __all__})
