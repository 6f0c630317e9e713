"""Weighers: how edge weights come about."""

from __future__ import annotations

from graphcollab.nn.weigh.channel_attention import ChannelAttention
from graphcollab.nn.weigh.fixed import FixedWeigher, Metropolis, NoWeights, SampleCounts, Uniform
from graphcollab.nn.weigh.keep_weights import KeepWeights
from graphcollab.nn.weigh.learned_logits import LearnedLogits
from graphcollab.nn.weigh.trial_mixtures import TrialMixtures

__all__ = [
    "ChannelAttention",
    "FixedWeigher",
    "KeepWeights",
    "LearnedLogits",
    "Metropolis",
    "NoWeights",
    "SampleCounts",
    "TrialMixtures",
    "Uniform",
]
