"""Linear regression with one coefficient vector per cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from graphcollab._base.keyed import keyed_normal, keyed_uniform
from graphcollab._base.settings import Count, Natural, NonNegative, Seed, checked
from graphcollab.data._builders import TaskFields
from graphcollab.data.partition._deal import assemble, builder, check_clusters, clusters_of
from graphcollab.data.samples import Pool
from graphcollab.data.tasks import Tasks

_TRUTH_STREAM, _SAMPLE_STREAM = 112, 113
_RANGE = 10.0  # inputs and coefficients are in [-_RANGE, _RANGE]


@checked
def linear_regression_truth(clusters: Count = 3, dim: Count = 10, seed: Seed = 0) -> Tensor:
    """Return the true coefficients of `linear_regression_tasks` with the same arguments, [clusters, dim], float64."""
    return 2 * _RANGE * keyed_uniform(seed, _TRUTH_STREAM, torch.arange(clusters)[:, None], torch.arange(dim)) - _RANGE


@builder
def linear_regression_tasks(
    nodes: Sequence[Count] = (33, 33, 33),
    dim: Count = 10,
    train: Count = 50,
    val: Natural = 100,
    test: Natural = 500,
    noise: NonNegative = 3.0,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    r"""Make the synthetic problem of adversarial clusters: linear regression with different coefficients per cluster.

    Section 3.1.3 of *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies*
    (Hagander and Ihre-Thomason, Lund University, 2024):

    .. math:: y = \langle x, \theta^*_c \rangle + \sigma \varepsilon

    with :math:`x` uniform in :math:`[-10, 10]^d`, :math:`\varepsilon` standard normal and :math:`\theta^*_c` likewise
    uniform for every cluster c. No model does better than :math:`\sigma^2` on average. The text does not give
    :math:`\sigma` or the range of :math:`\theta^*_c`; the values are those of the published implementation.

    Every number is a function of the seed, the cluster, the node's position in it, the split and the sample alone.

    Args:
        dim: d, the number of input features.
        train: Training samples of a node.
        val: Validation samples of a node.
        test: Test samples of a node.
        noise: :math:`\sigma`, standard deviation of the noise.
        kwargs: ``names``, ``node_id``, and ``loss`` and ``metric``, which default to the mean squared error.

    Shapes:
        Inputs: [N, d]; targets: [N], for models with one output [B, 1] or [B].
    """
    check_clusters(nodes, len(nodes), "nodes")
    truth = linear_regression_truth(len(nodes), dim, seed)
    cluster = clusters_of(nodes)
    place = torch.cat([torch.arange(many) for many in nodes])
    pools, samples = {}, {}
    for s, (name, count) in enumerate((("train", train), ("val", val), ("test", test))):
        keys = seed, _SAMPLE_STREAM, s, cluster[:, None, None], place[:, None, None], torch.arange(count)[:, None]
        x = _RANGE * (2 * keyed_uniform(*keys, torch.arange(dim)) - 1)  # [K, n, d]
        y = (x * truth[cluster][:, None]).sum(-1) + noise * keyed_normal(*keys, dim)[..., 0]  # [K, n]
        pools[name] = Pool(x.flatten(0, 1).float(), y.flatten().float())
        samples[name] = (name, list(torch.arange(y.numel()).view(len(cluster), count)))
    return assemble(pools, samples, cluster, **{"loss": "mse", "metric": "mse", **kwargs})
