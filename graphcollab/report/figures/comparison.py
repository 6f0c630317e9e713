"""The figures of a comparison, and weights by shared classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.errors import EmptyError, MissingError, UnknownError
from graphcollab.metrics import METRICS, weight_by_overlap
from graphcollab.metrics.edges import Graph
from graphcollab.report._text import failures, shown
from graphcollab.report.figures._style import COLORS, GRAY, new_figure
from graphcollab.report.figures.curves import accuracy_curves
from graphcollab.report.figures.heatmaps import weight_heatmaps
from graphcollab.train import Comparison, Result


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
    figures: dict[str, Figure] = {}
    late: dict[str, Graph] = {}
    classes = None
    for name in weights_of:
        result = _recorded(comparison, name)
        graphs, classes = result.history.graphs, result.tasks.classes
        group = classes if result.tasks.cluster is None else result.tasks.cluster
        figures[f"weights_{name}"] = weight_heatmaps(result, cluster=group, title=f"{name}: who listens to whom")
        late |= {f"{name}, round {round_}": graphs[round_] for round_ in sorted(graphs)[-2:]}
    if classes is not None and not any(bool(weights.isnan().any()) for _, weights in late.values()):
        heading = "Do nodes listen to those with the same classes?"
        figures["weight_by_overlap"] = weight_by_overlap_figure(late, classes, heading)
    curves, over = _curves(comparison)
    figures[comparison.metric if comparison.metric in METRICS else "metric"] = accuracy_curves(
        curves, title, comparison.metric, comparison.share, over
    )
    return figures


def _recorded(comparison: Comparison, name: str) -> Result:
    """Return a method's last run, which must have recorded graphs."""
    if name in comparison.chosen and name not in comparison.results and failures(comparison, name):
        raise EmptyError(
            f"method {name!r}", f"{name} {failures(comparison, name)}: it has no weights to draw; leave it out"
        )
    if name not in comparison.results:
        raise UnknownError(
            "weights_of", f"there is no method {name!r} in the comparison; there are {sorted(comparison.results)}"
        )
    result = comparison.results[name]
    if not result.history.graphs:
        raise MissingError(
            f"method {name!r}", f"{name} recorded no graph: pass callbacks=[RecordGraph(rounds)] to compare"
        )
    return result


def _curves(comparison: Comparison) -> tuple[dict[str, list[tuple[list[int], list[float]]]], str]:
    """Return the curves of every method's seeds, and what they count: rounds, or local steps where rounds differ."""
    kept = {name: [trial for trial in trials if not trial.failure] for name, trials in comparison.chosen.items()}
    every = [trial for trials in kept.values() for trial in trials]
    known = not any(math.isnan(trial.local_steps) for trial in every)
    in_steps = known and len({trial.curve[0][-1] for trial in every}) > 1
    curves = {}
    for name, trials in kept.items():
        why = failures(comparison, name)
        if trials:
            each = trials[0].local_steps / trials[0].curve[0][-1] if in_steps else 1
            found = [([round(each * one) for one in trial.curve[0]], trial.curve[1]) for trial in trials]
            curves[f"{name} ({why})" if why else name] = found
    return curves, "local steps per node" if in_steps else "round"


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
    figure = new_figure(2.9 * len(graphs) + 0.8, 3.7, title)
    panels = figure.subplots(1, len(graphs), squeeze=False, sharey=True)[0]
    for panel, (name, (edge_index, edge_weight)) in zip(panels, graphs.items(), strict=True):
        found = weight_by_overlap(edge_index.cpu(), edge_weight.cpu(), classes.cpu())
        overlap, mean, std, pairs = (values.numpy() for values in found)
        below = std.clip(max=mean.clip(min=0)) if (mean >= 0).all() else std
        panel.errorbar(overlap, mean, [below, std], color=COLORS[0], marker="o", capsize=4)
        overall = float((mean * pairs).sum() / pairs.sum())
        panel.axhline(overall, color=COLORS[1], linestyle="--", label="all pairs")
        panel.set(title=name, xlabel="shared classes\n(number of pairs)", xmargin=0.12)
        panel.set_xticks(overlap, [f"{o}\n({p:,})" for o, p in zip(overlap, pairs, strict=True)])
        panel.grid(axis="y", color=GRAY)
    panels[0].set_ylabel("mixing weight (mean ± std)")
    panels[0].legend(frameon=False, loc="upper left")
    return figure
