"""The weigh slot: computation of the edge weights."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.components.weigh.channel_attention import ChannelAttention as ChannelAttention
    from graphcollab.components.weigh.classifiers import (
        ClassifierSimilarity as ClassifierSimilarity,
        HeadAffinity as HeadAffinity,
    )
    from graphcollab.components.weigh.double_greedy import DoubleGreedy as DoubleGreedy
    from graphcollab.components.weigh.first_order_gain import FirstOrderGain as FirstOrderGain
    from graphcollab.components.weigh.formulas import (
        Formula as Formula,
        KeepWeights as KeepWeights,
        Metropolis as Metropolis,
        NoWeights as NoWeights,
        SampleCounts as SampleCounts,
        SimilarityWeights as SimilarityWeights,
        SimplexWeights as SimplexWeights,
        Uniform as Uniform,
    )
    from graphcollab.components.weigh.gradient_alignment import GradientAlignment as GradientAlignment
    from graphcollab.components.weigh.learned_logits import LearnedLogits as LearnedLogits
    from graphcollab.components.weigh.peer_weights import (
        AllPeers as AllPeers,
        AugmentBags as AugmentBags,
        BestPeers as BestPeers,
        PeerWeights as PeerWeights,
    )
    from graphcollab.components.weigh.similarity import (
        CosineUpdates as CosineUpdates,
        CosineWeights as CosineWeights,
        DistanceKernel as DistanceKernel,
        InverseLoss as InverseLoss,
        Similarity as Similarity,
        as_similarity as as_similarity,
    )
    from graphcollab.components.weigh.trial_mixtures import TrialMixtures as TrialMixtures

__all__ = make_lazy(__name__)
