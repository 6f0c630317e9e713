"""The latents of nodes' models in two dimensions, as MAPL's Fig. 4 (c) has them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from torch import Tensor

from graphcollab._base.keyed import keyed_order
from graphcollab.engine import Rows
from graphcollab.report.figures._style import COLORS, figure_names, new_figure
from graphcollab.train import Result

MOST = 50  # samples of each node that are drawn
NAMED = 20  # entries of a legend at most
PERPLEXITY = 30.0  # neighbors that t-SNE attends to, about
SAMPLES, POINTS = 152, 153  # streams of random numbers


def latent_figure(result: Result) -> Figure:
    """Draw the latents that nodes' models have of their own test samples, colored by node and by class.

    It is Fig. 4 (c) of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_, with `t-SNE
    <https://www.jmlr.org/papers/v9/vandermaaten08a.html>`_ (van der Maaten and Hinton, 2008) from scikit-learn. The
    axes mean nothing; near points have similar latents. Where models of different nodes agree on their latents, samples
    of one class lie together whoever has them.
    """
    values, node, target = node_latents(result)
    names, start = result.tasks.names, "pca" if values.shape[1] > 1 else "random"
    made = TSNE(perplexity=min(PERPLEXITY, (len(values) - 1) / 3), init=start, random_state=0)
    place = torch.from_numpy(made.fit_transform(values.double().numpy()))  # [N, 2]
    figure = new_figure(9.6, 4.4)
    left, right = figure.subplots(1, 2)
    _scatter(left, place, node, {int(k): names[k] for k in node.unique()}, "nodes")
    _scatter(right, place, target, {int(c): str(int(c)) for c in target.unique()}, "classes")
    left.set(title="by node", xticks=[], yticks=[])
    right.set(title="by class", xticks=[], yticks=[])
    return figure


def node_latents(result: Result) -> tuple[Tensor, Tensor, Tensor]:
    """Return the latents of some test samples of each node, [N, d], whose these are, [N], and their targets, [N]."""
    tasks, found = result.tasks, {}
    for chunk in result.env.engine.predict(Rows.own(result.stacks), "test", embed=True):
        for r, node in enumerate(result.stacks.nodes[chunk.rows].tolist()):
            here = torch.arange(int(chunk.sizes[r]))
            drawn = keyed_order(0, SAMPLES, int(tasks.ids[node]), here)[:MOST].sort().values
            latent, target = chunk.latent[r].detach().cpu(), chunk.targets[r].cpu()
            found[node] = latent[drawn].flatten(1), torch.full((len(drawn),), node), target[drawn]
    values, owner, targets = (torch.cat(column) for column in zip(*(found[k] for k in sorted(found)), strict=True))
    return values, owner, targets


def _scatter(panel: Axes, place: Tensor, group: Tensor, names: Mapping[int, str], what: str) -> None:
    """Draw points colored by group, in random order, so that no group hides another, and name the groups if few."""
    many = len(names) > len(COLORS)
    colors = colormaps["turbo"].resampled(len(names)) if many else ListedColormap(COLORS[: len(names)])
    order = keyed_order(POINTS, torch.arange(len(place)))
    x, y = place[order].T.numpy()
    number = {one: n for n, one in enumerate(names)}
    points = panel.scatter(x, y, c=[number[one] for one in group[order].tolist()], cmap=colors, s=10, linewidths=0)
    if len(names) > NAMED:
        panel.set_xlabel(f"{len(names)} {what}")
        return
    marks, _ = points.legend_elements(num=None)
    panel.legend(marks, figure_names([*names.values()]), frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
