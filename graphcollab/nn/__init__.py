"""Layers: mixing as a PyG layer, and the encoders of meta-L2C."""

from __future__ import annotations

from graphcollab.nn.mix import Mix
from graphcollab.nn.mixer import Mixer
from graphcollab.nn.mixers import Mixers

__all__ = ["Mix", "Mixer", "Mixers"]
