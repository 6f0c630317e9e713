"""Local training and federated averaging: over all nodes, within true clusters, or with local fine-tuning."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Unpack

from graphcollab._base.settings import Buffers, Count, Incomplete, NonNegative, Share
from graphcollab.components import Exchange, ThroughServer, sample_nodes
from graphcollab.components.judge import FineTuned
from graphcollab.methods.declare import Serving, Training, Weights, averaged, fit, method, patient
from graphcollab.methods.method import Method


@method(lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def local(*, patience: Count | None = None, **training: Unpack[Training]) -> Method:
    """Local training: every node trains a model on its own data only."""
    return patient(Method("local", local=fit(training)), patience)


@method(lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def fedavg(
    *,
    fraction: Share = 1.0,
    weights: Weights = "counts",
    within: Literal["cluster"] | None = None,
    incomplete: Incomplete = "refuse",
    part: str = "all",
    buffers: Buffers = "average",
    **training: Unpack[Training],
) -> Method:
    r"""FedAvg: nodes replace their models by the average of all models, weighted by sample counts.

    `Communication-Efficient Learning of Deep Networks from Decentralized Data (McMahan et al., AISTATS 2017)
    <https://arxiv.org/abs/1602.05629>`_.

    .. math::
        x \leftarrow \sum_{k \in S} \frac{n_k}{\sum_{l \in S} n_l} x_k

    over the participating nodes S, through a server; every node then has the average as its model. If edges are given,
    every connected component has a server, and its nodes must all be allowed to hear each other; a node without
    neighbors trains alone. Within true clusters (``within="cluster"``), the method is named ``fedavg_in_clusters``: an
    upper reference for methods that find the clusters (the oracle in the comparison of CoBo, NeurIPS 2024).

    Args:
        within: ``"cluster"``: average within the true clusters, which the tasks must know; None: over all nodes.
    """
    return Method(
        "fedavg_in_clusters" if within else "fedavg",
        local=fit(training),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughServer(weights, within, incomplete)),
        rewire=sample_nodes(fraction),
    )


@method(lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4, part="all", buffers="average")
def fedavg_finetuned(
    *,
    finetune_lr: NonNegative | None = None,
    finetune_epochs: Count = 1,
    finetune_steps: Count | None = None,
    **given: Unpack[Serving],
) -> Method:
    """FedAvg with fine-tuning: nodes average their models, then each fine-tunes the average on its own data.

    The trained and averaged models are those of `fedavg` with the same settings, bit for bit. Papers that compare with
    this baseline seldom state how long they fine-tune; the authors of Ditto take 40 steps (``finetune_steps=40``).

    Args:
        finetune_lr: Step size of fine-tuning. Default: that of training.
        finetune_epochs: Passes over a node's samples before evaluation.
        finetune_steps: Steps before evaluation, instead.
        part: Part of the model that is averaged; the whole model is fine-tuned.
    """
    local = fit(given)
    update = local.optimizer if finetune_lr is None else replace(local.optimizer, lr=finetune_lr)
    return Method(
        "fedavg_finetuned",
        local=local,
        **averaged(given),
        judge=FineTuned(replace(local, epochs=finetune_epochs, steps=finetune_steps, optimizer=update)),
    )
