"""Layers on the collaboration graph: mixing, exchange, and what learns the edge weights."""

from __future__ import annotations

from graphcollab.nn.exchange import Exchange, NoExchange, ServerAverage
from graphcollab.nn.mix import Mix
from graphcollab.nn.mixer import Mixer
from graphcollab.nn.rewire import AtRound, EveryRound, Keep, SampleNodes
from graphcollab.nn.weigh import (
    ChannelAttention,
    FixedWeigher,
    LearnedLogits,
    Metropolis,
    NoWeights,
    SampleCounts,
    Uniform,
)

__all__ = [
    "AtRound",
    "ChannelAttention",
    "EveryRound",
    "Exchange",
    "FixedWeigher",
    "Keep",
    "LearnedLogits",
    "Metropolis",
    "Mix",
    "Mixer",
    "NoExchange",
    "NoWeights",
    "SampleCounts",
    "SampleNodes",
    "ServerAverage",
    "Uniform",
]
