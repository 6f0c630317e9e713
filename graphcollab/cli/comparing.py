"""`graphcollab compare` and `graphcollab benefit`."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphcollab import report
from graphcollab._base.checks import issue, own_filter
from graphcollab._base.errors import ConflictError, GraphcollabError, MissingFileError
from graphcollab._base.files import write_whole
from graphcollab._base.findings import Finding
from graphcollab._base.naming import setting
from graphcollab.analysis import Comparison
from graphcollab.analysis.benefit import benefit
from graphcollab.analysis.compare import compare
from graphcollab.analysis.metrics import METRICS
from graphcollab.analysis.processes import progress_bar
from graphcollab.cli.data import methods_for, models_for, require_data, step_sizes, tasks_for
from graphcollab.cli.finals import Told, require_savable, save_of_benefit, save_of_comparison, validation_of
from graphcollab.cli.folder import (
    CHECKPOINTS,
    RESULTS,
    RUN,
    note,
    note_files,
    request_of,
    require_free,
    tell,
    write_figures,
    write_page,
)
from graphcollab.cli.options import Training, compute_of
from graphcollab.cli.values import ALL, Grids, entries, makers_of, settings_grids
from graphcollab.data.datasets.catalog import DATASETS, TABLES
from graphcollab.data.table import open_table, read_column
from graphcollab.persistence import LearnedGraph
from graphcollab.persistence.history import History
from graphcollab.report.comparison_answer import comparison_findings
from graphcollab.report.inside import chosen_result
from graphcollab.report.values import Table, without_repeats
from graphcollab.train import RecordGraph
from graphcollab.train.start import candidates

LOCAL = "local"
LARGE = 100_000  # edges, from which on one graph is kept
FEW_SITES = 50  # up to which the answer has a row for every site
OF_COMPARE = ("seeds", "rounds", "budget", "n_jobs", *vars(Training()))
OF_BENEFIT = (
    *("metrics", "repeats", "rounds", "epochs", "batch_size", "lrs", "evaluations", "level", "limit", "seed", "n_jobs"),
    "baseline",
)


class RecordEvaluated(RecordGraph):
    """Keep the edges and weights of the rounds after which models are evaluated."""

    def on_round(self, data: Data, history: History) -> None:
        """Keep nothing."""

    def on_evaluate(self, data: Data, history: History) -> None:
        """Keep the round's graph; of very large graphs the last alone."""
        if any(weight.numel() > LARGE for _, weight in history.graphs.values()):
            history.graphs.clear()
        super().on_round(data, history)


def play_compare(asked: dict[str, Any]) -> None:
    """Compare methods, print the answer, and write it."""
    data = str(asked["data"])
    require_data(data)
    asked["seeds"] = _seeds(asked["seeds"])
    makers = makers_of(asked["methods"])
    asked["lrs"], asked["patience"] = step_sizes(data, asked["lrs"]), asked["patience"] or 0
    asked["baseline"] = asked["baseline"] or ("none" if data in DATASETS else "constant")
    grids = settings_grids([*makers], asked["set"], asked["lrs"])
    graphs = _graphs(asked["graphs"])
    asked["graphs"] = [f"{name}={path}" for name, path in graphs.items()]
    _require_columns(asked)
    require_savable(asked, read := asked["calibrate"] or asked["threshold"] != 0.5)
    kept: list[Any] | None = [] if read else None
    out, request = asked["out"], request_of("compare", asked)
    require_free(out, request)
    found = _compare(makers, grids, graphs, asked, out, kept)
    if next(iter(found.results.values())).tasks.num_nodes == 1:
        issue("too-few", "node", "there is one site, which has no others to learn from: name the column of sites")
    inside = _explained(found, asked)
    text = "\n\n".join([_answer(found), *(f"{one.caption}\n\n{one}" for one in inside)])
    tell(text)
    if out is not None:
        saved = save_of_comparison(found, kept or [], out, asked) if asked["save"] else {}
        told = {one.caption: one.records() for one in inside}
        write_whole(out / "results.json", report.results_json(found, _reference(found), inside=told).encode())
        report.site_table(found, reference=_local(found)).to_csv(out / "sites.csv")
        _write(found, out, asked, request, text, saved, write_figures(lambda: _figures(found), out), inside=inside)


def _require_columns(asked: Mapping[str, Any]) -> None:
    """Check before anything is run that there is a table, with the columns whose groups are asked for."""
    for option in ("explain", "by"):
        if asked[option] and str(asked["data"]) in DATASETS:
            raise ConflictError(option, f"only tables have columns, and {asked['data']} is not a table")
    for name in asked["by"]:
        read_column(_source(asked), name, setting(by=[name]))


def _explained(found: Comparison, asked: Mapping[str, Any]) -> list[Table]:
    """Return what is in the models of the best method by validation and of training alone, and how good all are."""
    both = {chosen_result(found)[0], *({"local"} & found.results.keys())} if asked["explain"] else set()
    tables: list[Table] = []
    for name in sorted(both):
        long = 50 * found.results[name].history.seconds[-1]
        note(f"looking into the models of {name}: where linear, by fifty more runs, about {long:.0f} s", asked["quiet"])
        tables.append(report.importance_table(found, name))
        try:
            tables.append(report.coefficient_table(found, name))
        except GraphcollabError as error:  # not linear, or a refit failed
            tables[-1] = tables[-1].noting(Finding("no-coefficients", name, f"no coefficients: {error}"))
    return [*tables, *(report.group_table(found, _source(asked), column) for column in asked["by"])]


def _source(asked: Mapping[str, Any]) -> Any:
    data = str(asked["data"])
    return open_table(TABLES[data]().columns if data in TABLES else data)


