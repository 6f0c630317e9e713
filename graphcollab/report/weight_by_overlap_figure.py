"""Do nodes listen to those with the same classes? (Fig. 7 of L2C)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from graphcollab.metrics import weight_by_overlap
from graphcollab.report._style import COLOURS, new_figure, quiet, tidy
from graphcollab.settings import checked

__all__ = ["weight_by_overlap_figure"]


@checked
def weight_by_overlap_figure(
    graphs: Mapping[str, tuple[Tensor, Tensor]], classes: Tensor, title: str | None = None
) -> Figure:
    """Draw mean mixing weights against the number of classes that two nodes share, methods side by side.

    It is Fig. 7 of
    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_.
    All ordered pairs of different nodes count, those without an edge with weight 0. Bars reach one standard deviation
    over pairs up and down, but not below 0. The dashed line is the mean weight of all pairs: where a method knows
    nothing, every mean lies on it.

    Args:
        graphs: Edges j -> i and what i gives to j, by the name of the panel.
        classes: Which classes each node has, such as ``tasks.classes``.
        title: Title of the whole figure.

    Shapes:
        graphs: [2, E] and [E] for each name.
        classes: [K, C], bool.

    Raises:
        ValueError: If there is no graph, or edges do not fit the nodes.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[1, 2, 0], [0, 0, 1]])
        >>> classes = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 1]]).bool()
        >>> figure = weight_by_overlap_figure({"l2c": (edge_index, torch.tensor([0.8, 0.2, 0.6]))}, classes)
        >>> figure.axes[0].get_title()
        'l2c'
    """
    if not graphs:
        raise ValueError("expected the graph of at least one method, got none")
    figure = new_figure(2.9 * len(graphs) + 0.8, 3.7 if title else 3.4, title)
    panels = figure.subplots(1, len(graphs), squeeze=False, sharey=True)[0]
    for panel, (name, (edge_index, edge_weight)) in zip(panels, graphs.items(), strict=True):
        found = weight_by_overlap(edge_index.cpu(), edge_weight.cpu(), classes.cpu())
        overlap, mean, std = (values.numpy() for values in (found.overlap, found.mean, found.std))
        below = std.clip(max=mean.clip(min=0)) if (mean >= 0).all() else std
        panel.errorbar(
            overlap, mean, [below, std], color=COLOURS[0], marker="o", capsize=4, linewidth=1.8, elinewidth=1
        )
        overall = float((found.mean * found.pairs).sum() / found.pairs.sum())
        panel.axhline(overall, color=COLOURS[1], linestyle="--", linewidth=1, label="all pairs")
        panel.set(title=name, xlabel="shared classes\n(number of pairs)", xmargin=0.12)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xticks(overlap, [f"{o}\n({p:,})" for o, p in zip(overlap, found.pairs.tolist(), strict=True)])
        tidy(panel)
    panels[0].set_ylabel("mixing weight (mean ± std)")
    panels[0].legend(fontsize=9, frameon=False, loc="upper left")
    quiet(panels[0])
    return figure
