"""Latents of nodes' models in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.errors import InvalidValueError, NotFiniteError, ShapeError, TooFewError
from graphcollab.keyed import keyed_order
from graphcollab.metrics import node_latents
from graphcollab.report._text import shown
from graphcollab.report.figures._style import COLORS, figure_names, new_figure
from graphcollab.settings import Count
from graphcollab.train import Result

_DRAWN = 153
NAMED = 20  # entries of a legend at most
PERPLEXITY = 30.0  # neighbors that t-SNE attends to, about
FEWEST = 4  # samples that t-SNE can place


@shown
def latent_figure(result: Result, split: str = "test", per_node: Count | None = 50, title: str | None = None) -> Figure:
    """Draw the latents that nodes' models have of their own samples in two dimensions, colored by node and by class.

    It is Fig. 4 (c) of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_, with `t-SNE
    <https://www.jmlr.org/papers/v9/vandermaaten08a.html>`_ (van der Maaten and Hinton, 2008) from scikit-learn. The
    axes mean nothing; near points have similar latents. Where models of different nodes agree on their latents, samples
    of one class lie together whoever has them.

    Args:
        result: What `run` returns; its models must have latents, see `graphcollab.metrics.node_latents`.

    Raises:
        ValueError: If models have no latents that can be compared, there are too few samples, latents are not finite or
            all the same, or targets are no classes.
    """
    found = node_latents(result.env.engine, result.stacks, split, per_node)
    values, node, target = (some.cpu() for some in found)
    names = result.tasks.names
    _require_drawable(values, node, target, names)
    from sklearn.manifold import TSNE  # here, since importing it takes long

    start = "pca" if values.shape[1] > 1 else "random"
    made = TSNE(perplexity=min(PERPLEXITY, (len(values) - 1) / 3), init=start, random_state=0)
    place = torch.from_numpy(made.fit_transform(values.double().numpy()))  # [N, 2]
    figure = new_figure(9.6, 4.4, title)
    left, right = figure.subplots(1, 2)
    _scatter(left, place, node, {int(k): names[k] for k in node.unique()}, "nodes")
    _scatter(right, place, target, {int(c): str(int(c)) for c in target.unique()}, "classes")
    left.set(title="by node", xticks=[], yticks=[])
    right.set(title="by class", xticks=[], yticks=[])
    return figure


def _require_drawable(values: Tensor, node: Tensor, target: Tensor, names: tuple[str, ...]) -> None:
    """Check latents [N, D], whose samples these are, [N], and targets."""
    if target.is_floating_point() or target.dim() > 1:
        raise ShapeError("targets", f"targets must be classes, [N] integers, got {target.dtype} {list(target.shape)}")
    bad = node[(~values.isfinite()).any(1)].tolist()
    if bad:
        raise NotFiniteError(
            f"node {names[bad[0]]!r}",
            f"a latent of {names[bad[0]]!r} is NaN or infinite: train with a smaller step size",
        )
    if len(values) < FEWEST:
        raise TooFewError(
            "split", f"t-SNE needs at least {FEWEST} samples, got {len(values)}: use more nodes or another split"
        )
    if bool((values == values[0]).all()):
        raise InvalidValueError(
            "result", "all latents are the same, so there is nothing to draw: are the models trained?"
        )


def _scatter(panel: Axes, place: Tensor, group: Tensor, names: Mapping[int, str], what: str) -> None:
    """Draw points colored by group, in random order, so that no group hides another, and name the groups if few."""
    many = len(names) > len(COLORS)
    colors = colormaps["turbo"].resampled(len(names)) if many else ListedColormap(COLORS[: len(names)])
    order = keyed_order(_DRAWN, torch.arange(len(place)))
    x, y = place[order].T.numpy()
    number = {one: n for n, one in enumerate(names)}
    points = panel.scatter(x, y, c=[number[one] for one in group[order].tolist()], cmap=colors, s=10, linewidths=0)
    if len(names) > NAMED:
        panel.set_xlabel(f"{len(names)} {what}")
        return
    marks, _ = points.legend_elements(num=None)  # type: ignore[arg-type]
    panel.legend(marks, figure_names([*names.values()]), frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
