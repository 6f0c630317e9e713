"""The exchange slot: a formula (base, message, weights) and the route that models take; bytes follow from both."""

from __future__ import annotations

from graphcollab.exchange.exchange import Exchange, NoExchange
from graphcollab.exchange.laplacian_pull import LaplacianPull
from graphcollab.exchange.neighborhood_means import NeighborhoodMeans
from graphcollab.exchange.prototype_average import PrototypeAverage
from graphcollab.exchange.receive import Receive
from graphcollab.exchange.route import AlongEdges, AtServer, Route, Ways
from graphcollab.exchange.through_centers import ThroughCenters
from graphcollab.exchange.through_server import ThroughServer

__all__ = [
    "AlongEdges",
    "AtServer",
    "Exchange",
    "LaplacianPull",
    "NeighborhoodMeans",
    "NoExchange",
    "PrototypeAverage",
    "Receive",
    "Route",
    "ThroughCenters",
    "ThroughServer",
    "Ways",
]
