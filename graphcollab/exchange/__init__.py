"""The exchange slot: base and message, and the route that models take."""

from __future__ import annotations

from graphcollab.exchange.center_average import CenterAverage
from graphcollab.exchange.exchange import Exchange, NoExchange
from graphcollab.exchange.keep_own import KeepOwn
from graphcollab.exchange.laplacian_pull import LaplacianPull
from graphcollab.exchange.neighborhood_average import NeighborhoodAverage
from graphcollab.exchange.prototype_average import PrototypeAverage
from graphcollab.exchange.receive import Receive
from graphcollab.exchange.server_average import ServerAverage
from graphcollab.exchange.server_mix import ServerMix

__all__ = [
    "CenterAverage",
    "Exchange",
    "KeepOwn",
    "LaplacianPull",
    "NeighborhoodAverage",
    "NoExchange",
    "PrototypeAverage",
    "Receive",
    "ServerAverage",
    "ServerMix",
]
