"""Latents of nodes' models in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from graphcollab.errors import InvalidValueError, MissingError, NotFiniteError, ShapeError, TooFewError
from graphcollab.keyed import keyed_order, keyed_seed
from graphcollab.metrics import node_latents
from graphcollab.report._text import shown
from graphcollab.report.figures._style import COLOURS, GRID, figure_names, new_figure, quiet
from graphcollab.settings import Count, Seed
from graphcollab.train import Result

__all__ = ["latent_figure"]

_TSNE_STREAM = 153
NAMED = 20  # entries of a legend at most
PERPLEXITY = 30.0  # neighbors that t-SNE attends to, about
FEWEST = 4  # samples that t-SNE can place


@shown
def latent_figure(
    result: Result,
    split: str = "test",
    per_node: Count | None = 50,
    of: Literal["latent", "projection"] = "latent",
    by: Literal["node", "cluster"] = "node",
    seed: Seed = 0,
    title: str | None = None,
) -> Figure:
    """Draw the latents that nodes' models have of their own samples in two dimensions, coloured by node and by class.

    It is Fig. 4 (c) of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_, with `t-SNE
    <https://www.jmlr.org/papers/v9/vandermaaten08a.html>`_ (van der Maaten and Hinton, 2008) from scikit-learn. The
    axes mean nothing; near points have similar latents. Where models of different nodes agree on their latents, samples
    of one class lie together whoever has them; else every node's samples lie apart.

    Args:
        result: What `run` returns; its models must have latents, see `graphcollab.metrics.node_latents`.
        by: Colours of the left panel: ``"node"``, or ``"cluster"``, the true one.
        seed: Seed of the draw and of t-SNE.

    Raises:
        ValueError: If models have no latents that can be compared, there are too few samples, latents are not finite or
            all the same, targets are no classes, or clusters are asked for and not known.
    """
    tasks = result.tasks
    if by == "cluster" and tasks.cluster is None:
        raise MissingError("cluster", "true clusters are not known: give Tasks(..., cluster=...), or use by='node'")
    found = node_latents(result.env.engine, result.stacks, split, per_node, of, seed)
    values, node, target = (some.cpu() for some in found)
    if target.is_floating_point() or target.dim() > 1:
        raise ShapeError("targets", f"targets must be classes, [N] integers, got {target.dtype} {list(target.shape)}")
    bad = node[(~values.isfinite()).any(1)].tolist()
    if bad:
        raise NotFiniteError(
            f"node {tasks.names[bad[0]]!r}",
            f"a latent of {tasks.names[bad[0]]!r} is NaN or infinite: train with a smaller step size",
        )
    if len(values) < FEWEST:
        raise TooFewError(
            "split", f"t-SNE needs at least {FEWEST} samples, got {len(values)}: use more nodes or another split"
        )
    if bool((values == values[0]).all()):
        raise InvalidValueError(
            "result", "all latents are the same, so there is nothing to draw: are the models trained?"
        )
    from sklearn.manifold import TSNE  # here, since importing it takes long

    made = TSNE(
        perplexity=min(PERPLEXITY, (len(values) - 1) / 3),
        init="pca" if values.shape[1] > 1 else "random",
        random_state=keyed_seed(_TSNE_STREAM, seed) % 2**32,
    )
    place = torch.from_numpy(made.fit_transform(values.double().numpy()))  # [N, 2]
    figure = new_figure(9.6, 4.4 if title else 4.1, title)
    left, right = figure.subplots(1, 2)
    if by == "node":
        _scatter(left, place, node, {int(k): tasks.names[k] for k in node.unique()}, "nodes")
    else:
        cluster = tasks.require_cluster().cpu()[node]
        _scatter(left, place, cluster, {int(c): f"cluster {c}" for c in cluster.unique()}, "clusters")
    _scatter(right, place, target, {int(c): str(int(c)) for c in target.unique()}, "classes")
    for panel, name in ((left, f"by {by}"), (right, "by class")):
        panel.set(title=name, xticks=[], yticks=[])
        panel.spines[:].set_color(GRID)
        quiet(panel)
    return figure


def _scatter(panel: Axes, place: Tensor, group: Tensor, names: Mapping[int, str], what: str) -> None:
    """Draw points coloured by group, in random order, so that no group hides another, and name the groups if few."""
    colour = dict(zip(names, _colours(len(names)), strict=True))
    order = keyed_order(_TSNE_STREAM, torch.arange(len(place)))
    x, y = place[order].T.numpy()
    panel.scatter(x, y, c=[colour[g] for g in group[order].tolist()], s=10, linewidths=0)
    if len(names) > NAMED:
        panel.set_xlabel(f"{len(names)} {what}")
        return
    marks = [Line2D([], [], marker="o", linestyle="", markersize=4, color=colour[g]) for g in names]
    legend = panel.legend(
        marks, figure_names([*names.values()]), fontsize=8, frameon=False, loc="center left", handletextpad=0.2
    )
    legend.set_bbox_to_anchor((1.0, 0.5))


def _colours(count: int) -> list[Any]:
    """Return as many colours, told apart as well as can be."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    if count <= NAMED:
        return list(colormaps["tab10" if count <= 10 else "tab20"].colors[:count])  # type: ignore[attr-defined]
    return [colormaps["turbo"](n / (count - 1)) for n in range(count)]
