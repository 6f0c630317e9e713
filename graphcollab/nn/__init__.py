"""Layers: mixing as a PyG layer, and the encoders of meta-L2C."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.nn.mix_conv import MixConv as MixConv
    from graphcollab.nn.mixer_file import mixer_cards as mixer_cards
    from graphcollab.nn.mixing_encoder import MixingEncoder as MixingEncoder

__all__ = make_lazy(__name__)
