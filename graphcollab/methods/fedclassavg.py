"""FedClassAvg: nodes average only their classifiers."""

from __future__ import annotations

from typing import Unpack

from graphcollab._base.settings import NonNegative, Positive
from graphcollab.components.judge import Judge
from graphcollab.engine import ImageAugment, Objective, Proximal, SupervisedContrast, Views
from graphcollab.engine.views import Augment
from graphcollab.methods.declare import BETAS, Serving, averaged, fit, method
from graphcollab.methods.method import Method


@method(lr=1e-4, epochs=1, batch_size=64, optimizer="adam", part="head", buffers="keep")
def fedclassavg(
    *,
    mu: NonNegative = 0.1,
    contrast: NonNegative = 0.1,
    temperature: Positive = 0.1,
    normalize: bool = True,
    augment: Augment | None = ImageAugment(blur=0.0),  # noqa: B008
    **given: Unpack[Serving],
) -> Method:
    r"""FedClassAvg: nodes with models of any architecture average their classifiers.

    `FedClassAvg: Local Representation Learning for Personalized Federated Learning on Heterogeneous Neural Networks
    (Jang et al., ICPP 2022) <https://arxiv.org/abs/2210.14226>`_. With :math:`C_i` the classifier of node i and
    :math:`\bar C` the classifier at the start of the round:

    .. math::
        \ell_i = \ell_\text{ce}(\text{view 1}) + \kappa \, \ell_\text{cont}(\text{views 1, 2})
            + \frac{\mu}{2} \lVert C_i - \bar C \rVert^2, \qquad
        \bar C \leftarrow \sum_i \frac{n_i}{\sum_j n_j} C_i

    over the participating nodes, through a server. Backbones are never sent. Latents, which the supervised contrastive
    loss compares, must have the same size in all models (`graphcollab.models.SplitModel`).

    Differences from the authors' code:

    - That code has :math:`\kappa = 100 / 0.07`, temperature 100 and latents that are not normalized, which is
      ``fedclassavg(contrast=100 / 0.07, temperature=100, normalize=False)``. The contrastive loss then dominates the
      cross-entropy, at least with small networks and few steps (docs/different_models.md).
    - Its proximal term averages over the entries of the classifier's weight, and of its bias, instead of summing. This
      is about :math:`\mu / (C d_z)` in place of μ, and has hardly any effect.
    - Its latents are those before the ReLU at the start of its classifier; in a `SplitModel` with ``latent``, that ReLU
      ends the backbone.
    - It runs a pass of local training before its first round and then resets the classifiers to their initial values.
      Here the same training in the first round is followed by averaging.

    As in that code, nodes are evaluated with the classifiers they trained last, before averaging (`Judge`), and Adam's
    betas are 0.5 and 0.999.

    Args:
        lr: Step size: the authors' value for CIFAR-10; for Fashion-MNIST they use 6e-4. 1e-3 suits small networks.
        batch_size: Samples per step; each is seen in two views.
        mu: μ, the pull towards the classifier at the start of the round.
        contrast: κ, the weight of the supervised contrastive loss; 0 disables it.
        temperature: τ of that loss.
        normalize: Compare cosines of latents; False: inner products.
        augment: Function that makes a view of a sample. Default: the authors', for images. For other samples pass
            `graphcollab.engine.AddNoise`, a function, or None: views are the samples themselves.
        part: The classifier: the part of the model that is averaged and pulled.
    """
    terms: list[Objective] = [Proximal(mu, given["part"])] if mu else []
    if contrast:
        terms.append(contrast * SupervisedContrast(temperature, normalize=normalize, of="latent"))
    objective = sum(terms[1:], terms[0]) if terms else None
    return Method(
        "fedclassavg",
        local=fit(given, BETAS, objective=objective, views=Views(augment, 2), first_view=True),
        **averaged(given),
        judge=Judge(field="x_local"),
    )
