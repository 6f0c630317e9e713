"""The exchange slot: a formula (base, message, weights) and the route that models take; bytes follow from both."""

from graphcollab.exchange.exchange import Exchange, LaplacianPull
from graphcollab.exchange.layer import Layer
from graphcollab.exchange.route import AlongEdges, Route, Sent, Ways
from graphcollab.exchange.servers import AtServer, NeighborhoodMeans, Served, ThroughCenters, ThroughServer
from graphcollab.exchange.unmixed import NoExchange, PrototypeAverage, Receive

__all__ = [
    "AlongEdges",
    "AtServer",
    "Exchange",
    "LaplacianPull",
    "Layer",
    "NeighborhoodMeans",
    "NoExchange",
    "PrototypeAverage",
    "Receive",
    "Route",
    "Sent",
    "Served",
    "ThroughCenters",
    "ThroughServer",
    "Ways",
]
