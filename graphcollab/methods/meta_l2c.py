"""Meta-L2C: attention between encoded changes of models, which transfers to other nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, fit, method
from graphcollab.methods.l2c import Variant, drop_weakest, mixer_optimizer, update_exchange
from graphcollab.nn import Mixer
from graphcollab.settings import Buffers, Count, Momentum, Natural, NonNegative, Share
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import ChannelAttention

__all__ = ["meta_l2c"]


@method
def meta_l2c(
    *,
    lr: NonNegative = 0.01,
    epochs: Count = 5,
    steps: Count | None = None,
    batch_size: Count = 10,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 5e-4,
    mixer_lr: NonNegative = 0.01,
    mixer_weight_decay: NonNegative = 0.01,
    decoupled: bool = False,
    scale: Literal["sum", "mean"] = "sum",
    hidden: Count = 10,
    out: Count = 5,
    bias: bool = True,
    drop_round: Natural | None = 10,
    drop_fraction: Share | None = 0.9,
    drop_count: Count | None = None,
    variant: Variant = "consistent",
    pretrained: Mixer | str | Path | None = None,
    frozen: bool = False,
    part: str = "all",
    buffers: Buffers = "keep",
) -> Method:
    """Meta-L2C: attention between encoded changes of models, whose encoders all nodes train together.

    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_,
    meta-L2C of algorithm 1.

    Deviations from the paper, each an argument: the validation losses are summed over nodes, not averaged (``scale``),
    and the encoders' step is 0.01, not 0.1 (``mixer_lr``); docs/reproduction.md has the measurements behind both.

    Args:
        mixer_lr: Step size of Adam on the encoders; the paper's is 0.1.
        mixer_weight_decay: Weight decay of Adam on the encoders (the paper's 0.01).
        decoupled: Decouple that weight decay (AdamW).
        scale: ``"sum"`` or the paper's ``"mean"`` of the nodes' validation losses (eq. 6).
        hidden: Hidden units of an encoder (the paper's 10).
        out: Numbers that encode a filter (the paper's 5).
        bias: Give the encoders biases; the paper leaves this open, see `Mixer`.
        drop_round: T_0: after the round of this index every node drops its weakest neighbours. None: never.
        drop_fraction: Share of a node's neighbours that is dropped (the paper's 90 %).
        drop_count: K_0, a number of neighbours instead.
        variant: Which form of eq. 2, see `l2c`.
        pretrained: A trained `Mixer`, or its file, to start from.
        frozen: Use the pretrained mixer without training it further.
        part: Part of the model that is compared and mixed.

    Raises:
        ValueError: If ``frozen`` is asked for and no trained mixer is given.

    Example:
        >>> meta_l2c().weigh.scale
        'sum'
    """
    encoders = mixer_optimizer(mixer_lr, mixer_weight_decay, decoupled)
    return Method(
        "meta_l2c",
        local=fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay),
        weigh=ChannelAttention(part, hidden, out, bias, encoders, scale, pretrained, frozen),
        exchange=update_exchange(variant, part, buffers),
        rewire=drop_weakest(drop_round, drop_fraction, drop_count),
        prepare=WithSelfLoops(),
    )
