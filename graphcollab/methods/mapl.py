"""MAPL: heterogeneous models that learn from each other's class prototypes, and learn which nodes to listen to."""

from __future__ import annotations

from typing import Unpack

from graphcollab._base.errors import ConflictError
from graphcollab._base.settings import Buffers, Natural, NonNegative, Positive
from graphcollab.components import ClassifierSimilarity, Exchange, Uniform
from graphcollab.engine import ImageAugment, Objective, SupervisedContrast, Views
from graphcollab.engine.contrastive import PrototypeContrast, PrototypeUniformity
from graphcollab.engine.views import Augment
from graphcollab.methods.declare import BETAS, Training, fit, method
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.transforms import Threshold, WithSelfLoops

NOTHING = 1e-12  # smaller weights are zero up to rounding
PUBLISHED_GRAPH = ClassifierSimilarity(lr=0.1, rule="sign", similarity="per_class", normalize=True, log_degree=False)
PUBLISHED: tuple[Objective, ...] = (
    SupervisedContrast(100.0, form="in"),
    PrototypeContrast(normalize=False),
    PrototypeUniformity("exp", 100.0),
)


@method(lr=1e-3, epochs=1, batch_size=64, optimizer="adam")
def mapl(
    *,
    warmup: Natural = 25,
    temperature: Positive | None = None,
    contrast: NonNegative = 1.0,
    prototype: NonNegative = 1.0,
    uniformity: NonNegative = 1.0,
    graph: ClassifierSimilarity | None = None,
    drop: bool | None = None,
    augment: Augment | None = ImageAugment(),  # noqa: B008
    keep_state: bool = False,
    published: bool = False,
    part: str = "prototypes",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method | Phases:
    r"""MAPL: nodes with models of any architecture share class prototypes along a graph learned from their classifiers.

    `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ (Mukherjee et al., 2024),
    algorithm 3. In every round a node

    1. trains backbone, projection, classifier and its own class prototypes ξ on two augmented views of samples, with

       .. math::
           \ell = \ell_\text{ce} + \ell_\text{cont} + \ell_\text{proto} + \ell_\text{uni}

       (`SupervisedContrast`, `PrototypeContrast`, `PrototypeUniformity`);
    2. after ``warmup`` rounds, receives its neighbors' classifiers and takes a step on its weights by them
       (`ClassifierSimilarity`);
    3. receives its neighbors' prototypes, :math:`\xi_i \leftarrow \sum_{j \in \{i\} \cup N_i} w_{ij} \xi_j`, with the
       new weights; nodes with zero weight are permanently removed from the neighbors.

    Initially all nodes listen to all others, with equal weights. Models are `graphcollab.models.SplitModel` or any
    models with parts ``prototypes`` and ``head`` of common shapes whose ``forward(inputs, embed=True)`` returns
    latents; everything else in the architectures may differ. ``mapl(part="backbone+prototypes")`` is MAPL+, for nodes
    with the same architecture, which mixes backbones as well.

    Differences from the paper, besides those that the pieces document themselves:

    - All losses are means over the views of a batch. The paper has a sum in the cross-entropy and the contrastive loss
      and a mean in the prototypes' loss, which is ``mapl(prototype=1 / Q, uniformity=1 / Q)`` with the 2 B views Q of a
      batch (a common factor has no effect with Adam).
    - The defaults are for 100 rounds of small models. The paper's are ``mapl(lr=1e-4, warmup=100, temperature=100)``,
      for 400 rounds and networks such as ResNet-18 with 300 images a class. At the paper's temperature cosines have
      hardly any effect: gradients of both contrastive losses are about 1000 times smaller than at 0.1
      (docs/different_models.md).
    - ``published=True`` computes what the authors' code does: the contrastive loss in the form ``"in"`` at temperature
      100, unnormalized prototypes at temperature 1, uniformity by exponentials, the sign steps of
      `ClassifierSimilarity`, and neighbors that are never dropped: they keep sending their classifiers, which costs
      bytes, although edges of weight 0 are not counted as messages. Its augmentation has no blur and weaker colors:
      ``augment=ImageAugment(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05, blur=0.0)``.
    - Adam's betas are 0.5 and 0.999, as in the authors' code.

    Args:
        batch_size: Samples per step; each is seen in two views.
        warmup: Rounds before weights are learned (the paper's T_thr), while classifiers are not yet informative. Runs
            must be longer.
        temperature: τ of both contrastive losses. Default: 0.5.
        contrast: Weight of the supervised contrastive loss; 0 disables it.
        prototype: Weight of the prototypes' loss.
        uniformity: Weight of the uniformity loss.
        graph: How weights are learned. Default: ``ClassifierSimilarity()``.
        drop: Drop neighbors whose weight has become zero. Default: True, as in the paper; False with ``published``.
        augment: Function that makes a view of a sample. Default: the paper's, for images; it also mirrors images, which
            does not suit digits (``ImageAugment(flip=0.0)``), and short runs benefit from larger crops. For other
            samples pass `AddNoise`, a function, or None: views are the samples themselves.
        keep_state: Keep the optimizer's state from round to round; the authors reset it.
        published: Compute as the authors' code does, with its own temperature and graph: neither may be given.
    """
    if published and (graph is not None or temperature is not None):
        raise ConflictError(
            "published", "published=True has a temperature and a graph of its own: give neither, or published=False"
        )
    tau = 0.5 if temperature is None else temperature
    terms = PUBLISHED if published else (SupervisedContrast(tau), PrototypeContrast(tau), PrototypeUniformity())
    weights = contrast, prototype, uniformity
    scaled = [term if weight == 1 else weight * term for weight, term in zip(weights, terms, strict=True) if weight]
    objective = sum(scaled[1:], scaled[0]) if scaled else None
    local = fit(training, BETAS, objective=objective, keep_state=keep_state, views=Views(augment, 2))
    whole = part == "all" or "backbone" in part.split("+")
    first = Method(
        "mapl+" if whole else "mapl",
        local=local,
        weigh=Uniform(),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
    learning = first.replace(weigh=PUBLISHED_GRAPH if published else graph or ClassifierSimilarity())
    if (not published) if drop is None else drop:
        learning = learning.replace(rewire=Threshold(NOTHING))
    return Phases(first, warmup, learning) if warmup else learning
