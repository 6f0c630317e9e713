"""The weigh slot: how edge weights come about."""

from __future__ import annotations

from graphcollab.weigh.as_similarity import SIMILARITIES, as_similarity
from graphcollab.weigh.channel_attention import ChannelAttention
from graphcollab.weigh.choose import AllPeers, AugmentBags, BestPeers
from graphcollab.weigh.classifier_similarity import ClassifierSimilarity
from graphcollab.weigh.cosine_updates import CosineUpdates
from graphcollab.weigh.cosine_weights import CosineWeights
from graphcollab.weigh.distance_kernel import DistanceKernel
from graphcollab.weigh.double_greedy import DoubleGreedy
from graphcollab.weigh.first_order_gain import FirstOrderGain
from graphcollab.weigh.fixed import Metropolis, NoWeights, SampleCounts, Uniform
from graphcollab.weigh.gradient_alignment import GradientAlignment
from graphcollab.weigh.head_affinity import HeadAffinity
from graphcollab.weigh.inverse_distance import InverseDistance
from graphcollab.weigh.inverse_loss import InverseLoss
from graphcollab.weigh.keep_weights import KeepWeights
from graphcollab.weigh.learned_logits import LearnedLogits
from graphcollab.weigh.pair_sampling import PairSampling
from graphcollab.weigh.peer_weights import PeerWeights
from graphcollab.weigh.remainder_weights import RemainderWeights
from graphcollab.weigh.similarity import Similarity
from graphcollab.weigh.similarity_weights import SimilarityWeights, similarity_weights
from graphcollab.weigh.simplex_weights import SimplexWeights
from graphcollab.weigh.softmax_weights import SoftmaxWeights
from graphcollab.weigh.trial_mixtures import TrialMixtures

__all__ = [
    "SIMILARITIES",
    "AllPeers",
    "AugmentBags",
    "BestPeers",
    "ChannelAttention",
    "ClassifierSimilarity",
    "CosineUpdates",
    "CosineWeights",
    "DistanceKernel",
    "DoubleGreedy",
    "FirstOrderGain",
    "GradientAlignment",
    "HeadAffinity",
    "InverseDistance",
    "InverseLoss",
    "KeepWeights",
    "LearnedLogits",
    "Metropolis",
    "NoWeights",
    "PairSampling",
    "PeerWeights",
    "RemainderWeights",
    "SampleCounts",
    "Similarity",
    "SimilarityWeights",
    "SimplexWeights",
    "SoftmaxWeights",
    "TrialMixtures",
    "Uniform",
    "as_similarity",
    "similarity_weights",
]
