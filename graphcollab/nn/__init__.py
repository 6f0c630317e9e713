"""Layers: mixing as a PyG layer, and the encoders of meta-L2C."""

from graphcollab.nn.mix import Mix
from graphcollab.nn.mixer import Mixer
from graphcollab.nn.mixer_file import mixer_cards

__all__ = ["Mix", "Mixer", "mixer_cards"]
