"""Layers: mixing as a PyG layer, and the encoders of meta-L2C."""

from graphcollab.nn.mix_conv import MixConv
from graphcollab.nn.mixer import Mixer
from graphcollab.nn.mixer_file import mixer_cards

__all__ = ["MixConv", "Mixer", "mixer_cards"]
