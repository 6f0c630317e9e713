"""The pieces that methods are composed of, and their shared helpers; a slot with many pieces has a folder."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab._base.piece import Field as Field, Piece as Piece, updated as updated
    from graphcollab._base.settings import Buffers as Buffers, Count as Count, Positive as Positive, Real as Real
    from graphcollab.components.env import Env as Env, Isolate as Isolate, Participation as Participation
    from graphcollab.components.exchange.exchange import (
        Exchange as Exchange,
        LaplacianPull as LaplacianPull,
        ShrinkIntercepts as ShrinkIntercepts,
    )
    from graphcollab.components.exchange.layer import Layer as Layer
    from graphcollab.components.exchange.route import (
        AlongEdges as AlongEdges,
        Route as Route,
        Sent as Sent,
        Ways as Ways,
    )
    from graphcollab.components.exchange.servers import (
        AtServer as AtServer,
        NeighborhoodMeans as NeighborhoodMeans,
        Served as Served,
        ThroughCenters as ThroughCenters,
        ThroughServer as ThroughServer,
    )
    from graphcollab.components.exchange.unmixed import (
        NoExchange as NoExchange,
        PrototypeAverage as PrototypeAverage,
        Receive as Receive,
    )
    from graphcollab.components.local.combine import (
        ClippedMean as ClippedMean,
        Combine as Combine,
        ProjectedGradient as ProjectedGradient,
    )
    from graphcollab.components.local.cross_gradients import CrossGradients as CrossGradients
    from graphcollab.components.local.fit import (
        Fit as Fit,
        FitPersonal as FitPersonal,
        FitWithReference as FitWithReference,
    )
    from graphcollab.components.local.prototypes import PrototypeDistance as PrototypeDistance
    from graphcollab.components.random_slopes import RandomSlopes as RandomSlopes
    from graphcollab.components.rewire.adaptive import AdaptivePeers as AdaptivePeers
    from graphcollab.components.rewire.choose_center import ChooseCenter as ChooseCenter
    from graphcollab.components.rewire.draw import Candidates as Candidates
    from graphcollab.components.rewire.sampler import GreedyPeers as GreedyPeers, PeerSampler as PeerSampler
    from graphcollab.components.rewire.scheduled import (
        ApplyTransform as ApplyTransform,
        SampleNodes as SampleNodes,
        sample_nodes as sample_nodes,
    )
    from graphcollab.components.rewire.task_distances import Encoder as Encoder
    from graphcollab.components.rewire.task_peers import TaskPeers as TaskPeers
    from graphcollab.components.rewire.two_stages import (
        CountChosen as CountChosen,
        FrequentPeers as FrequentPeers,
        KeepChosen as KeepChosen,
        NeighborBag as NeighborBag,
    )
    from graphcollab.components.slots import (
        Exchanger as Exchanger,
        Judge as Judge,
        Local as Local,
        Rewiring as Rewiring,
        Stop as Stop,
        Weigher as Weigher,
    )
    from graphcollab.components.stop import EarlyStopping as EarlyStopping
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
