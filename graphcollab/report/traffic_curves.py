"""Do nodes come to listen to their own cluster?"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.metrics import cluster_traffic
from graphcollab.report._style import MARKED, TEXT, legend_beside, looks, new_figure, over_rounds
from graphcollab.settings import checked

__all__ = ["traffic_curves"]


@checked
def traffic_curves(
    graphs: Mapping[str, Mapping[int, tuple[Tensor, Tensor]]],
    cluster: Tensor,
    downloaded: bool = False,
    title: str | None = None,
) -> Figure:
    """Draw over rounds which share of the models that nodes listen to comes from their own cluster.

    It is the mean over receivers, as `cluster_traffic` has it. The dotted line is the share that peers drawn at random
    have.

    Args:
        graphs: Edges j -> i and what i gave to j, by round, such as ``history.graphs``; by name of the method.
        cluster: The true cluster of each node.
        downloaded: Count every edge, also those of weight 0. Default: those with a weight above 0.
        title: Title of the figure.

    Shapes:
        graphs: [2, E] and [E] for each round.
        cluster: [K].

    Raises:
        ValueError: If there is no graph, or edges do not fit the nodes.

    Example:
        >>> edge_index, cluster = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]), torch.tensor([0, 0, 1])
        >>> figure = traffic_curves({"dac": {1: (edge_index, torch.ones(4))}}, cluster)
        >>> figure.axes[0].lines[0].get_ydata().tolist()
        [50.0]
    """
    if not graphs or not all(graphs.values()):
        counts = {name: len(rounds) for name, rounds in graphs.items()}
        raise ValueError(f"expected the graph of at least one round of each run, got {counts}: record with RecordGraph")
    figure = new_figure(6.4, 4.0 if title else 3.7, title)
    panel = figure.subplots()
    ends = {}
    for (name, rounds), look in zip(graphs.items(), looks(), strict=False):
        _, mean = cluster_traffic(rounds, cluster, downloaded)
        marker = look["marker"] if len(rounds) <= MARKED else ""
        share = (100 * mean).numpy()
        (line,) = panel.plot(sorted(rounds), share, marker=marker, markersize=4, linewidth=1.8, clip_on=False)
        line.set(color=look["color"], linestyle=look["linestyle"])
        ends[name] = (float(mean.nan_to_num(-1.0)[-1]), line)
    chance = _chance(cluster.cpu())
    ends["peers at random"] = (chance, panel.axhline(100 * chance, color=TEXT, linestyle=":", linewidth=1))
    legend_beside(panel, ends)
    panel.set_ylim(0, 100)
    over_rounds(panel, "heard from own cluster (%)")
    return figure


def _chance(cluster: Tensor) -> float:
    """Return the share of a node's peers that are of its cluster, mean over nodes."""
    size = cluster.unique(return_counts=True)[1].double()
    return float((size * (size - 1)).sum() / max(size.sum() * (size.sum() - 1), torch.tensor(1.0)))
