"""Weighers: how edge weights come about."""

from __future__ import annotations

from graphcollab.nn.weigh.channel_attention import ChannelAttention
from graphcollab.nn.weigh.fixed import FixedWeigher, Metropolis, NoWeights, SampleCounts, Uniform
from graphcollab.nn.weigh.learned_logits import LearnedLogits

__all__ = ["ChannelAttention", "FixedWeigher", "LearnedLogits", "Metropolis", "NoWeights", "SampleCounts", "Uniform"]
