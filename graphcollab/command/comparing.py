"""`graphcollab compare`: methods on the rows of a table, and `graphcollab benefit`: who gains by whom."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphcollab import report
from graphcollab.bars import bar
from graphcollab.checks import warn
from graphcollab.command.chosen import ALL, OWN, Points, chosen, fixed, method_option, points_of
from graphcollab.command.data import DATA, MODEL, OF_TABLE, model_for, require_data, tasks_for
from graphcollab.command.dealing import DEALING
from graphcollab.command.declared import Setting, settings_of
from graphcollab.command.folder import CHECKPOINTS, RESULTS, folder_of, out_for, write_page
from graphcollab.command.settings_file import RUN
from graphcollab.command.work import Work, note, tell
from graphcollab.files import write_whole
from graphcollab.gains import Benefit, benefit
from graphcollab.gains.benefit import OF_RUN
from graphcollab.train import Comparison, RecordGraph, compare, run
from graphcollab.train.history import History
from graphcollab_command.wording import on_the_line

__all__ = ["BENEFIT", "COMPARE"]

LOCAL = "local"
SAVE = Setting("save", bool, False, "Save every method's models in OUT/models, for graphcollab predict.")


def _graphs(line: Sequence[str], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return who may hear whom by method, of a line and of a file of settings; paths are absolute."""
    found = dict(table)
    for word in line:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise ValueError(f"--graphs must be METHOD=FILE, such as cobo=roads.csv, got {word!r}")
        found[name] = os.path.abspath(path)
    for name, path in found.items():
        if isinstance(path, str) and not os.path.isfile(path):
            raise ValueError(f"graphs.{name}: there is no file {path}; it must have columns sender and receiver")
    return found


GRAPHS = Setting(
    "graphs",
    Sequence[str],
    text="Who may hear whom in a method, cobo=roads.csv, a CSV file with columns sender and receiver, names of sites. "
    "In a file of settings a table, [graphs], of such files or of pairs. Default: everybody everybody.",
    is_table=True,
    read=_graphs,
)
LARGE = 100_000  # edges, from which on one graph is kept
FEW_SITES = 50  # up to which every site has a row in the answer


class RecordEvaluated(RecordGraph):
    """Keep the edges and weights of the rounds after which models are evaluated."""

    def on_round(self, data: Data, history: History) -> None:
        """Keep nothing."""

    def on_evaluate(self, data: Data, history: History) -> None:
        """Keep the round's graph; of very large ones the last alone."""
        if any(weight.numel() > LARGE for _, weight in history.graphs.values()):
            history.graphs.clear()
        super().on_round(data, history)


def _settings_of_compare() -> list[Setting]:
    own = settings_of(compare, "compare")
    named = {one.name for one in own}
    of_run = [one for one in settings_of(run, "compare") if one.name not in named]
    return [*own, *settings_of(benefit, "lrs", only=("lrs",)), *of_run]


def _worded(one: Setting) -> Setting:
    """Return a setting with what this command has to say of it."""
    if one.name == "device":
        return replace(one, words=("auto", "cpu", "cuda"))
    if one.name == "seeds":
        return replace(one, text=f"{one.text} A single number says how many: 5 for 0 to 4.")
    return replace(one, default=None, text=f"{one.text} Default: each method's own.") if one.name == "lrs" else one


OF_COMPARE = [_worded(one) for one in _settings_of_compare()]
OF_BENEFIT = [
    *settings_of(benefit, "benefit", keep=("seed",)),
    *map(_worded, settings_of(run, "benefit", only=OF_RUN)),
]


