"""FedClassAvg: nodes average their classifiers, and nothing else."""

from __future__ import annotations

import math

from graphcollab.engine import Adam, Augment, ImageAugment, Objective, Proximal, SupervisedContrast, Views
from graphcollab.exchange import Exchange, ThroughServer
from graphcollab.judge import JudgedBy
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.rewire.sample_nodes import sample_nodes

__all__ = ["fedclassavg"]


def fedclassavg(
    mu: float = 0.1,
    contrast: float = 0.1,
    temperature: float = 0.1,
    normalize: bool = True,
    epochs: int = 1,
    steps: int | None = None,
    lr: float = 1e-4,
    weight_decay: float = 0.0,
    batch_size: int = 64,
    fraction: float = 1.0,
    augment: Augment | None = ImageAugment(blur=0.0),  # noqa: B008
    weights: str = "counts",
    part: str = "head",
    buffers: str = "keep",
    incomplete: str = "refuse",
) -> Method:
    r"""FedClassAvg: nodes with models of any architecture average their classifiers.

    `FedClassAvg: Local Representation Learning for Personalized Federated Learning on Heterogeneous Neural Networks
    (Jang et al., ICPP 2022) <https://arxiv.org/abs/2210.14226>`_. With :math:`C_i` the classifier of node i, and
    :math:`\bar C` the one that the round began with:

    .. math::
        \ell_i = \ell_\text{ce}(\text{view 1}) + \kappa \, \ell_\text{cont}(\text{views 1, 2})
            + \frac{\mu}{2} \lVert C_i - \bar C \rVert^2, \qquad
        \bar C \leftarrow \sum_i \frac{n_i}{\sum_j n_j} C_i

    over the nodes at work, through a server. Latents, which the supervised contrastive loss compares, must have the
    same size in all models (`graphcollab.models.SplitModel`); backbones are never sent.

    Where it differs from the authors' code:

    - That has :math:`\kappa = 100 / 0.07`, temperature 100 and latents that are not normalised, which is
      ``fedclassavg(contrast=100 / 0.07, temperature=100, normalize=False)``. The contrastive loss then drowns the
      cross-entropy, at least where networks are small and steps few: on digits, with ten classes in two overlapping
      clusters of nodes, test accuracy was 62 % after 240 rounds (1200 steps), 94 % without the contrastive loss, and
      95 % with the defaults here, which are cosines at temperature 0.1 with a weight of 0.1.
    - Its proximal term has a mean over the entries of the classifier's weight, and of its bias, in place of a sum. That
      is about :math:`\mu / (C d_z)` in place of μ, and hardly acts.
    - Its latents are those before the ReLU that its classifier begins with; in a `SplitModel` with ``latent`` that ReLU
      ends the backbone.
    - A pass of local training comes before its first round, after which classifiers are set back to their beginning. In
      the first round here the same training is followed by averaging.

    As there, nodes are judged by the classifiers that they trained last, before averaging (`JudgedBy`).

    Args:
        mu: μ, the pull towards the classifier that the round began with.
        contrast: κ, the weight of the supervised contrastive loss; 0 leaves it out.
        temperature: τ of that loss.
        normalize: Compare cosines of latents; False: inner products.
        epochs: Passes over a node's samples per round.
        steps: Local steps per round, instead of ``epochs``.
        lr: Step size of Adam, whose betas are 0.5 and 0.999. The authors' is for CIFAR-10; they have 6e-4 for
            Fashion-MNIST. Small networks learn faster with 1e-3.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step; each is seen in two views.
        fraction: Share of the nodes that works in a round (client sampling).
        augment: What makes a view of a sample. Default: the authors', for images. For other samples give
            `graphcollab.engine.AddNoise`, a function, or None: views are the samples themselves.
        weights: ``"counts"``: a node counts by its training samples; ``"uniform"``: all nodes count alike.
        part: The classifier: the part of the model that is averaged and pulled.
        buffers: ``"keep"`` or ``"mix"`` running statistics.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, nodes of a connected component are averaged
            although not all of them may hear each other.

    Raises:
        ValueError: If a setting is out of its range.

    Example:
        >>> fedclassavg(contrast=0.0).local.objective
        Proximal(mu=0.1, part='head')
    """
    for name, weight in (("mu", mu), ("contrast", contrast)):
        if not 0 <= weight < math.inf:
            raise ValueError(f"{name} must be a finite number that is not negative, got {weight}")
    terms: list[Objective] = [Proximal(mu, part)] if mu else []
    if contrast:
        terms.append(contrast * SupervisedContrast(temperature, normalize=normalize, of="latent"))
    return Method(
        "fedclassavg",
        local=Fit(
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            optimizer=Adam(lr=lr, betas=(0.5, 0.999), weight_decay=weight_decay),
            objective=sum(terms[1:], terms[0]) if terms else None,
            views=Views(augment, 2),
            first_view=True,
        ),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughServer(weights, incomplete=incomplete)),
        rewire=sample_nodes(fraction),
        judge=JudgedBy("x_local"),
    )
