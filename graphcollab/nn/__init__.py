"""Layers: mixing as a PyG layer, and the encoders of meta-L2C."""

from graphcollab.nn.mix import Mix
from graphcollab.nn.mixer import Mixer

__all__ = ["Mix", "Mixer"]
