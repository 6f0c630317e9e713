"""Whether probabilities mean what they say: how often predictions were right, by how sure they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from graphcollab.checks import own_filter
from graphcollab.metrics import Metric
from graphcollab.metrics.probabilities import BINS, confidences
from graphcollab.report.page.charts import calibration_chart
from graphcollab.report.page.content import Section
from graphcollab.report.values import Cell, Column, Table
from graphcollab.train import Result

KINDS = ("weight", "confidence", "right")
TITLE = "Do probabilities mean what they say?"
LEFT_OUT = "Left out between sites: it would take counts of single predictions, which do not leave a site."
CAPTION = (
    "How often predictions on test samples of all sites were right, by the probability that was predicted, on the last "
    "seed. On the dotted line probabilities mean what they say; below it models are too sure. Small dots are of few "
    "samples."
)
OF_CLASSES = ("cross_entropy", "bce")


def calibration_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section on whether probabilities mean what they say, over all nodes' test samples, in bins as `ece`'s."""
    some = {name: result for name, result in last.items() if result.tasks.loss in OF_CLASSES}
    rows = [
        [Cell(name), Cell(weight), Cell(100 * confidence / weight), Cell(100 * right / weight)]
        for name, result in some.items()
        if not _between_parties(result)
        for weight, confidence, right in _bins(result).T.tolist()
        if weight > 0
    ]
    titles = ("predicted probability (%)", "share that was right (%)")
    columns = [Column("method"), Column("samples", "count"), *(Column(title, "number", 1) for title in titles)]
    if rows:
        chart = calibration_chart("calibration", CAPTION, Table(columns, rows, caption=TITLE))
        yield Section("calibration", TITLE, charts=[chart])
    elif some:
        yield Section("calibration", TITLE, [LEFT_OUT])


def _between_parties(result: Result) -> bool:
    """Tell whether nodes belong to several parties, each of which speaks for itself, and not to processes of one."""
    plane = result.env.plane
    return not plane.alone and sum(plane.everyone(plane.speaks)) > 1


def _bins(result: Result) -> Tensor:
    """Return sums of weights, confidences and right predictions of every bin over all nodes, [3, BINS]."""
    measures = [
        Metric(f"{kind} {b}", True, partial(_sum, kind, b), weighted=True, of_classes=True)
        for kind in KINDS
        for b in range(BINS)
    ]
    with own_filter("ignore", code="quality", subject="metric"):  # nodes without test samples have none in any bin
        scores = result.scores(measures, "test")
    sums = torch.stack([scores[one.name][scores.members] for one in measures]).nansum(1)
    return sums.reshape(len(KINDS), BINS)


def _sum(kind: str, bin_: int, outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """Return of every row a sum over the samples in a bin, [R]."""
    confidence, right, bins, weight = confidences(outputs, targets, mask, weight)
    inside = weight * (bins == bin_)
    values = {"weight": torch.ones_like(confidence), "confidence": confidence, "right": right}[kind]
    return (inside * values.where(inside > 0, 0.0)).sum(1)
