"""What a page says of a comparison or a benefit: the answer, and the sections it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from graphcollab.checks import own_filter
from graphcollab.findings import Finding
from graphcollab.gains import Benefit
from graphcollab.gains.held import asked
from graphcollab.naming import few
from graphcollab.report._terms import better_at_the_end_only, failures, noted, sure_p_value, unequal_terms
from graphcollab.report.benefit_answer import benefit_findings
from graphcollab.report.benefit_table import benefit_values, gain_cell, of_metric, scale_of, sites_of_benefit
from graphcollab.report.description import Description, columns_described, sites_described, summary
from graphcollab.report.page.charts import Chart, Content, Section, matrix_chart
from graphcollab.report.page.drawn import calibration_section, curve_section, graph_section
from graphcollab.report.site_table import SiteScores, results_by_name, site_table, sites_of_comparison
from graphcollab.report.tables import FEW_SEEDS, paired_values, results_values
from graphcollab.report.values import Cell, Column, Table, cell_text, decimals, mean_cell, number, p_text, shown_in
from graphcollab.report.words import (
    asked_of,
    explained,
    metric_in_words,
    metric_name,
    rows_used,
    terms_of_benefit,
    terms_of_comparison,
)
from graphcollab.train import Comparison, Result
from graphcollab.train.baseline import BASELINES

LEVEL = 0.05
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
    better: list[str] = []
    if (seeds := len(comparison.chosen[reference])) in FEW_SEEDS:
        said = f"Whether any method is better than {reference} is open: {FEW_SEEDS[seeds]}."
        verdict = [Finding("open", reference, said, {"seeds": seeds})]
        advice = Finding("advice", "seeds", "So compare on five seeds or more before anything is decided.")
    else:
        better, worse = _sure(comparison, reference, others)
        verdict = [_verdict(reference, better, worse)]
        if better:
            said = f"So use {better[0]}; the table of sites says who has less by it."
        else:
            level = LEVEL / len(_claimed(comparison, reference))
            verdict += better_at_the_end_only(comparison, reference, others, level)
            said = f"So stay with {reference}, or ask again with more rows or seeds."
        advice = Finding("advice", next(iter(better), reference), said)
    difference = _difference(comparison, next(iter(better), others[0]), reference)
    doubts = len(_doubts(_last(comparison)))
    said = f"Read the doubts about the data first ({doubts}, below): what is found may come of them." * bool(doubts)
    return [*verdict, difference, *noted("doubt", "tasks", said, doubts=doubts), advice]


def _doubts(last: Mapping[str, Result]) -> list[Finding]:
    return [*{str(finding): finding for result in last.values() for finding in result.tasks.findings}.values()]


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
    mean = cell_text(mean_cell([scale * v for v in comparison.values(name)]), Column("", "number", digits))
    return Finding("best-mean", name, f"{name} has the best mean over sites, test {comparison.metric}{unit} {mean}.")


def _digits(comparison: Comparison) -> int:
    """Return the decimals of means in a sentence."""
    return 2 if comparison.share else 1 + decimals([v for name in comparison.chosen for v in comparison.values(name)])


def _sure(comparison: Comparison, reference: str, others: list[str]) -> tuple[list[str], list[str]]:
    """Return methods better and worse than the reference by `sure_p_value`, corrected (Bonferroni) for all methods."""
    sign, many = 1 if comparison.higher_is_better else -1, len(_claimed(comparison, reference))
    known = [name for name in others if many * sure_p_value(comparison, name, reference) <= LEVEL]
    sure = {name: sign * comparison.paired(name, reference).mean for name in known}
    return [name for name, gain in sure.items() if gain > 0], [name for name, gain in sure.items() if gain < 0]


def _verdict(reference: str, better: list[str], worse: list[str]) -> Finding:
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
    called = {one: result.method.name for one, result in comparison.results.items()}
    ways = [explained(called.get(one, one), one) for one in (name, reference)]
    said = f"With {ways[0]} {metric_name(comparison.metric)} is {moved} than with {ways[1]}{between}."
    numbers = {"mean": scale * found.mean, "interval": interval, "p": p, "comparisons": many}
    return Finding("difference", name, said, numbers)


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
    settings = "\n\n".join(f"{name}:\n{result.method!r}" for name, result in last.items())
    first = [] if sites is None or not sites.differences else [sites_of_comparison(sites, str(sites.reference))]
    sections = [
        *([] if sites is None else [Section("sites", "Site by site", tables=first, more=sites.tables)]),
        Section("details", "Details", details, tables=tables),
        *([Section("doubts", "Doubts about the data", doubts)] if (doubts := _doubts(last)) else []),
        *graph_section(last),
        *curve_section(comparison),
        *calibration_section(last),
        Section("words", "What words mean", terms=terms_of_comparison(comparison)),
        Section("settings", "Settings", folded=settings),
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


def _last(comparison: Comparison) -> dict[str, Result]:
    """Return the results of the last seed, as the table of sites has them; none where samples are not all here."""
    kept, _ = results_by_name(comparison)
    tested = all("test" in one.tasks.splits and int(one.tasks.sizes("test").sum()) for one in kept.values())
    return kept if tested else {}


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
