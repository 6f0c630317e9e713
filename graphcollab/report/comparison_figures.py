"""All figures of a comparison at once."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from graphcollab.report._text import failures
from graphcollab.report.accuracy_curves import accuracy_curves
from graphcollab.report.weight_by_overlap_figure import weight_by_overlap_figure
from graphcollab.report.weight_heatmaps import weight_heatmaps
from graphcollab.settings import checked
from graphcollab.train import Comparison

__all__ = ["comparison_figures"]


@checked
def comparison_figures(
    comparison: Comparison,
    weights_of: Sequence[str] = (),
    title: str | None = None,
) -> dict[str, Figure]:
    """Draw how methods did, and whom the nodes listened to on the last seed.

    Args:
        comparison: What `compare` returns.
        weights_of: Names of the methods whose mixing weights are of interest. Their runs must have recorded graphs
            (``compare(..., callbacks=[RecordGraph(rounds)])``).
        title: Title of the accuracy curves. Methods that failed on some seeds have the curve of the others, and it
            says so; those that failed on all have none.

    Returns:
        ``accuracy``; ``weights_<name>`` for each of the names, nodes sorted by cluster or classes where known;
        and ``weight_by_overlap`` at the last two recorded rounds where classes are known.

    Raises:
        ValueError: If a method is unknown or recorded no graph.

    Example:
        >>> from graphcollab.train import Trial
        >>> trial = Trial("local", 0, {}, 0.5, {"mean": 0.5}, ([1, 2], [0.4, 0.5]))
        >>> list(comparison_figures(Comparison([trial], {"local": [trial]}, True)))
        ['accuracy']
    """
    figures, late, classes = {}, {}, None
    for name in weights_of:
        if name in comparison.chosen and name not in comparison.results and failures(comparison, name):
            raise ValueError(f"{name} {failures(comparison, name)}: it has no weights to draw; leave it out")
        if name not in comparison.results:
            raise ValueError(f"there is no method {name!r} in the comparison; there are {sorted(comparison.results)}")
        result = comparison.results[name]
        graphs, classes = result.history.graphs, result.tasks.classes
        if not graphs:
            raise ValueError(f"{name} recorded no graph: pass callbacks=[RecordGraph(rounds)] to compare")
        group = classes if result.tasks.cluster is None else result.tasks.cluster
        heading = f"{name}: who listens to whom"
        figures[f"weights_{name}"] = weight_heatmaps(graphs, result.tasks.num_nodes, cluster=group, title=heading)
        late.update({f"{name}, round {round_}": graphs[round_] for round_ in sorted(graphs)[-2:]})
    if classes is not None:
        heading = "Do nodes listen to those with the same classes?"
        figures["weight_by_overlap"] = weight_by_overlap_figure(late, classes, heading)
    curves = {}
    for name, trials in comparison.chosen.items():
        why = failures(comparison, name)
        if kept := [trial.curve for trial in trials if not trial.failure]:
            curves[f"{name} ({why})" if why else name] = kept
    figures["accuracy"] = accuracy_curves(curves, title, comparison.metric, comparison.share)
    return figures
