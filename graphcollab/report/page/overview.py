"""What a reader of a page sees first of sites: one row each, with the best of all ways; and what words mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from graphcollab.findings import Finding
from graphcollab.gains import Benefit
from graphcollab.report._text import decimals, shown_in
from graphcollab.report.benefit_answer import GAINS
from graphcollab.report.benefit_table import COLUMNS, CONSTANT, gain_cell, mark, of_metric, scale_of
from graphcollab.report.site_table import SiteScores
from graphcollab.report.values import Cell, Column, Table
from graphcollab.report.words import metric_in_words, way_in_words
from graphcollab.train import Comparison
from graphcollab.train.trial import SHARES

FLATTERS = "The best way is the one with the largest gain of those tried, which flatters it."
Terms = list[tuple[str, str]]


def sites_of_benefit(benefit: Benefit) -> Table:
    """Return a row for every site: what it has alone, and the way by which it gains most."""
    (scale, digits, unit), (shown, of_alone, _) = scale_of(benefit), shown_in(benefit.metric in SHARES, 1)
    names, alone = [*benefit.names, "all sites"], benefit.scores["alone"].nanmean(0).tolist()
    rows, many = [], benefit.about.get("rows") or {"train": benefit.train.tolist(), "test": benefit.test.tolist()}
    held = [*map(sum, zip(*many.values(), strict=True))]
    for name, size in zip(names, [*held, sum(held)], strict=True):
        gains = [gain for gain in [*benefit.gains, *benefit.overall] if gain.site == name]
        told = [gain for gain in gains if not benefit.untold(gain.by) and not math.isnan(gain.gain)]
        best = max(told, key=lambda gain: gain.gain, default=None)
        gained = [Cell("alone"), Cell()]
        if best is not None and best.gain > 0:
            gained = [Cell(_way(best.by)), replace(gain_cell(best, scale), mark=mark(benefit, best.by))]
        rows.append([Cell(name), Cell(size), Cell(shown * gains[0].alone), *gained])
    places = [decimals(alone) if some is None else some for some in (of_alone, digits)]
    columns = [Column("site"), Column("rows", "count"), Column(f"alone, {of_metric(benefit)}", "number", places[0])]
    columns += [Column("best way"), Column(f"gain over alone{unit if benefit.relative else ''}", "gain", places[1])]
    return Table(columns, rows, [Finding("best-way", "sites", FLATTERS)], foot=1, caption="Every site")


def _way(name: str) -> str:
    return "all together" if name == "together" else name


def sites_of_comparison(sites: SiteScores, reference: str) -> Table:
    """Return a row for every site: the first metric by the reference, and by the method that does best there."""
    first, others = sites.scores[reference], [*sites.differences]
    metric, values = first.metrics[0], first[first.metrics[0].name]
    (scale, digits, unit), sign = shown_in(metric.name in SHARES, 1), 1 if metric.higher_is_better else -1
    gains = torch.stack([sites.differences[name][0] for name in others])  # [M, K, 3]
    best = (sign * gains[..., 0]).nan_to_num(-math.inf).argmax(0).tolist()
    places = decimals(values.tolist()) if digits is None else digits
    rows = []
    for k, name in enumerate(first.names):
        gain, low, high = (scale * gains[best[k], k]).tolist()
        better = sign * gain > 0
        told = Cell(gain, interval=None if math.isnan(low) else (low, high)) if better else Cell()
        way = Cell(others[best[k]] if better else reference)
        rows.append([Cell(name), Cell(int(first.sizes[k])), Cell(scale * float(values[k])), way, told])
    title = f"difference to {reference}, {'points' if scale > 1 else metric.name}"
    columns = [Column("site"), Column("test rows", "count")]
    columns += [Column(f"{reference}, {metric.name}{unit}", "number", places), Column("best method")]
    columns += [Column(title, "signed", places)]
    said = f"{FLATTERS.replace('way', 'method')} In brackets 95 % intervals of each by itself, on the last seed."
    return Table(columns, rows, [Finding("best-way", "sites", said)], caption=f"Every site, {metric.name}")


def terms_of_benefit(benefit: Benefit) -> Terms:
    """Return what the words of a benefit's page mean."""
    every, flat = [benefit, *benefit.also.values()], benefit.flat or "what its training rows say by themselves"
    return [
        *((one.metric, metric_in_words(one.metric, one.higher_is_better)) for one in every),
        *_ways(["alone", *benefit.arms, *benefit.baseline]),
        ("sample", "a row of the table"),
        ("split", "a random division of each site's rows into those to learn from, to choose settings by, to test on"),
        ("round, epoch", "in an epoch a site's model sees each of its rows once; after a round sites exchange"),
        ("gain", f"{GAINS[benefit.relative]}."),
        ("95 % interval", "values that fit what was measured, of one comparison by itself, allowing for rows shared"),
        ("* (a star)", "evidence, after correction for all comparisons of this page"),
        ("constant", f"the same prediction for all rows of a site, {flat}: a model that is no better knows nothing"),
        (CONSTANT, "on half of the splits or more the constant took the place of models"),
        *((term, what) for term, _, what in (one.partition(": ") for one in COLUMNS.split("; "))),
    ]


def terms_of_comparison(comparison: Comparison) -> Terms:
    """Return what the words of a comparison's page mean."""
    return [
        (comparison.metric, metric_in_words(comparison.metric, comparison.higher_is_better)),
        *_ways([*comparison.chosen]),
        ("seed", "what decides everything random: with another one rows are split, and models begin, differently"),
        ("±", "standard deviation over seeds"),
        ("95 % interval", "values that fit what was measured; one in twenty misses the truth"),
        ("p-value", "how often chance alone would make so large a difference"),
        ("worst 10 %, worst 20 %", "mean over the sites that do worst"),
        ("std over sites", "standard deviation over sites: how unequally they are served"),
        ("round, local step", "training goes on in rounds; a local step changes a site's model by its own rows"),
        ("sent per site", "what leaves a site in all, as bytes"),
    ]


def _ways(names: Sequence[str]) -> Terms:
    return [(_way(name), what) for name in names if (what := way_in_words(name))]
