"""Did nodes find their peers? The graphs of several methods in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphcollab.metrics import (
    adjusted_rand_index,
    cluster_traffic,
    contact_counts,
    never_sampled,
    recovery_auc,
)
from graphcollab.report._text import mean_spread, text_table
from graphcollab.settings import Count, checked

__all__ = ["peer_table"]

Graphs = Mapping[int, tuple[Tensor, Tensor]]
COLUMNS = ("from own cluster (%)", "recovery AUC", "adjusted Rand", "never heard")


@checked
def peer_table(
    runs: Mapping[str, Sequence[Graphs]], cluster: Tensor, last: Count | None = None, markdown: bool = False
) -> str:
    """Return how well the graphs of methods show the true clusters, mean and standard deviation over runs.

    Of the last rounds: the share of the merged models that came from a receiver's own cluster (`cluster_traffic`, mean
    over rounds), and of the counts who listened to whom how often (`contact_counts`) the area under the ROC curve
    (`recovery_auc`, pairs that never met count 0) and the adjusted Rand index (`adjusted_rand_index`). Of the whole
    run: how many nodes nobody else ever listened to (`never_sampled`). Methods whose nodes listen to nobody have no
    values. The area is below 1 for nodes that find enough peers and stop looking for the others.

    Args:
        runs: For every method one graph by round, such as ``history.graphs``, for each seed.
        cluster: The true cluster of each node.
        last: How many of the recorded rounds count as the last ones. Default: a third of them, rounded up.
        markdown: Write the table in Markdown.

    Shapes:
        cluster: [K].

    Raises:
        ValueError: If there are no runs, a method has none, or ``last`` is smaller than 1.

    Example:
        >>> edge_index = torch.tensor([[1, 0, 3, 2], [0, 1, 2, 3]])
        >>> graphs = {1: (edge_index, torch.tensor([1.0, 1.0, 1.0, 0.0]))}
        >>> print(peer_table({"dac": [graphs]}, torch.tensor([0, 0, 1, 1])))
        method  from own cluster (%)  recovery AUC  adjusted Rand  never heard
        ------  --------------------  ------------  -------------  -----------
        dac                    100.0         0.875           1.00          1.0
    """
    if not runs or not all(runs.values()):
        raise ValueError(f"expected the graphs of at least one run of each method, got {_counts(runs)}")
    rows = []
    for name, seeds in runs.items():
        # [S, 4]
        values = torch.tensor([_measure(graphs, cluster, last) for graphs in seeds], dtype=torch.float64)
        columns = zip(values.T, (100.0, 1.0, 1.0, 1.0), (1, 3, 2, 1), strict=True)
        rows.append([name, *(mean_spread(scale * column, digits) for column, scale, digits in columns)])
    return text_table(["method", *COLUMNS], rows, markdown)


def _measure(graphs: Graphs, cluster: Tensor, last: int | None) -> list[float]:
    """Return the values of one run in the order of the columns."""
    count = math.ceil(len(graphs) / 3) if last is None else last
    late = {round_: graphs[round_] for round_ in sorted(graphs)[-count:]}
    edge_index, times = contact_counts(late, cluster.numel())
    if not times.numel():
        return [math.nan] * len(COLUMNS)
    share = float(cluster_traffic(late, cluster)[1].nanmean())
    area = recovery_auc(edge_index, times.double(), cluster.cpu())
    rand = adjusted_rand_index(edge_index, times.double(), cluster.cpu())
    return [share, area, rand, float(never_sampled(graphs, cluster.numel()).numel())]


def _counts(runs: Mapping[str, Sequence[Graphs]]) -> dict[str, int]:
    return {name: len(seeds) for name, seeds in runs.items()}
