"""Meta-L2C: attention between encoded changes of models, which transfers to other nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Unpack

from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.methods.l2c import Variant, drop_weakest, mixer_optimizer, update_exchange
from graphcollab.nn import Mixer
from graphcollab.settings import Buffers, Count, Natural, NonNegative, Share
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import ChannelAttention

__all__ = ["meta_l2c"]


@method(lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def meta_l2c(
    *,
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
    **training: Unpack[Training],
) -> Method:
    """Meta-L2C: nodes mix by attention between encoded changes of models, whose encoders all nodes train together.

    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_,
    meta-L2C of algorithm 1, with the exchange of `l2c`.

    Deviations from the paper, each an argument: the validation losses are summed over nodes, not averaged (``scale``),
    and the encoders' step is 0.01, not 0.1 (``mixer_lr``); docs/reproduction.md has the measurements behind both.

    Args:
        mixer_lr: Step size of Adam on the encoders; the paper's is 0.1.
        scale: ``"sum"`` or the paper's ``"mean"`` of the nodes' validation losses (eq. 6).
        hidden: Hidden units of an encoder (the paper's 10).
        out: Numbers that encode a filter (the paper's 5).
        bias: Give the encoders biases; the paper leaves this open, see `Mixer`.
        pretrained: A trained `Mixer`, or its file, to start from.
        frozen: Use the pretrained mixer without training it further.
        part: Part of the model that is compared and mixed.

    Raises:
        ValueError: If ``frozen`` is asked for and no trained mixer is given.
    """
    encoders = mixer_optimizer(mixer_lr, mixer_weight_decay, decoupled)
    return Method(
        "meta_l2c",
        local=fit(training),
        weigh=ChannelAttention(part, hidden, out, bias, encoders, scale, pretrained, frozen),
        exchange=update_exchange(variant, part, buffers),
        rewire=drop_weakest(drop_round, drop_fraction, drop_count),
        prepare=WithSelfLoops(),
    )
