"""Layers on the collaboration graph: mixing, exchange, and what learns the edge weights."""

from __future__ import annotations

from graphcollab.nn.attendance import Everyone, Membership, Stragglers, attend, dismiss
from graphcollab.nn.center_average import CenterAverage
from graphcollab.nn.choose_center import ChooseCenter
from graphcollab.nn.clipped_mean import ClippedMean
from graphcollab.nn.cross_gradients import Combine, CrossGradients
from graphcollab.nn.exchange import Exchange, NoExchange
from graphcollab.nn.keep_own import KeepOwn
from graphcollab.nn.laplacian_pull import LaplacianPull
from graphcollab.nn.mix import Mix
from graphcollab.nn.mixer import Mixer
from graphcollab.nn.mixers import Mixers
from graphcollab.nn.nearest_prototype import NearestPrototype
from graphcollab.nn.neighborhood_average import NeighborhoodAverage
from graphcollab.nn.projected_gradient import ProjectedGradient
from graphcollab.nn.prototype_average import PrototypeAverage
from graphcollab.nn.receive import Receive
from graphcollab.nn.rewire import AtRound, EveryRound, Keep, SampleNodes
from graphcollab.nn.server_average import ServerAverage
from graphcollab.nn.server_mix import ServerMix
from graphcollab.nn.weigh import (
    ChannelAttention,
    ClassifierSimilarity,
    CosineUpdates,
    CosineWeights,
    FedSim,
    FirstOrderGain,
    FixedWeigher,
    GradientAlignment,
    HeadAffinity,
    InverseDistance,
    InverseLoss,
    KeepWeights,
    LearnedLogits,
    Metropolis,
    NoWeights,
    PairSampling,
    SampleCounts,
    Similarity,
    SoftmaxScores,
    TrialMixtures,
    Uniform,
)
from graphcollab.nn.weigh.as_similarity import SIMILARITIES, as_similarity
from graphcollab.nn.weigh.fed_sim import fedsim_weights

__all__ = [
    "SIMILARITIES",
    "AtRound",
    "CenterAverage",
    "ChannelAttention",
    "ChooseCenter",
    "ClassifierSimilarity",
    "ClippedMean",
    "Combine",
    "CosineUpdates",
    "CosineWeights",
    "CrossGradients",
    "EveryRound",
    "Everyone",
    "Exchange",
    "FedSim",
    "FirstOrderGain",
    "FixedWeigher",
    "GradientAlignment",
    "HeadAffinity",
    "InverseDistance",
    "InverseLoss",
    "Keep",
    "KeepOwn",
    "KeepWeights",
    "LaplacianPull",
    "LearnedLogits",
    "Membership",
    "Metropolis",
    "Mix",
    "Mixer",
    "Mixers",
    "NearestPrototype",
    "NeighborhoodAverage",
    "NoExchange",
    "NoWeights",
    "PairSampling",
    "ProjectedGradient",
    "PrototypeAverage",
    "Receive",
    "SampleCounts",
    "SampleNodes",
    "ServerAverage",
    "ServerMix",
    "Similarity",
    "SoftmaxScores",
    "Stragglers",
    "TrialMixtures",
    "Uniform",
    "as_similarity",
    "attend",
    "dismiss",
    "fedsim_weights",
]
