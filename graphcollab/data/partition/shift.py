"""Clusters of nodes whose samples differ in a known way: in their inputs, their labels, or the meaning of labels.

The thesis is *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies*
(Hagander and Ihre-Thomason, Lund University, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Unpack

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab._base.errors import ContractError, ShapeError, TooManyError
from graphcollab._base.keyed import keyed_order
from graphcollab._base.settings import Count, Finite, Natural, Seed, Share
from graphcollab.data._builders import TaskFields
from graphcollab.data.datasets.labeled_arrays import LabeledArrays, label_starts
from graphcollab.data.partition._deal import (
    builder,
    check_clusters,
    deal,
    stored_apart,
)
from graphcollab.data.tasks import Tasks

_LABEL_STREAM, _FRACTION_STREAM = 131, 132


def rotate(images: Tensor, angle: float, fill: Tensor | float = 0.0) -> Tensor:
    """Rotate floating-point images [N, C, H, W] counterclockwise; ``fill`` [C, 1, 1] is the value outside of them."""
    _refuse_other_than_images(images)
    if not images.is_floating_point():
        raise ShapeError(
            "inputs", f"rotation needs images as floating-point numbers, got {images.dtype}: convert them by .float()"
        )
    height, width = images.shape[2:]
    turns, rest = divmod(angle % 360, 90)
    if rest == 0:
        if turns % 2 and height != width:
            raise ShapeError(
                "inputs", f"rotating by {angle} degrees needs square images, got {height} x {width} pixels"
            )
        return images.rot90(int(turns), (2, 3))
    # theta [1, 2, 3] maps output to input coordinates; both run from -1 to 1, with y pointing down
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    theta = images.new_tensor([[[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]]])
    grid = F.affine_grid(theta, [1, 1, height, width], align_corners=False).expand(len(images), -1, -1, -1)
    return F.grid_sample(images - fill, grid, padding_mode="zeros", align_corners=False) + fill


def _refuse_other_than_images(inputs: Tensor) -> None:
    if inputs.dim() != 4:
        raise ShapeError("inputs", f"rotation needs images [N, C, H, W], got inputs of shape {tuple(inputs.shape)}")


@builder
def covariate_shift(
    data: LabeledArrays,
    transforms: Sequence[Callable[[Tensor], Tensor]],
    nodes: Sequence[Count],
    train: Count | None = 500,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Transform the inputs of every cluster of nodes in its own way; labels are unchanged.

    Samples are drawn at random from the whole dataset and belong to one node each; those of the k-th node depend on the
    seed and k alone. Only dealt samples are transformed, a cluster's test samples once for all its nodes.

    Args:
        transforms: Input transformation of every cluster: a function of inputs [N, ...] that keeps their shape.
    """
    check_clusters(nodes, len(transforms), "transforms")
    own, held = deal(torch.arange(len(data.train)), sum(nodes), train, val, seed, "the dataset")
    ends = list(accumulate(nodes))
    shares = [(own[end - many : end], held[end - many : end]) for end, many in zip(ends, nodes, strict=True)]

    def change(cluster: int, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        new = transforms[cluster](inputs) if len(inputs) else inputs
        if new.shape != inputs.shape:
            raise ContractError(
                f"cluster {cluster}",
                f"the transform of cluster {cluster} must keep the shape {list(inputs.shape)}, got {list(new.shape)}",
            )
        return new, targets

    return stored_apart([data] * len(nodes), shares, change, test, seed, **kwargs)


@builder
def rotation_shift(
    data: LabeledArrays,
    angles: Sequence[Finite] = (0, 180, 10, 350),
    nodes: Sequence[Count] = (70, 20, 5, 5),
    train: Count | None = 500,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Rotate the images of every cluster of nodes by its own angle, counterclockwise; see `covariate_shift`.

    Section 3.1.4 of the thesis of Hagander and Ihre-Thomason (2024), whose setting is the default: Fashion-MNIST at 0,
    180, 10 and 350 degrees with 70, 20, 5 and 5 nodes. The text specifies neither direction nor interpolation. Here,
    multiples of 90 degrees permute pixels, and other angles interpolate bilinearly. Uncovered corners get the smallest
    training value of every channel, which is black even if images have been standardized (0 would be gray).

    Args:
        data: Images [N, C, H, W] with labels.
        angles: Rotation angle of every cluster in degrees.
    """
    _refuse_other_than_images(data.train.inputs)
    black = data.train.inputs.amin((0, 2, 3))[:, None, None]
    turns = [partial(rotate, angle=angle, fill=black) for angle in angles]
    return covariate_shift(data, turns, nodes, train, val, test, seed, **kwargs)


@builder
def concept_shift(
    sources: Sequence[LabeledArrays],
    nodes: Sequence[Count],
    train: Count | None = 400,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Give every cluster of nodes its own dataset with its own labels.

    Section 3.1.5 of the thesis of Hagander and Ihre-Thomason (2024): ``sources=(mnist, fashion_mnist)`` with 50 nodes
    each gives 20 labels, MNIST's own and Fashion-MNIST's shifted up by 10. All nodes need a model with an output for
    every label of every source, since they do not know their cluster.

    The samples of the m-th node of a cluster depend on the seed, the source and m alone. Only dealt samples are copied.

    Args:
        sources: The dataset of every cluster, all with the same input shape. Labels of a source are shifted up by the
            number of classes of those before it.
    """
    check_clusters(nodes, len(sources), "sources")
    starts = label_starts(sources)
    sizes = zip([len(source.train) for source in sources], nodes, strict=True)
    shares = [deal(torch.arange(n), many, train, val, seed, f"source {c}") for c, (n, many) in enumerate(sizes)]
    return stored_apart(sources, shares, lambda c, x, y: (x, y + starts[c]), test, seed, **kwargs)


def label_permutations(classes: int, clusters: int, seed: int = 0) -> Tensor:
    """Return the label of every class in every cluster, [M, C], for at most C clusters."""
    if clusters > classes:
        raise TooManyError(
            "clusters",
            f"{clusters} clusters cannot give each of {classes} classes different labels: use at most {classes}",
        )
    sigma, tau, shift = (keyed_order(seed, _LABEL_STREAM, kind, torch.arange(classes)) for kind in range(3))
    return tau[(sigma + shift[:clusters, None]) % classes]  # [M, C]


@builder
def permuted_labels(
    data: LabeledArrays,
    nodes: Sequence[Count] = (2, 2, 2, 2),
    train: Count | None = None,
    val: Natural = 100,
    test: Natural | None = None,
    fraction: Share = 1.0,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    r"""Give every cluster of nodes the whole dataset with a cluster-specific permutation of its labels.

    The cross-silo task of section 4.1 of `CoBo: Collaborative Learning via Bilevel Optimization
    <https://arxiv.org/abs/2409.05539>`_ (Hashemi et al., NeurIPS 2024). A common model performs poorly, since clusters
    contradict each other in every class; nodes of a cluster benefit from each other's samples, which are divided among
    them at random. The article's setting is the default, on CIFAR-100 and without validation samples (``val=0``); its
    Fig. 2(a) varies ``fraction``, the number of clusters (``nodes=(2,) * clusters``) and their size
    (``nodes=(size,) * 4``). It asks for unique labels for each class across all clusters, which random permutations do
    not give. Here, cluster m gives class c the label :math:`\tau((\sigma(c) + s_m) \bmod C)`, where :math:`\sigma` and
    :math:`\tau` are random permutations and :math:`s_m` are distinct random shifts.

    Inputs are copied for every cluster; of training and validation samples, only the dealt ones.

    Args:
        fraction: Share of the training samples used. The samples are the same in every cluster, and a subset of those
            for a larger share.
    """
    check_clusters(nodes, len(nodes), "label permutations")
    labels = label_permutations(data.num_classes, len(nodes), seed)
    used = keyed_order(seed, _FRACTION_STREAM, torch.arange(len(data.train)))
    used = used[: round(fraction * len(used))]
    shares = [deal(used, many, train, val, seed, f"cluster {c}", c) for c, many in enumerate(nodes)]
    return stored_apart([data] * len(nodes), shares, lambda c, x, y: (x, labels[c][y]), test, seed, **kwargs)
