"""What a page says of a comparison or a benefit: the answer, and the sections it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from graphcollab.checks import own_filter
from graphcollab.findings import Finding
from graphcollab.gains import Benefit
from graphcollab.gains.held import asked
from graphcollab.naming import few
from graphcollab.report._terms import better_at_the_end_only, sure_p_value, unequal_terms
from graphcollab.report._text import cell_text, column, decimals, failures, number, p_text, shown_in
from graphcollab.report.benefit_answer import benefit_findings
from graphcollab.report.benefit_table import benefit_values, gain_cell, of_metric, scale_of
from graphcollab.report.description import Description, columns_described, sites_described, summary
from graphcollab.report.page.calibration import calibration_section
from graphcollab.report.page.charts import curve_chart, matrix_chart
from graphcollab.report.page.content import Chart, Content, Section
from graphcollab.report.page.graph import graph_section
from graphcollab.report.page.overview import (
    sites_of_benefit,
    sites_of_comparison,
    terms_of_benefit,
    terms_of_comparison,
)
from graphcollab.report.site_table import SiteScores, site_table
from graphcollab.report.tables import FEW_SEEDS, paired_values, results_values
from graphcollab.report.values import Cell, Column, Table, mean_cell
from graphcollab.report.words import asked_of, explained, metric_in_words, metric_name, rows_used
from graphcollab.train import Comparison, Result, Trial
from graphcollab.train.baseline import BASELINES

LEVEL = 0.05
MOST_POINTS = 200  # of a curve
STOPPED = "Curves end elsewhere than the tables where runs return the models of an earlier evaluation."
ANSWER = ("evidence", "best", "doubt", "advice")
TUNED = "Step sizes and rounds were chosen on validation data, those of training alone as those of the others."
MOST_SITES = 60  # of a matrix in a page of at most 5 MB


def answer(comparison: Comparison, reference: str | None) -> list[Finding]:
    """Return whether anything is better than the reference, by how much, and what to do."""
    ranked = _ranked(comparison)
    if not ranked:
        return [Finding("no-mean", "methods", "No method has a mean that is defined on all seeds.")]
    others = [name for name in ranked if name != reference]
    if reference is None or reference not in ranked or not others:
        lacking = f"Nothing is compared with {reference or 'a reference, such as local'}: a mean is lacking."
        return [_best_mean(comparison, ranked[0]), Finding("no-reference", "reference", lacking)]
    better, worse = _sure(comparison, reference, others)
    early: list[Finding] = []
    if not better and len(comparison.chosen[reference]) not in FEW_SEEDS:
        early = better_at_the_end_only(comparison, reference, others, LEVEL / len(_claimed(comparison, reference)))
    return [
        _verdict(comparison, reference, better, worse),
        *early,
        _difference(comparison, next(iter(better), others[0]), reference),
        *_doubted(comparison),
        _advice(comparison, reference, better),
    ]


def _doubted(comparison: Comparison) -> Iterator[Finding]:
    """Yield that there are doubts about the data, which a section lists."""
    if many := len({str(finding) for result in _last(comparison).values() for finding in result.tasks.findings}):
        said = f"Read the doubts about the data first ({many}, below): what is found may come of them."
        yield Finding("doubt", "tasks", said, {"doubts": many})


def _details(comparison: Comparison, reference: str | None, sites: SiteScores | None) -> Iterator[Finding]:
    """Yield what the answer rests on, and what speaks against it."""
    ranked = _ranked(comparison)
    others = [name for name in ranked if name != reference]
    if ranked:
        yield _best_mean(comparison, ranked[0])
    if reference in ranked and others and len(comparison.chosen[reference]) not in FEW_SEEDS:
        against = next(iter(_sure(comparison, reference, others)[0]), others[0])
        if sites is not None and against in sites.differences:
            yield _of_sites(sites, against)
    yield from unequal_terms(comparison)


def _ranked(comparison: Comparison) -> list[str]:
    """Return the methods of which a mean is known, the best first; simple tools beside them have no rank."""
    whole = [name for name in comparison.chosen if name not in BASELINES and not failures(comparison, name)]
    means = {name: sum(comparison.values(name)) / len(comparison.chosen[name]) for name in whole}
    known = [name for name in whole if math.isfinite(means[name])]
    return sorted(known, key=lambda name: means[name], reverse=comparison.higher_is_better)


def _claimed(comparison: Comparison, reference: str) -> list[str]:
    """Return the methods of which something may be claimed, for all of which p-values are corrected."""
    return [name for name in comparison.chosen if name not in (reference, *BASELINES)]


def _best_mean(comparison: Comparison, name: str) -> Finding:
    (scale, _, unit), digits = shown_in(comparison.share, 2), _digits(comparison)
    mean = cell_text(mean_cell(scale * column(comparison.values(name))), Column("", "number", digits))
    return Finding("best-mean", name, f"{name} has the best mean over sites, test {comparison.metric}{unit} {mean}.")


def _digits(comparison: Comparison) -> int:
    """Return the decimals of means in a sentence."""
    return 2 if comparison.share else 1 + decimals([v for name in comparison.chosen for v in comparison.values(name)])


def _sure(comparison: Comparison, reference: str, others: list[str]) -> tuple[list[str], list[str]]:
    """Return methods better and worse than the reference by `sure_p_value`, corrected (Bonferroni) for all methods."""
    if len(comparison.chosen[reference]) in FEW_SEEDS:
        return [], []
    sign, many = 1 if comparison.higher_is_better else -1, len(_claimed(comparison, reference))
    known = [name for name in others if many * sure_p_value(comparison, name, reference) <= LEVEL]
    sure = {name: sign * comparison.paired(name, reference).mean for name in known}
    return [name for name, gain in sure.items() if gain > 0], [name for name, gain in sure.items() if gain < 0]


def _verdict(comparison: Comparison, reference: str, better: list[str], worse: list[str]) -> Finding:
    seeds = len(comparison.chosen[reference])
    if seeds in FEW_SEEDS:
        said = f"Whether any method is better than {reference} is open: {FEW_SEEDS[seeds]}."
        return Finding("open", reference, said, {"seeds": seeds})
    code, said = "no-evidence", f"No evidence that any method is better than {reference} in the mean over sites."
    if better:
        code, said = "evidence", f"Evidence of a mean over sites better than that of {reference}: {few(better)}."
    lost = f" Evidence of a worse one: {few(worse)}." * bool(worse)
    return Finding(code, reference, said + lost, {"better": better, "worse": worse})


def _difference(comparison: Comparison, name: str, reference: str) -> Finding:
    scale, digits = shown_in(comparison.share, 2)[0], _digits(comparison)
    many, found = len(_claimed(comparison, reference)), comparison.paired(name, reference)
    p, sign, interval = min(1.0, many * found.p_value), 1 if found.mean >= 0 else -1, None
    between = ""
    if math.isfinite(found.low) and len(comparison.chosen[reference]) not in FEW_SEEDS:
        interval = scale * found.low, scale * found.high
        low, high = sorted(sign * end for end in interval)
        corrected = f", corrected for {many} comparisons" * (many > 1)
        between = f": 95 % interval {number(low, digits)} … {number(high, digits)}, {p_text(p)}{corrected}"
    moved = f"{number(sign * scale * found.mean, digits)}{' points' * comparison.share}"
    moved += " higher" if sign > 0 else " lower"
    ways = [explained(_method(comparison, one), one) for one in (name, reference)]
    said = f"With {ways[0]} {metric_name(comparison.metric)} is {moved} than with {ways[1]}{between}."
    numbers = {"mean": scale * found.mean, "interval": interval, "p": p, "comparisons": many}
    return Finding("difference", name, said, numbers)


def _advice(comparison: Comparison, reference: str, better: list[str]) -> Finding:
    if len(comparison.chosen[reference]) in FEW_SEEDS:
        return Finding("advice", "seeds", "So compare on five seeds or more before anything is decided.")
    if better:
        return Finding("advice", better[0], f"So use {better[0]}; the table of sites says who has less by it.")
    return Finding("advice", reference, f"So stay with {reference}, or ask again with more rows or seeds.")


def _of_sites(sites: SiteScores, name: str) -> Finding:
    first = sites.scores[name].metrics[0]
    _, low, high = sites.differences[name][0].unbind(1)
    more, less, known = int((low > 0).sum()), int((high < 0).sum()), int((~low.isnan()).sum())
    better, worse = (more, less) if first.higher_is_better else (less, more)
    said = (
        f"By their own 95 % intervals of {first.name} on the last seed, {better} of {known} sites do better with "
        f"{name} than with {sites.reference}, and {worse} worse; one such interval in twenty misses the truth."
    )
    return Finding("nodes", name, said, {"better": better, "worse": worse, "nodes": known})


def content_of_comparison(
    comparison: Comparison, reference: str | None, metrics: Any, title: str, source: str
) -> Content:
    """Return what a page says of a comparison."""
    if reference is None and "local" in comparison.chosen:
        reference = "local"
    last, sites = _last(comparison), None
    if last:
        with own_filter("ignore", code="quality", subject="metric"):  # notes below the table say so
            sites = site_table(comparison, metrics, reference if reference in last else None)
    tables = [results_values(comparison)]
    if reference is not None and len(comparison.chosen) > 1:
        tables.append(paired_values(comparison, reference))
    details = [*_details(comparison, reference, sites)]
    said = {*map(str, details)}
    for k, table in enumerate(tables):
        tables[k] = replace(table, notes=[note for note in table.notes if str(note) not in said])
        said |= {*map(str, table.notes)}
    doubts = {str(finding): finding for result in last.values() for finding in result.tasks.findings}
    first = [] if sites is None or not sites.differences else [sites_of_comparison(sites, str(sites.reference))]
    sections = [
        *([] if sites is None else [Section("sites", "Site by site", tables=first, more=sites.tables)]),
        Section("details", "Details", details, tables=tables),
        *([Section("doubts", "Doubts about the data", [*doubts.values()])] if doubts else []),
        *graph_section(last),
        *curve_section(comparison),
        *calibration_section(last),
        Section("words", "What words mean", terms=terms_of_comparison(comparison)),
        Section(
            "settings",
            "Settings",
            folded="\n\n".join(f"{name}:\n{result.method!r}" for name, result in last.items()),
        ),
    ]
    asked = _asked(comparison, last, source)
    return Content(title or "Who learns best, and with whom", asked, answer(comparison, reference), sections)


def _asked(comparison: Comparison, last: Mapping[str, Result], source: str) -> str:
    about = next((asked([result.tasks]) for result in last.values()), {})
    names = [name for name in comparison.chosen if name not in BASELINES]
    by = metric_in_words(comparison.metric, comparison.higher_is_better)
    seeds = len(next(iter(comparison.chosen.values())))
    which = f"Which of {few(names)} gives sites the best models of their own?"
    judged = f"Judged by {by}, on {seeds} random split{'s' * (seeds > 1)}{rows_used(about)}."
    return " ".join(filter(None, [asked_of(about, source), which, judged]))


def _method(comparison: Comparison, name: str) -> str:
    """Return what the method is called that a comparison has by a name."""
    result = comparison.results.get(name)
    return name if result is None else result.method.name


def _last(comparison: Comparison) -> dict[str, Result]:
    """Return the results of the last seed, as the table of sites has them; none where samples are not all here."""
    last = next(iter(comparison.chosen.values()))[-1].seed
    kept = {name: result for name, result in comparison.results.items() if result.env.seed == last}
    tested = all("test" in one.tasks.splits and int(one.tasks.sizes("test").sum()) for one in kept.values())
    return kept if tested else {}


def curve_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with the metric of every method over rounds or steps, where anything was evaluated."""
    points, over = _points(comparison)
    if not points:
        return
    scale, digits, unit = shown_in(comparison.share, 2)
    what = f"mean test {comparison.metric}{unit}"
    stopped = any(_stopped(trial) for trials in comparison.chosen.values() for trial in trials if not trial.failure)
    caption = f"{what} over {over}; bands are one standard deviation over seeds up and down. {STOPPED * stopped}"
    rows = [
        [Cell(name), Cell(x), mean_cell(scale * values)]
        for name, curve in points.items()
        for x, values in curve.items()
    ]
    table = Table([Column("method"), Column(over, "count"), Column(what, "number", digits)], rows, caption=what)
    yield Section("curves", f"Test {comparison.metric} over time", charts=[curve_chart("accuracy", caption, table)])


