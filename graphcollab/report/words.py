"""Plain-language descriptions of methods, metrics, and the described table for reports."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from graphcollab import methods
from graphcollab._base.documentation import of_sites
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few
from graphcollab.analysis import Benefit, Comparison
from graphcollab.analysis.baseline import BASELINES
from graphcollab.analysis.metrics import METRICS
from graphcollab.data.losses import predicted_by
from graphcollab.report.benefit_table import COLUMNS, CONSTANT, GAINS, way_of

WAYS = {
    "alone": "each site trains a model on its own rows only",
    "together": "one model for all sites, by federated averaging",
    BASELINES[0]: "the same prediction for all rows of a site, by what its training rows say: a model must do better",
    BASELINES[1]: "scikit-learn's linear model of each site's own rows",
    BASELINES[2]: "scikit-learn's linear model of all sites' rows in one place",
    BASELINES[3]: "scikit-learn's linear model of all sites' rows in one place, with the site as a further input",
    BASELINES[4]: "scikit-learn's linear model of each site's training rows, from which ours learn, too",
}

TEXTS = {
    "question": "{asked} Do sites gain by collaborating, which of them, and by whom? Judged by {metric}{work}.",
    "best": "{way} {metric} {moves} by {told} in the mean over sites, compared with training alone{between}. {sure}",
    "reading": "{gains}, with 95 % intervals of each by itself. A star is evidence: the chance that any is wrong is at "
    "most {chance:.3g} %.",
    "mean": "In the mean over sites, {by}: {told}.",
    "group": "Of groups that do better without one site, {site} gain most: {told} in the mean over them. {sure}",
    "metric": "In {metric}, mean over sites: {told}.",
    "metrics": "With {metrics} metrics each is judged more strictly: the chance of a wrong star stays the same.",
    "site": "{site} {verdict} {by}: {told}.",
    "more-sites": "There is evidence in {comparisons} further comparisons, with stars in the tables.",
    "constants": "On {splits} of {of} splits models {models} did no better than {flat} of each site, which took their "
    "place: numbers of them are those of that, and the models may be worse.",
    "models": "Models were chosen on validation samples: {told}.",
    "no-better": "In {metric}, mean over sites, models {of_models} do no better than {flat} of each site ({told}), so "
    "gains of such models are not counted.",
    "no-better-weighted": "In {metric}, weighted by test samples, models {of_models} do no better than {flat} of each "
    "site ({told}): sites with few test samples make their mean over sites look better.",
    "last-round": "The last of {rounds} rounds was the best for models {models}: with more rounds, {setting}, they may "
    "be better.",
    "standardized": "Models learn the target in standard deviations, of which one is about {told}; here {units} of "
    "{column!r}.",
    "weighted": "Samples have weights: metrics are weighted means at each site.",
    "weights-wrong": "Found on {splits} of {of} splits with {method}: {kind}.",
    "pairs-drawn": "Of {pairs} pairs {tried} were tried, as many for every site, and {left_out} sites were left out in "
    "turn.",
    "few-tested": "Few {what}test samples on a split ({which}): what is measured there is mostly chance.",
    "rare-class": "Few {rare} on a split ({which}): be wary of such sites and of means.",
    "no-star": "No star at sites with fewer than {least} {beside} ({which}): no split "
    "of these shows what the sites lack.",
    "alone-weak": "Training alone has not learned all that the rows of sites tell: {own} gains {told} over it. "
    "Compared with that, {by}: {beyond}. Stars of gains count only what is beyond both.",
    "simpler": "On the same test rows {by} gains more than every way tried: {told}, of which nothing is claimed.",
    "swayed": "That interval is so wide by {site}, with {rows} test samples on a split: in the mean over the "
    "others the gain is {told}, of which nothing is claimed.",
    "partly-defined": "{metric} is not defined on all {of} splits; numbers of these sites rest on so many: {which}.",
    "not-defined": "{site}: {metric} is not defined on its test samples in any split.",
}
ADVICE = {
    "collaborate": "So let them collaborate {by}{but}.",
    "leave-out": "So do not let all collaborate: train {site} alone, and ask again without it, with new rows if you "
    "can, since these have shown which site to leave out.",
    "starred": "So collaborate where a star says that a site gains, by what it gains by; for the others train alone.",
    "again": "So nothing is decided{but}: this was a quick run ({quick}). Ask again with the usual numbers first.",
    "alone": "So train alone.",
    "longer": "So nothing can be said yet: models {which} do no better than {flat}. There may be nothing to learn from "
    "these columns; or train for longer, {rounds}, or by other steps, {lrs}.",
    "likely": "So there is no evidence yet, but sites seem to gain {way}: confirm that on new rows before you rely on "
    "it, or ask again with {many} samples.",
    "undecided": "So this is undecided, which is not a no. Until more is known train alone, or ask again with "
    "{many} samples.",
}
"""Statements about a benefit, by the codes of findings, and its advice."""


def say(code: str, subject: str, numbers: Mapping[str, Any], **words: object) -> Finding:
    """Return a finding worded by `TEXTS`."""
    return Finding(code, subject, TEXTS[code].format(**{**numbers, **words}), numbers)


def metric_name(name: str) -> str:
    """Return the display name of a metric."""
    return (METRICS[name].title if name in METRICS else "") or name


def metric_in_words(name: str, higher_is_better: bool) -> str:
    """Return a metric's name, explanation and direction for use in a sentence."""
    what = METRICS[name].explanation if name in METRICS else ""
    return f"{metric_name(name)} ({what + '; ' * bool(what)}{'larger' if higher_is_better else 'smaller'} is better)"


