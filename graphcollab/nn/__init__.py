"""Layers on the collaboration graph: mixing, exchange, and what learns the edge weights."""

from __future__ import annotations

from graphcollab.nn.exchange import Exchange, NoExchange, ServerAverage
from graphcollab.nn.keep_own import KeepOwn
from graphcollab.nn.mix import Mix
from graphcollab.nn.mixer import Mixer
from graphcollab.nn.receive import Receive
from graphcollab.nn.rewire import AtRound, EveryRound, Keep, SampleNodes
from graphcollab.nn.weigh import (
    ChannelAttention,
    FixedWeigher,
    KeepWeights,
    LearnedLogits,
    Metropolis,
    NoWeights,
    SampleCounts,
    TrialMixtures,
    Uniform,
)

__all__ = [
    "AtRound",
    "ChannelAttention",
    "EveryRound",
    "Exchange",
    "FixedWeigher",
    "Keep",
    "KeepOwn",
    "KeepWeights",
    "LearnedLogits",
    "Metropolis",
    "Mix",
    "Mixer",
    "NoExchange",
    "NoWeights",
    "Receive",
    "SampleCounts",
    "SampleNodes",
    "ServerAverage",
    "TrialMixtures",
    "Uniform",
]