def _stopped(trial: Trial) -> bool:
    """Tell whether the models that are kept are other than the last."""
    ends = [*trial.curve[1][-1:], trial.summary["mean"]]
    return all(map(math.isfinite, ends)) and not math.isclose(ends[0], ends[-1])


def _points(comparison: Comparison) -> tuple[dict[str, dict[int, Tensor]], str]:
    """Return by method and evaluation the values of all seeds [S], and what the horizontal axis counts."""
    every = comparison.chosen.items()
    kept = {name: some for name, trials in every if (some := [t for t in trials if not t.failure and t.curve[0]])}
    trials = [trial for some in kept.values() for trial in some]
    steps = len({t.rounds for t in trials}) > 1 and all(t.local_steps == t.local_steps for t in trials)
    points: dict[str, dict[int, Tensor]] = {}
    for name, some in kept.items():
        values = [dict(zip(*trial.curve, strict=True)) for trial in some]
        rounds = sorted(set.intersection(*map(set, values)))
        stride = max(1, -(-len(rounds) // MOST_POINTS))
        each = some[0].local_steps / some[0].rounds if steps else 1
        for r in sorted({*rounds[::stride], *rounds[-1:]}):
            found = column([seed[r] for seed in values])
            if bool(found.isfinite().all()):
                points.setdefault(name, {})[round(each * r)] = found
    return points, "local steps per site" if steps else "round"


def content_of_benefit(benefit: Benefit, title: str, source: str) -> Content:
    """Return what a page says of a benefit."""
    asked, *found = benefit_findings(benefit, source)
    every = [benefit, *benefit.also.values()]
    charts = [chart for k, one in enumerate(every) for chart in _matrix(one, k)]
    tables = benefit_values(benefit)
    simple = [tables.pop(name) for name in [*tables] if name.startswith("reference")]
    sections = [
        Section("sites", "Site by site", tables=[sites_of_benefit(benefit)], more=[*tables.values()]),
        Section("details", "Details", [*(one for one in found if one.code not in ANSWER), TUNED], tables=simple),
        *([Section("pairs", "Who gains by whom", charts=charts)] if charts else []),
        Section("words", "What words mean", terms=terms_of_benefit(benefit)),
        Section("settings", "Settings", folded=_settings(benefit)),
    ]
    answer = [one for one in found if one.code in ANSWER]
    return Content(title or "What collaborating brings", str(asked), answer, sections)


def _matrix(benefit: Benefit, place: int) -> Iterator[Chart]:
    scale, digits, unit = scale_of(benefit)
    names = benefit.names[:MOST_SITES]
    gains = [g for g in benefit.pair_gains if {g.site, g.by} <= {*names} and not math.isnan(g.gain)]
    rows = [
        [Cell(gain.site), Cell(gain.by), gain_cell(gain, scale)]
        for gain in sorted(gains, key=lambda gain: -abs(gain.gain))
    ]
    what = f"gain{unit if benefit.relative else f', {of_metric(benefit)}'}"
    caption = (
        f"What each site gains by each other when the two collaborate alone ({what}), of {len(names)} of "
        f"{len(benefit.names)} sites. Blue is a gain, orange a loss; pairs that were not tried are empty."
    )
    table = Table([Column("who"), Column("by whom"), Column(what, "gain", digits)], rows, caption=what)
    if rows:
        yield matrix_chart(f"matrix-{place}", caption, names, table)


def _settings(benefit: Benefit) -> str:
    chosen = [f"chosen for {arm}: {', '.join(some)}" for arm, some in benefit.chosen.items()]
    return "\n".join([f"work: {benefit.work}", f"level: {benefit.level:g}", *chosen])


def content_of_description(description: Description, title: str) -> Content:
    """Return what a page says of a table before anything is run."""
    sections = [
        Section("sites", "Site by site", tables=[sites_described(description)]),
        Section("columns", "Columns", tables=[columns_described(description)]),
        Section("doubts", "Doubts about the data", [*description.findings] or ["None were found."]),
    ]
    asked = f"What is in {description.source or 'the table'}, and is it fit for a run?"
    return Content(title or "What the table holds", asked, summary(description), sections)
