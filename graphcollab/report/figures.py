"""All figures of a comparison, weights by shared classes, latents in the plane, and writing figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from graphcollab.errors import (
    EmptyError,
    FormatError,
    InvalidValueError,
    MissingError,
    NotFiniteError,
    ShapeError,
    TooFewError,
    UnknownError,
)
from graphcollab.files import write_whole
from graphcollab.keyed import keyed_order, keyed_seed
from graphcollab.metrics import METRICS, node_latents, weight_by_overlap
from graphcollab.metrics.edges import Graph
from graphcollab.report._figure import COLOURS, GRID, figure_names, new_figure, quiet, tidy
from graphcollab.report._text import failures, shown
from graphcollab.report.curves import accuracy_curves
from graphcollab.report.heatmaps import weight_heatmaps
from graphcollab.settings import Count, Seed, checked
from graphcollab.train import Comparison, Result

__all__ = ["comparison_figures", "latent_figure", "save_figure", "weight_by_overlap_figure"]

_TSNE_STREAM = 153
NAMED = 20  # entries of a legend at most
PERPLEXITY = 30.0  # neighbors that t-SNE attends to, about
FEWEST = 4  # samples that t-SNE can place
# What would make two files of the same picture differ.
_DATES = {"pdf": "CreationDate", "ps": "CreationDate", "eps": "CreationDate", "svg": "Date"}


@shown
def comparison_figures(
    comparison: Comparison, weights_of: Sequence[str] = (), title: str | None = None
) -> dict[str, Figure]:
    """Draw how methods did, and whom the nodes listened to on the last seed.

    Args:
        weights_of: Names of the methods whose mixing weights are of interest. Their runs must have recorded graphs
            (``compare(..., callbacks=[RecordGraph(rounds)])``).
        title: Title of the accuracy curves. Methods that failed on some seeds have the curve of the others, and it
            says so; those that failed on all have none.

    Returns:
        ``accuracy``, or what the metric is called (``metric`` if it is none of the package's), over rounds, or over
        local steps per node where methods have played other numbers of rounds;
        ``weights_<name>`` for each of the names, nodes sorted by cluster or classes where known;
        and ``weight_by_overlap`` at the last two recorded rounds where classes and all weights are known: between
        sites each knows those of its own node.
    """
    figures, late, classes = {}, {}, None
    for name in weights_of:
        if name in comparison.chosen and name not in comparison.results and failures(comparison, name):
            raise EmptyError(
                f"method {name!r}", f"{name} {failures(comparison, name)}: it has no weights to draw; leave it out"
            )
        if name not in comparison.results:
            raise UnknownError(
                "weights_of", f"there is no method {name!r} in the comparison; there are {sorted(comparison.results)}"
            )
        result = comparison.results[name]
        graphs, classes = result.history.graphs, result.tasks.classes
        if not graphs:
            raise MissingError(
                f"method {name!r}", f"{name} recorded no graph: pass callbacks=[RecordGraph(rounds)] to compare"
            )
        group = classes if result.tasks.cluster is None else result.tasks.cluster
        heading = f"{name}: who listens to whom"
        names = result.tasks.names
        figures[f"weights_{name}"] = weight_heatmaps(graphs, len(names), cluster=group, title=heading, names=names)
        late.update({f"{name}, round {round_}": graphs[round_] for round_ in sorted(graphs)[-2:]})
    if classes is not None and not any(bool(weights.isnan().any()) for _, weights in late.values()):
        heading = "Do nodes listen to those with the same classes?"
        figures["weight_by_overlap"] = weight_by_overlap_figure(late, classes, heading)
    kept = {name: [trial for trial in trials if not trial.failure] for name, trials in comparison.chosen.items()}
    ends = {trial.curve[0][-1] for trials in kept.values() for trial in trials}
    known = not any(math.isnan(trial.local_steps) for trials in kept.values() for trial in trials)
    in_steps = len(ends) > 1 and known  # where methods play other numbers of rounds for the same work
    curves = {}
    for name, trials in kept.items():
        why = failures(comparison, name)
        if trials:
            each = trials[0].local_steps / trials[0].curve[0][-1] if in_steps else 1
            found = [([round(each * one) for one in trial.curve[0]], trial.curve[1]) for trial in trials]
            curves[f"{name} ({why})" if why else name] = found
    over = "local steps per node" if in_steps else "round"
    figures[comparison.metric if comparison.metric in METRICS else "metric"] = accuracy_curves(
        curves, title, comparison.metric, comparison.share, over
    )
    return figures


@shown
def weight_by_overlap_figure(graphs: Mapping[str, Graph], classes: Tensor, title: str | None = None) -> Figure:
    """Draw mean mixing weights against the number of classes that two nodes share, methods side by side.

    It is Fig. 7 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_. All ordered pairs of different nodes count, those without an edge
    with weight 0. Bars reach one standard deviation over pairs up and down, but not below 0. The dashed line is the
    mean weight of all pairs: where a method knows nothing, every mean lies on it.

    Args:
        graphs: Edges j -> i, [2, E], and what i gives to j, [E], by the name of the panel.
    """
    if not graphs:
        raise EmptyError("graphs", "expected the graph of at least one method, got none")
    figure = new_figure(2.9 * len(graphs) + 0.8, 3.7 if title else 3.4, title)
    panels = figure.subplots(1, len(graphs), squeeze=False, sharey=True)[0]
    for panel, (name, (edge_index, edge_weight)) in zip(panels, graphs.items(), strict=True):
        found = weight_by_overlap(edge_index.cpu(), edge_weight.cpu(), classes.cpu())
        overlap, mean, std, pairs = (values.numpy() for values in found)
        below = std.clip(max=mean.clip(min=0)) if (mean >= 0).all() else std
        panel.errorbar(
            overlap, mean, [below, std], color=COLOURS[0], marker="o", capsize=4, linewidth=1.8, elinewidth=1
        )
        overall = float((mean * pairs).sum() / pairs.sum())
        panel.axhline(overall, color=COLOURS[1], linestyle="--", linewidth=1, label="all pairs")
        panel.set(title=name, xlabel="shared classes\n(number of pairs)", xmargin=0.12)
        panel.set_xticks(overlap, [f"{o}\n({p:,})" for o, p in zip(overlap, pairs, strict=True)])
        tidy(panel)
    panels[0].set_ylabel("mixing weight (mean ± std)")
    panels[0].legend(fontsize=9, frameon=False, loc="upper left")
    quiet(panels[0])
    return figure


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


@checked
def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format that the file name ends with, such as ``.png`` or ``.pdf``, and return its path.

    The file is there whole or not at all. Missing folders are made. A ``ValueError`` names the formats of matplotlib.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if kind not in known:
        raise FormatError("path", f"the file name must end in one of {', '.join(known)}, got {path.name!r}")
    content = BytesIO()
    metadata = {_DATES[kind]: None} if kind in _DATES else None
    figure.savefig(content, format=kind, dpi=figure.dpi, metadata=metadata)
    return write_whole(path, content.getvalue())
