"""Directed collaboration graphs: learned by trial, then fixed while nodes train through the mixture."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Unpack

from graphcollab._base.settings import Count, NonNegative, Real, Share
from graphcollab.components import KeepWeights, NoExchange, Receive, TrialMixtures
from graphcollab.methods.declare import Training, fit, method
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.transforms import Threshold, WithSelfLoops

ANY_WEIGHT = 1e-12  # edges that have vanished have weight exactly 0


@method(TrialMixtures, lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def directed(
    *,
    learn_rounds: Count = 20,
    mixture_lr: NonNegative | None = None,
    trial_epochs: Count = 1,
    trial_steps: Count | None = None,
    delta: Share = 0.1,
    minimum: Annotated[float, Real(least=0, most=0.5)] = 0.05,
    split: Literal["val", "train"] = "val",
    fair: bool = True,
    part: str = "all",
    **training: Unpack[Training],
) -> Phases:
    r"""Directed collaboration graph: nodes learn by trial which nodes to listen to, then train through the mixture.

    *Learning Directed Collaboration Graphs for Peer-to-Peer Personalized Learning* (Zheng, master's thesis, Ohio State
    University 2021), section 3.2. In phase 1 every node trains alone and tries mixtures with each neighbor's model
    (`TrialMixtures`). An edge's weight rises if the mixture was better and falls if it was worse; edges that do not
    help vanish. In phase 2 the weights α are frozen, and nodes receive their neighbors' models and train

    .. math::
        \min_h \; \mathcal{L}_{D_i}\Big(\alpha_{ii} h + \sum_j \alpha_{ij} h_j\Big), \qquad
        h_i \leftarrow \alpha_{ii} h + \sum_j \alpha_{ij} h_j

    (`Fit`, ``through``); weight decay then applies to the mixture. The two directions of an edge are independent: i may
    listen to j without j listening to i.

    The thesis learns the graph "until no weight changes substantially"; here phase 1 has a fixed number of rounds. The
    thesis compares accuracies without stating on which samples; here validation samples decide, by losses where
    targets are not classes. It compares mixtures with the node's own model without fine-tuning (``fair=False``), which
    favors the mixtures because they are fine-tuned. The thesis leaves open, and this implementation chooses, the step
    size, the clipping, that equal results change nothing, and how the p of pairs become the weights of a row.

    Args:
        learn_rounds: Rounds of phase 1; all later rounds belong to phase 2.
        mixture_lr: Step size in phase 2, where a step moves the mixture by only α_ii² of it. Default: as in phase 1.
        trial_epochs: Passes over a node's samples to fine-tune a mixture, K' in steps.
        trial_steps: K' itself, instead.
        delta: Amount by which p rises or falls.
        minimum: An edge with a smaller p vanishes; at most 0.5, the initial p of all edges.
        part: Part of the model that is mixed.
    """
    local = fit(training)
    slow = local.optimizer
    fast = slow if mixture_lr is None else replace(slow, lr=mixture_lr)
    trial = TrialMixtures(
        epochs=trial_epochs,
        steps=trial_steps,
        batch_size=local.batch_size,
        optimizer=slow,
        delta=delta,
        minimum=minimum,
        split=split,
        fair=fair,
        part=part,
    )
    learn = Method(
        "directed",
        local=local,
        weigh=trial,
        exchange=NoExchange(shown=part),
        rewire=Threshold(ANY_WEIGHT),
        prepare=WithSelfLoops(),
    )
    through = replace(local, optimizer=fast, through=part)
    train = Method("directed", local=through, weigh=KeepWeights(), exchange=Receive(part))
    return Phases(learn, learn_rounds, train)
