"""Distances between the nodes' tasks, from cluster centers of their encoded samples."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from graphcollab._base.errors import ContractError, MissingError, NotFiniteError
from graphcollab._base.keyed import keyed_seed
from graphcollab.data.tasks import Tasks
from graphcollab.nn.functional.distances import matching_distances

Encoder = Callable[[Tensor], Tensor]
"""Function from samples [n, ...] to codes [n, D]."""

Reduce = Literal["pca"] | Callable[[Any], Any]
"""``"pca"``, or a function of a NumPy array [n, D] that returns one [n, D'], such as ``umap.UMAP().fit_transform``."""

_CLUSTER_STREAM = 130
_LIMIT = threading.Lock()
RESTARTS = 10  # k-means keeps the best of these; with only one, nodes with the same task seem far apart
BATCH = 1024


@torch.no_grad()
def code_centers(tasks: Tasks, encoder: Encoder | None = None, count: int | None = None, seed: int = 0) -> Tensor:
    """Cluster the codes of every node's training samples by k-means: [K, C, D], float64, padded by NaN.

    By default samples are their own codes, flattened, and a node has as many centers as classes (2 if targets are not
    labels), or fewer if it has fewer distinct codes. Samples of weight 0 are left out. The seed and a node's identity
    determine the start of k-means. A ValueError rejects codes that are not one finite row per sample, or integers
    without an encoder.
    """
    split = tasks.splits["train"]
    pool = tasks.pools[split.pool]
    if encoder is None and not pool.inputs.is_floating_point():
        raise MissingError(
            "encoder", f"samples are {pool.inputs.dtype}, which are no codes to compare: give an encoder"
        )
    if isinstance(encoder, nn.Module):
        encoder = copy.deepcopy(encoder).to(tasks.device).eval()
    labeled = tasks.classes is not None
    found = []
    for node, name in enumerate(tasks.names):
        index, weight = split.of(node), None
        if pool.weight is not None:
            index = index[(pool.weight[index] > 0).cpu()]
            weight = pool.weight[index].cpu().numpy()
        codes = _encode(encoder, pool.inputs, index, name)
        many = (len(pool.targets[index].unique()) if labeled else 2) if count is None else count
        found.append(_cluster(codes, many, keyed_seed(seed, _CLUSTER_STREAM, int(tasks.ids[node])), weight))
    padded: Tensor = nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=torch.nan)
    return padded


def center_distances(centers: Tensor, reduce: Reduce | None = None) -> tuple[Tensor, Tensor, float]:
    """Return the distances between nodes, [K, K] each, given their centers [K, C, D], see `code_centers`.

    The first are root mean squares over matched centers. The second are those of the authors' code, divided by the
    number n of matched centers where a root mean square divides by √n. The last value is the root mean square distance
    of a center to the nearest other center of its own node, NaN if no node has two.
    """
    there = ~centers[..., 0].isnan()
    sizes = there.sum(1).cpu()
    points = _reduced(centers[there].double().cpu(), reduce)
    distance = matching_distances(points, sizes)
    matched = torch.minimum(sizes[:, None], sizes)
    spacing = torch.stack([_spacing(own) for own in points.split(sizes.tolist())])
    return distance, distance / matched.sqrt(), float(spacing.nanmean().sqrt())


def _encode(encoder: Encoder | None, inputs: Tensor, index: Tensor, name: str) -> Tensor:
    """Return the codes of a node's samples, [n, D]."""
    if encoder is None:
        return inputs[index].flatten(1).double().cpu()
    pieces = [encoder(inputs[some]) for some in index.split(BATCH)]
    for piece, some in zip(pieces, map(len, index.split(BATCH)), strict=True):
        if not isinstance(piece, Tensor) or piece.dim() != 2 or len(piece) != some:
            shape = tuple(piece.shape) if isinstance(piece, Tensor) else type(piece).__name__
            raise ContractError("encoder", f"the encoder must turn {some} samples into codes [{some}, D], got {shape}")
    codes = torch.cat(pieces).double().cpu()
    if not bool(torch.isfinite(codes).all()):
        raise NotFiniteError(f"node {name!r}", f"the encoder's codes of the samples of {name!r} are not finite")
    return codes


@functools.cache
def _threads() -> Any:
    """Return a controller of the threads of all libraries loaded once scikit-learn is, since it searches for them."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def _cluster(codes: Tensor, count: int, seed: int, weight: np.ndarray | None) -> Tensor:
    """Return the centers of k-means, [C, D]."""
    from sklearn.cluster import KMeans  # imported here, since it is slow to import

    values = codes.numpy()
    count = min(count, len(np.unique(values, axis=0)))
    # Several threads would sum in a different order every time. The limit is process-wide: one user at a time.
    with _LIMIT, _threads().limit(limits=1):
        fitted = KMeans(count, n_init=RESTARTS, random_state=seed % 2**32).fit(values, sample_weight=weight)
    return torch.from_numpy(fitted.cluster_centers_)


def _reduced(points: Tensor, reduce: Reduce | None) -> Tensor:
    """Return the points to compare, [M, D']."""
    if reduce is None or len(points) < 2:
        return points
    if callable(reduce):
        made = torch.as_tensor(np.asarray(reduce(points.numpy())))
    else:
        from sklearn.decomposition import PCA

        made = torch.from_numpy(PCA(min(2, *points.shape), random_state=0).fit_transform(points.numpy()))
    if made.dim() != 2 or len(made) != len(points) or not bool(torch.isfinite(made).all()):
        raise ContractError(
            "reduce",
            f"reduce must turn {len(points)} codes into finite rows [{len(points)}, D], got {tuple(made.shape)}",
        )
    return made.double()


def _spacing(points: Tensor) -> Tensor:
    """Return the mean squared distance of a node's centers to the nearest other one; NaN if it has only one."""
    if len(points) < 2:
        return points.new_tensor(torch.nan)
    apart = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    return apart.amin(1).square().mean()
