"""The methods, one function each, named after the acronym of its paper."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from graphcollab.method import Method
from graphcollab.methods.cga import cga
from graphcollab.methods.cobo import cobo
from graphcollab.methods.dac import dac
from graphcollab.methods.dfedavgm import dfedavgm
from graphcollab.methods.directed import directed
from graphcollab.methods.ditto import ditto
from graphcollab.methods.dpfl import dpfl
from graphcollab.methods.dpsgd import dpsgd
from graphcollab.methods.fc import fc
from graphcollab.methods.fedamp import fedamp
from graphcollab.methods.fedavg import fedavg
from graphcollab.methods.fedavg_finetuned import fedavg_finetuned
from graphcollab.methods.fedclassavg import fedclassavg
from graphcollab.methods.fedproto import fedproto
from graphcollab.methods.fedsim import fedsim
from graphcollab.methods.flt import flt
from graphcollab.methods.fomo import fomo
from graphcollab.methods.heurfedamp import heurfedamp
from graphcollab.methods.ifca import ifca
from graphcollab.methods.l2c import l2c
from graphcollab.methods.local import local
from graphcollab.methods.mapl import mapl
from graphcollab.methods.meta_l2c import meta_l2c
from graphcollab.methods.oracle import oracle
from graphcollab.methods.panm import panm
from graphcollab.methods.pens import pens
from graphcollab.methods.pfedgraph import pfedgraph
from graphcollab.methods.pfedsim import pfedsim
from graphcollab.methods.random_peers import random_peers
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


def get_method(name: str) -> Callable[..., Method | Phases]:
    """Return the function of a method by name.

    Raises:
        ValueError: If there is no such method; the message names the nearest.

    Example:
        >>> get_method("l2c")().name
        'l2c'
    """
    if name not in __all__:
        nearest = difflib.get_close_matches(name.lower(), __all__, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown method {name!r}; did you mean {nearest!r}? Known: {', '.join(__all__)}")
    method: Callable[..., Method | Phases] = globals()[name]
    return method
