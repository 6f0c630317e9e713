"""The weigh slot: how edge weights come about."""

from graphcollab.weigh.channel_attention import ChannelAttention
from graphcollab.weigh.classifiers import ClassifierSimilarity, HeadAffinity
from graphcollab.weigh.double_greedy import DoubleGreedy
from graphcollab.weigh.first_order_gain import FirstOrderGain
from graphcollab.weigh.formulas import (
    Formula,
    KeepWeights,
    Metropolis,
    NoWeights,
    SampleCounts,
    SimilarityWeights,
    SimplexWeights,
    Uniform,
)
from graphcollab.weigh.gradient_alignment import GradientAlignment
from graphcollab.weigh.learned_logits import LearnedLogits
from graphcollab.weigh.peer_weights import AllPeers, AugmentBags, BestPeers, PeerWeights
from graphcollab.weigh.similarity import (
    CosineUpdates,
    CosineWeights,
    DistanceKernel,
    InverseLoss,
    Similarity,
    as_similarity,
)
from graphcollab.weigh.trial_mixtures import TrialMixtures

__all__ = [
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
    "Formula",
    "GradientAlignment",
    "HeadAffinity",
    "InverseLoss",
    "KeepWeights",
    "LearnedLogits",
    "Metropolis",
    "NoWeights",
    "PeerWeights",
    "SampleCounts",
    "Similarity",
    "SimilarityWeights",
    "SimplexWeights",
    "TrialMixtures",
    "Uniform",
    "as_similarity",
]