def _seeds(given: Sequence[int]) -> list[int]:
    """Return the seeds; a single number above 0 is how many there are."""
    return list(range(given[0])) if len(given) == 1 and given[0] > 0 else list(given)


def _graphs(words: Sequence[str]) -> dict[str, str]:
    found = {name: os.path.abspath(paths[0]) for name, paths in entries("graphs", words, "cobo=roads.csv").items()}
    for name, path in found.items():
        if not os.path.isfile(path):
            raise MissingFileError("graphs", f"{name}: there is no file {path}; it must have columns sender, receiver")
    return found


def _compare(
    makers: Mapping[str, Any],
    grids: Grids,
    graphs: Mapping[str, str],
    asked: Mapping[str, Any],
    out: Path | None,
    kept: list[Any] | None,
) -> Comparison:
    shown = not asked["quiet"]
    models = models_for(str(asked["data"]), asked["hidden"])
    many = len(candidates(models))
    tries = [many * math.prod(map(len, {**grids.get(ALL, {}), **grids.get(name, {})}.values())) for name in makers]
    with progress_bar(len(asked["seeds"]) * sum(tries), "trial", shown and asked["n_jobs"] == 1) as trials:

        def on_trial(trial: Any, result: Any, *_: Any) -> None:
            if kept is not None and result is not None:
                kept.append((trial, validation_of(result)))
            trials.set_postfix_str(f"{trial.method} on seed {trial.seed}", refresh=False)
            trials.update(1)

        return compare(
            makers,
            tasks_for(str(asked["data"]), asked),
            models,
            grids=grids,
            graphs={name: LearnedGraph.from_csv(path) for name, path in graphs.items()},
            on_trial=on_trial,
            progress=shown and sys.stderr.isatty(),
            checkpoint=None if out is None else out / CHECKPOINTS,
            callbacks=[] if out is None else [RecordEvaluated()],
            patience=asked["patience"] or None,
            baseline=None if asked["baseline"] == "none" else asked["baseline"],
            compute=compute_of(asked),
            **{name: asked[name] for name in OF_COMPARE},
        )


def _answer(found: Comparison) -> str:
    tables, parts, told = [report.results_table(found)], list[str](), list[Finding]()
    if len(found.chosen) > 1:
        told = comparison_findings(found, _reference(found))
        parts.append(report.comparison_answer(found, _reference(found)))
        tables.append(report.paired_table(found, reference=_reference(found)))
    if next(iter(found.results.values())).tasks.num_nodes <= FEW_SITES:
        tables += report.site_table(found, reference=_local(found)).tables
    parts += map(str, without_repeats(tables, told))
    if LOCAL not in found.chosen:
        parts.append(f"Add {LOCAL} to --methods to compare with training alone.")
    return "\n\n".join(parts)


def _reference(found: Comparison) -> str:
    return LOCAL if LOCAL in found.chosen else next(iter(found.chosen))


def _local(found: Comparison) -> str | None:
    return LOCAL if LOCAL in found.results and len(found.results) > 1 else None


def _figures(found: Comparison) -> dict[str, Any]:
    figures = {found.metric if found.metric in METRICS else "metric": report.accuracy_curves(found)}
    for name, result in found.results.items():
        if any(weight.numel() for _, weight in result.history.graphs.values()):
            group = result.tasks.classes if result.tasks.cluster is None else result.tasks.cluster
            title = f"{name}: who listens to whom"
            figures[f"weights_{name}"] = report.weight_heatmaps(result, cluster=group, title=title)
    return figures


def _write(
    found: Any,
    out: Path,
    asked: Mapping[str, Any],
    request: str,
    text: str,
    saved: Told,
    drawn: Sequence[Path] = (),
    **more: Any,
) -> None:
    """Write what both commands do, the answer as text and page; note all files, figures among them."""
    told = [*saved.values()]
    write_whole(out / RESULTS, ("\n\n".join([text, *told]) + "\n").encode())
    pages = write_page(found, out, request, source=Path(str(asked["data"])).name, models=told, **more)
    texts = [out / name for name in ("results.json", RESULTS, "sites.csv") if (out / name).is_file()]
    note_files([*texts, *drawn, *saved, *pages, out / RUN], asked["quiet"])


def play_benefit(asked: dict[str, Any]) -> None:
    """Find out who gains by whom, print the answer, and write it."""
    data = str(asked["data"])
    require_data(data)
    asked["methods"], asked["set"] = methods_for(asked)
    makers = makers_of(asked["methods"])
    asked["baseline"] = asked["baseline"] or ("none" if data in DATASETS or asked["event"] else "sklearn")
    require_savable(asked)
    grids = settings_grids([*makers], asked["set"])
    if asked["standardize_target"] is None:  # steps fit amounts of any size then, and errors keep their unit
        with own_filter("ignore"):  # what there is to say is said by the first split
            asked["standardize_target"] = tasks_for(data, asked)(asked["seed"]).loss == "mse" or None
    tasks, model = tasks_for(data, asked), models_for(data, asked["hidden"])
    settings: dict[str, Any] = {name: asked[name] for name in OF_BENEFIT}
    settings["baseline"] = None if asked["baseline"] == "none" else asked["baseline"]
    out, request = asked["out"], request_of("benefit", asked)
    require_free(out, request)
    found = benefit(
        tasks,
        model,
        methods=makers,
        grids=grids,
        progress=not asked["quiet"],
        compute=compute_of(asked),
        **settings,
    )
    text = f"{report.benefit_answer(found)}\n\n{report.benefit_table(found)}"
    tell(text)
    if out is not None:
        saved = save_of_benefit(found, makers, model, out, asked) if asked["save"] else {}
        found.save(out / "results.json")
        _write(found, out, asked, request, text, saved)