def way_in_words(name: str) -> str:
    """Return what sites do in a method, the first line of its docstring, or "" if unknown."""
    if name in WAYS or name not in methods.__all__:
        return WAYS.get(name, "")
    line = (inspect.getdoc(methods.get_method(name)) or "").partition("\n")[0].removesuffix(".")
    title, colon, rest = line.partition(": ")
    what = of_sites(rest if colon and "node" not in title else line)
    return what[0].lower() + what[1:]


def explained(name: str, called: str = "") -> str:
    """Return the name of a way to train, with an explanation in brackets if known."""
    what = way_in_words(name)
    return f"{called or name}{f' ({what})' * bool(what)}"


def asked_of(about: Mapping[str, Any], source: str = "") -> str:
    """Describe a table and the prediction target, given the output of `graphcollab.analysis.held.asked`."""
    rows, named = about.get("rows"), source or "The data"
    if not rows:
        return f"{source}." * bool(source)
    held = f"{sum(map(sum, rows.values())):,} rows of {len(rows['train'])} sites"
    if "target" not in about:
        return f"{named}: {held}."
    kind = {"counts": "a count", "times": "a time until an event"}.get(predicted_by(about["loss"]), "an amount")
    what = "the risk of the event that ends its" if predicted_by(about["loss"]) == "times" else "its"
    classes = f" ({few([*map(str, about['classes'])], ' or ')})" if about["classes"] else f" ({kind})"
    kept = f" Rows of the same {about['group']!r} stay together." if about["group"] else ""
    return (
        f"{named}: {held} (column {about['site']!r}). A row is one case: models predict {what} {about['target']!r}"
        f"{classes} from {few(about['columns'])}; numbers that a model is given: {about['inputs']}.{kept}"
    )


def rows_used(about: Mapping[str, Any]) -> str:
    """Describe the numbers of rows for training, validation and testing."""
    many = {name: sum(held) for name, held in about.get("rows", {}).items()}
    uses = {"train": "to learn from", "val": "to choose settings by", "test": "to test on"}
    told = [f"{many[name]:,} {use}" for name, use in uses.items() if many.get(name)]
    return f" (of the rows {', '.join(told)})" * bool(told)


def terms_of_benefit(benefit: Benefit) -> list[tuple[str, str]]:
    """Return the glossary of a benefit's page."""
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


def terms_of_comparison(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the glossary of a comparison's page."""
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


def _ways(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(way_of(name), what) for name in names if (what := way_in_words(name))]
