"""Weighers: how edge weights come about."""

from __future__ import annotations

from graphcollab.nn.weigh.channel_attention import ChannelAttention
from graphcollab.nn.weigh.classifier_similarity import ClassifierSimilarity
from graphcollab.nn.weigh.cosine_updates import CosineUpdates
from graphcollab.nn.weigh.cosine_weights import CosineWeights
from graphcollab.nn.weigh.fed_sim import FedSim
from graphcollab.nn.weigh.first_order_gain import FirstOrderGain
from graphcollab.nn.weigh.fixed import FixedWeigher, Metropolis, NoWeights, SampleCounts, Uniform
from graphcollab.nn.weigh.gradient_alignment import GradientAlignment
from graphcollab.nn.weigh.head_affinity import HeadAffinity
from graphcollab.nn.weigh.inverse_distance import InverseDistance
from graphcollab.nn.weigh.inverse_loss import InverseLoss
from graphcollab.nn.weigh.keep_weights import KeepWeights
from graphcollab.nn.weigh.learned_logits import LearnedLogits
from graphcollab.nn.weigh.pair_sampling import PairSampling
from graphcollab.nn.weigh.similarity import Similarity
from graphcollab.nn.weigh.softmax_scores import SoftmaxScores
from graphcollab.nn.weigh.trial_mixtures import TrialMixtures

__all__ = [
    "ChannelAttention",
    "ClassifierSimilarity",
    "CosineUpdates",
    "CosineWeights",
    "FedSim",
    "FirstOrderGain",
    "FixedWeigher",
    "GradientAlignment",
    "HeadAffinity",
    "InverseDistance",
    "InverseLoss",
    "KeepWeights",
    "LearnedLogits",
    "Metropolis",
    "NoWeights",
    "PairSampling",
    "SampleCounts",
    "Similarity",
    "SoftmaxScores",
    "TrialMixtures",
    "Uniform",
]