def _taken(declared: Sequence[Setting], asked: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """Return the settings that a function takes."""
    return {one.name: asked[one.name] for one in declared if one.name not in without}


def _told(asked: Mapping[str, Any], points: Points) -> dict[str, Any]:
    """Return what a file of settings says of a run."""
    one = {name: {key: v[0] if len(v) == 1 else v for key, v in own.items()} for name, own in points.items()}
    return {**{name: value for name, value in asked.items() if name not in ("quiet", OWN.name)}, OWN.name: one}


def _seeds(given: Sequence[int]) -> list[int]:
    """Return the seeds; a single number is how many there are, and 0 the seed 0."""
    return list(range(given[0])) if len(given) == 1 and given[0] > 0 else list(given)


def play_compare(asked: dict[str, Any]) -> None:
    """Compare methods, print the answer, and write what is asked for."""
    require_data(asked["data"])
    asked["seeds"] = _seeds(asked["seeds"])
    makers = chosen(asked["methods"])
    own = points_of([*makers], asked[OWN.name])
    points = points_of([*makers], asked[OWN.name], asked["lrs"] or ())
    if asked["save"] and not asked["out"]:
        raise ValueError("--save saves models in the folder of --out: name it")
    settings = _taken(OF_COMPARE, asked, "lrs")
    with folder_of(asked["out"], "compare", _told(asked, own)) as out:
        found = _compare(makers, points, settings, asked, out)
        if next(iter(found.results.values())).tasks.num_nodes == 1:
            warn("there is one site, so there is nobody to learn from: --node names the column of sites", UserWarning)
        text = on_the_line(_answer(found), OF_LINE)
        tell(text)
        if out is not None:
            _write_comparison(found, out, text, asked)


def _compare(
    makers: Mapping[str, Any], points: Points, settings: Mapping[str, Any], asked: Mapping[str, Any], out: Path | None
) -> Comparison:
    """Compare, with a bar of trials over that of rounds; where there are several processes, the former alone."""
    shown = not asked["quiet"] and sys.stderr.isatty()
    total = len(settings["seeds"]) * sum(_tries(name, points) for name in makers)
    with bar(total, unit="trial", disable=not shown or settings["jobs"] > 1) as trials:

        def on_trial(trial: Any, *_: Any) -> None:
            trials.set_postfix_str(f"{trial.method} on seed {trial.seed}")
            trials.update(1)

        return compare(
            makers,
            tasks_for(asked["data"], asked),
            model_for(asked["hidden"]),
            grids=points,
            graphs=asked["graphs"],
            on_trial=on_trial,
            progress=shown,
            checkpoint=None if out is None else out / CHECKPOINTS,
            callbacks=[] if out is None else [RecordEvaluated()],
            **settings,
        )


def _tries(name: str, points: Points) -> int:
    """Return how many settings of a method are tried."""
    return math.prod(map(len, {**points.get(ALL, {}), **points.get(name, {})}.values()))


def _answer(found: Comparison) -> str:
    """Return the tables of a comparison."""
    reference = LOCAL if LOCAL in found.chosen else next(iter(found.chosen))
    parts = [report.results_table(found)]
    if len(found.chosen) > 1:
        parts.append(report.paired_table(found, reference=reference))
    sites = next(iter(found.results.values())).tasks.num_nodes
    if sites <= FEW_SITES:
        parts.append(str(report.site_table(found, reference=_reference(found))))
    if LOCAL not in found.chosen:
        parts.append(f"Whether any of this is better than training alone nothing here says: add {LOCAL} to --methods.")
    return "\n\n".join(part.rstrip() for part in parts)


def _reference(found: Comparison) -> str | None:
    return LOCAL if LOCAL in found.results and len(found.results) > 1 else None


def _write_comparison(found: Comparison, out: Path, text: str, asked: Mapping[str, Any]) -> None:
    reference = LOCAL if LOCAL in found.chosen else next(iter(found.chosen))
    weighed = [name for name, one in found.results.items() if any(w.numel() for _, w in one.history.graphs.values())]
    paths = [
        write_whole(out / "results.json", report.results_json(found, reference).encode()),
        write_whole(out / RESULTS, (text + "\n").encode()),
        Path(report.site_table(found, reference=_reference(found)).to_csv(out / "sites.csv") or out / "sites.csv"),
    ]
    for name, figure in report.comparison_figures(found, weighed).items():
        paths.append(report.save_figure(figure, out / f"{name}.png"))
    if asked["save"]:
        paths += [one.save(out / "models" / name) for name, one in found.results.items()]
    _say(paths, found, out, asked)


def _say(paths: list[Path], found: Any, out: Path, asked: Mapping[str, Any]) -> None:
    work = BENEFIT if isinstance(found, Benefit) else COMPARE
    page = write_page(found, out, work.name, work.settings)
    for path in [*paths, *([] if page is None else [page]), out / RUN]:
        note(f"wrote {path}", asked["quiet"])


def play_benefit(asked: dict[str, Any]) -> None:
    """Find out who gains by whom, print the answer, and write what is asked for."""
    require_data(asked["data"])
    makers = chosen(asked["methods"])
    points = points_of([*makers], asked[OWN.name])
    own = fixed(points, [*makers])
    made = {name: functools.partial(make, **own[name]) for name, make in makers.items()}
    settings = _taken(OF_BENEFIT, asked)
    shown = not asked["quiet"] and sys.stderr.isatty()
    tasks, model = tasks_for(asked["data"], asked), model_for(asked["hidden"])
    with folder_of(asked["out"], "benefit", _told(asked, points)) as out:
        found = benefit(tasks, model, methods=made, progress=shown, **settings)
        text = on_the_line(f"{report.benefit_answer(found)}\n\n{report.benefit_table(found)}", BENEFIT.settings)
        tell(text)
        if out is not None:
            _write_benefit(found, out, text, asked)


def _write_benefit(found: Benefit, out: Path, text: str, asked: Mapping[str, Any]) -> None:
    paths = [found.save(out / "results.json"), write_whole(out / RESULTS, (text + "\n").encode())]
    paths.append(report.save_figure(report.benefit_figure(found), out / "benefit.png"))
    _say(paths, found, out, asked)


COMPARE = Work(
    "compare",
    [
        method_option("Methods to compare, by name.", required=True),
        *OF_TABLE,
        *DEALING,
        *OF_COMPARE,
        *MODEL,
        GRAPHS,
        OWN,
        out_for(
            "results, tables, pictures and checkpoints; the same command goes on where it was stopped, also with more "
            "rounds, seeds or methods"
        ),
        SAVE,
    ],
    play_compare,
    "Compare methods on the rows of a table, after the same work, site by site.",
    DATA,
)
OF_LINE = tuple(COMPARE.settings)
BENEFIT = Work(
    "benefit",
    [
        method_option("Methods to try beside averaging.", ("meta_l2c",)),
        *OF_TABLE,
        *DEALING,
        *OF_BENEFIT,
        *MODEL,
        OWN,
        out_for("the answer, its numbers, a picture and a page; a run that was stopped begins again"),
    ],
    play_benefit,
    "Find out which sites gain by collaborating, by whom, and by how much.",
    DATA,
)
