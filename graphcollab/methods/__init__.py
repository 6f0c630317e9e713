"""The methods, one function each, named after the acronym of its paper."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.method import Method
    from graphcollab.methods.cga import cga
    from graphcollab.methods.cobo import cobo
    from graphcollab.methods.directed import directed
    from graphcollab.methods.ditto import ditto
    from graphcollab.methods.dpfl import dpfl
    from graphcollab.methods.dpsgd import dfedavgm, dpsgd
    from graphcollab.methods.fc import fc
    from graphcollab.methods.fedamp import fedamp, heurfedamp
    from graphcollab.methods.fedavg import fedavg, fedavg_finetuned
    from graphcollab.methods.fedclassavg import fedclassavg
    from graphcollab.methods.fedproto import fedproto
    from graphcollab.methods.fedsim import fedsim
    from graphcollab.methods.flt import flt
    from graphcollab.methods.fomo import fomo
    from graphcollab.methods.ifca import ifca
    from graphcollab.methods.l2c import l2c, meta_l2c
    from graphcollab.methods.local import local
    from graphcollab.methods.mapl import mapl
    from graphcollab.methods.peers import dac, oracle, panm, pens, random_peers
    from graphcollab.methods.pfedgraph import pfedgraph
    from graphcollab.methods.pfedsim import pfedsim
    from graphcollab.phases import Phases

__all__ = [
    "cga",
    "cobo",
    "dac",
    "dfedavgm",
    "directed",
    "ditto",
    "dpfl",
    "dpsgd",
    "fc",
    "fedamp",
    "fedavg",
    "fedavg_finetuned",
    "fedclassavg",
    "fedproto",
    "fedsim",
    "flt",
    "fomo",
    "heurfedamp",
    "ifca",
    "l2c",
    "local",
    "mapl",
    "meta_l2c",
    "oracle",
    "panm",
    "pens",
    "pfedgraph",
    "pfedsim",
    "random_peers",
]

make_lazy(__name__)


def get_method(name: str) -> Callable[..., Method | Phases]:
    """Return the function of a method by name; an unknown name is refused, and the nearest is named.

    Example:
        >>> get_method("l2c")().name
        'l2c'
    """
    from graphcollab.settings import look_up

    return look_up("method", name, {known: getattr(sys.modules[__name__], known) for known in __all__})
