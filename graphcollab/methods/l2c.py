"""Learning to collaborate: mixing weights learned per edge, or by attention that transfers to other nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, Unpack

from graphcollab._base.errors import MissingError
from graphcollab._base.settings import Buffers, Count, Natural, NonNegative, Share
from graphcollab.components import (
    AlongEdges,
    ApplyTransform,
    ChannelAttention,
    Exchange,
    FitWithReference,
    LearnedLogits,
    Rewiring,
)
from graphcollab.engine import Adam, AdamW
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.methods.declare import Training, fit, method
from graphcollab.methods.method import Method
from graphcollab.nn import MixingEncoder
from graphcollab.nn.mixer_file import Own, Score
from graphcollab.transforms import DropWeakest, WithSelfLoops

Variant: TypeAlias = Literal["consistent", "neighbors", "algorithm"]

VARIANTS: dict[str, tuple[Literal["x", "x_start"], bool]] = {
    "consistent": ("x_start", False),
    "neighbors": ("x", True),
    "algorithm": ("x_start", True),
}


@method(LearnedLogits, lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def l2c(
    *,
    mixer_lr: NonNegative = 0.1,
    mixer_weight_decay: NonNegative = 0.01,
    decoupled: bool = True,
    own: Literal["largest", "softmax"] = "largest",
    drop_round: Natural | None = None,
    drop_fraction: Share | None = 0.9,
    drop_count: Count | None = None,
    variant: Variant = "consistent",
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""L2C: every node mixes its neighbors' models with weights learned on its own validation data.

    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_,
    L2C of algorithm 1:

    .. math::
        x_i \leftarrow x_i^{start} - \sum_{j \in \{i\} \cup N(i)} w_{ij} \Delta_j, \qquad \Delta_j = x_j^{start} - x_j

    with softmax weights whose logits are learned from the validation loss of the mixed model. The paper leaves the
    initial logits open; here they are 0, so weights start uniform. Line 24 of the algorithm averages logits over nodes,
    which is meaningless for logits that belong to one node, and is not implemented.

    The paper writes the exchange in three ways that do not agree. ``variant`` selects one:

    - ``"consistent"`` (default): the second line of eq. 2, the only form consistent with weights that sum to one over
      i and its neighbors.
    - ``"neighbors"``: the first line of eq. 2: the node keeps its own update in full and adds its neighbors'.
    - ``"algorithm"``: line 16 of algorithm 1: the node's own update is dropped.

    Deviations from the paper, each an argument: the logits' weight decay is decoupled (``decoupled``), since coupled
    decay makes all weights uniform again once validation gradients are small; and no neighbor gets a larger weight than
    the node itself (``own``). ``decoupled=False, own="softmax"`` is the paper's form.

    Args:
        mixer_lr: Step size of the logits (the paper's 0.1).
    """
    return Method(
        "l2c",
        local=fit(training),
        weigh=LearnedLogits(_mixer_optimizer(mixer_lr, mixer_weight_decay, decoupled), own),
        exchange=_update_exchange(variant, part, buffers),
        rewire=_drop_weakest(drop_round, drop_fraction, drop_count),
        prepare=WithSelfLoops(),
    )


@method(ChannelAttention, lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def meta_l2c(
    *,
    mixer_lr: NonNegative = 0.01,
    mixer_weight_decay: NonNegative = 0.01,
    decoupled: bool = True,
    scale: Literal["sum", "mean"] = "sum",
    score: Score = "cosine",
    normalize: bool = True,
    own: Own = "gate",
    hidden: Count = 10,
    out: Count = 5,
    bias: bool = True,
    drop_round: Natural | None = None,
    drop_fraction: Share | None = 0.9,
    drop_count: Count | None = None,
    variant: Variant = "consistent",
    pretrained: MixingEncoder | str | Path | None = None,
    frozen: bool = False,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""Meta-L2C: every node mixes all models with weights that nodes jointly learn from how the models change.

    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_,
    meta-L2C of algorithm 1, with the exchange of `l2c`.

    Deviations from the paper, each an argument. In the paper's form almost every node ends up listening to itself only,
    or all weights stay uniform; docs/reproduction.md has the measurements.

    - Changes are normalized per layer (``normalize``), and logits are mean cosines of layers' codes times a temperature
      :math:`T = e^{10 t}` with learned t, initially 0 (``score``), instead of unbounded inner products.
    - The own model gets the weight of the node's most similar in-neighbor, plus a share that is learned separately, by
      comparison with models that nodes train alone (`FitWithReference`). The share ranges from 0.25 % to 99.33 %
      (log-odds from -6 to 5, initially -4). If not all nodes hear each other, the own weight is at least half
      (``own``). Nodes thus fall back on local training if other models do not help. In round t of learning, the
      log-odds move by

      .. math:: \eta t \log \frac{\sum_i L_i(x_i)}{\sum_i L_i(x_i^{alone})}

      of validation losses, by ½ at most, with η the optimizer's step size and a logarithm of at most 3 in absolute
      value (``2 (L − L') / (|L| + |L'|)`` for sums that are not both positive). The gradient with respect to that share
      would only say what helps in the next round, and own models always help in the first rounds. Nodes at rest do not
      count, nor does a node whose reference has diverged. The second model doubles the time of local updates until the
      share reaches its minimum; ``own="largest"`` does without it.
    - The encoders' weight decay is decoupled (``decoupled``), and their step size is 0.01 (``mixer_lr``). The
      validation losses are summed over nodes (``scale``), which only makes a difference with coupled decay.

    The paper's form is ``score="product", normalize=False, own="softmax", decoupled=False, scale="mean",
    mixer_lr=0.1``.

    Args:
        mixer_lr: Step size of the encoders, of t, which moves log T ten times as far, and of the gate's log-odds. The
            paper's is 0.1.
        part: Part of the model that is compared and mixed.
    """
    encoders = _mixer_optimizer(mixer_lr, mixer_weight_decay, decoupled)
    weigh = ChannelAttention(part, hidden, out, bias, encoders, scale, score, normalize, own, pretrained, frozen)
    return Method(
        "meta_l2c",
        local=FitWithReference(fit(training)) if weigh.compares else fit(training),
        weigh=weigh,
        exchange=_update_exchange(variant, part, buffers),
        rewire=_drop_weakest(drop_round, drop_fraction, drop_count),
        prepare=WithSelfLoops(),
    )


def _mixer_optimizer(lr: float, weight_decay: float, decoupled: bool) -> RowOptimizer:
    """Return the optimizer of a learned weigher."""
    return (AdamW if decoupled else Adam)(lr=lr, weight_decay=weight_decay)


def _update_exchange(variant: Variant, part: str, buffers: Buffers) -> Exchange:
    """Return the exchange of updates in one of the three forms in the paper."""
    base, neighbors_only = VARIANTS[variant]
    return Exchange(base, "update", part, buffers, route=AlongEdges(neighbors_only))


def _drop_weakest(round_: int | None, fraction: float | None, count: int | None) -> Rewiring:
    """Return the rewiring that drops every node's weakest neighbors, once."""
    if round_ is None:
        return Rewiring()
    if fraction is None and count is None:
        raise MissingError(
            "drop_round", f"drop_round={round_} needs drop_fraction or drop_count, got neither: give one of them"
        )
    return ApplyTransform(DropWeakest(count=count, fraction=None if count is not None else fraction), at=round_)
