"""`Benefit`: what sites gain by collaborating, with the numbers it is judged by."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.files import write_whole
from graphcollab._base.naming import Node, find_node
from graphcollab.analysis.evidence import FLOOR, Compared, Gain, Scores, Verdict, judge, others_of, plain
from graphcollab.analysis.held import LEAST
from graphcollab.analysis.metrics import METRICS
from graphcollab.analysis.metrics.inference import Differences, corrected_differences
from graphcollab.analysis.metrics.weight_spread import weight_agreement
from graphcollab.analysis.trial import SHARES
from graphcollab.train.findings import EVEN_KINDS

LEVELS = {"overall": 0.35, "groups": 0.15, "sites": 0.3, "pairs": 0.2}  # each family's part of the level
MODELS = {"groups": "without", "pairs": "pairs"}  # whose models a family's are, if not called as what sites gain by


@dataclass(frozen=True)
class Benefit:
    """Who gains by whom: metrics of K sites on R random splits of their samples, and what follows from them.

    A gain is the difference to training alone on the same split; positive is better. Of positive errors it is the share
    by which the error falls, judged by logarithms, since errors of few samples differ much between splits. Intervals
    and p-values are those of `corrected_differences`, p-values adjusted by Holm's method in four families: gains in the
    mean over sites (at 0.35 of the level), the same without one of them (0.15), gains of sites by all together and by
    methods (0.3), and by single others (0.2). So the chance to claim any where there is none is ``level`` at most.

    Models that overfit less seem to gain where nothing can be learned, and all do where training alone has not learned
    enough. So a gain must be one over constants, too, and, with ``baseline="sklearn"``, over a linear model of each
    site's own training samples: the largest p-value counts. A constant predicts a site's mean training target, or its
    class frequencies; its AUC is 0.5. Errors below a hundredth of its error count as that.

    Args:
        names: Names of the sites.
        metric: Name of the metric.
        higher_is_better: Whether a larger value of it is better.
        scores: Test metric of every site, [R, K], ``"alone"``, ``"together"``, and by method.
        pairs: That of site i when it collaborates with site j only, [R, K, K]; NaN where that was not tried.
        without: That of site i when all but site k collaborate, [R, K, K].
        outside: That of the model of all others at a site that gave them nothing, [R, K].
        constant: That of a constant in the place of models, [R, K]; NaN where the loss has none.
        flat: What the constant is, in words.
        train: Mean number of training samples, [K].
        test: Mean number of test samples, [K].
        chosen: What was chosen on validation data, for every arm a list with one text for each split.
        models: The chosen one of several models for every arm and split; empty where a constant took its place.
        picked: The chosen model, settings and number of rounds, likewise; None where a constant took its place.
        halves: Where sites have more test than training samples: the same metric on either half of the test samples,
            [R, 2, K], also of ``"constant"``, and [R, 2, K, K] of ``"pairs"`` and ``"without"``.
        rarer: Mean number of test samples of a site's rarer class, [K], where there are two in all, or of test events.
        minority: Number of a site's samples that have another target than most of them have, at most 5.
        groups: Mean number of groups that a site's test samples are of, [K], where samples are in groups.
        deviation: Name and mean standard deviation of the target where one for all sites standardized it; errors are
            in the target's own unit.
        weighted: Whether samples have weights, so that metrics are weighted means.
        findings: What runs of methods found wrong with their weights, kinds for each split; empty where nothing.
        weights: What sites gave each other in the last round, [R, K, K], receivers in rows, of methods along edges.
        work: What was played, in words.
        quick: What of it was less than usual, in words; empty if nothing was.
        tried: Pairs that were tried, and how many there are.
        level: α.
        baseline: Test metric of every site, [R, K], by scikit-learn's models (`benefit`), if asked for.
        about: Rows of sites by split, and what the table's columns are (``graphcollab.analysis.held.asked``).
        also: What follows from the same models by further metrics, by their names.
    """

    names: tuple[str, ...]
    metric: str
    higher_is_better: bool
    scores: Mapping[str, Tensor] = field(repr=False)
    pairs: Tensor = field(repr=False)
    without: Tensor = field(repr=False)
    outside: Tensor = field(repr=False)
    constant: Tensor = field(repr=False)
    flat: str = field(repr=False)
    train: Tensor = field(repr=False)
    test: Tensor = field(repr=False)
    chosen: Mapping[str, list[str]] = field(repr=False)
    models: Mapping[str, list[str]] = field(default_factory=dict, repr=False)
    picked: Mapping[str, list[tuple[str, Mapping[str, Any], int] | None]] = field(default_factory=dict, repr=False)
    halves: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    rarer: Tensor | None = field(default=None, repr=False)
    minority: Tensor | None = field(default=None, repr=False)
    groups: Tensor | None = field(default=None, repr=False)
    deviation: tuple[str, float] | None = field(default=None, repr=False)
    weighted: bool = field(default=False, repr=False)
    findings: Mapping[str, list[str]] = field(default_factory=dict, repr=False)
    weights: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    work: str = ""
    quick: str = ""
    tried: tuple[int, int] = (0, 0)
    level: float = 0.05
    baseline: Scores = field(default_factory=dict, repr=False)
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    also: Mapping[str, Benefit] = field(default_factory=dict, repr=False)

    @property
    def one_sided(self) -> Tensor:
        """Sites of which nothing is claimed, since almost all of their samples have one target, [K]."""
        return torch.zeros_like(self.test).bool() if self.minority is None else self.minority < LEAST

    @property
    def in_unit(self) -> bool:
        """Whether the metric is an error in the unit of a target that was standardized, or in a power of it."""
        return self.deviation is not None and self.metric in METRICS and METRICS[self.metric].unit > 0

    @property
    def arms(self) -> tuple[str, ...]:
        """What sites may do but train alone: ``"together"``, and methods."""
        return tuple(name for name in self.scores if name != "alone")

    @cached_property
    def overall(self) -> list[Gain]:
        """Gains in the mean over sites, by all together and by every method; their ``site`` is ``"all sites"``."""
        return self.mean_gains(torch.ones_like(self.test), self.arms, claimed=True)

    @cached_property
    def by_samples(self) -> list[Gain]:
        """Gains in the mean over sites weighted by their test samples: told beside `overall`, nothing is claimed."""
        return self.mean_gains(self.test, self.arms)

    @cached_property
    def by_baseline(self) -> list[Gain]:
        """What scikit-learn's models gain over training alone in the mean over sites: told, nothing is claimed."""
        return self.mean_gains(torch.ones_like(self.test), tuple(self.baseline)) if self.baseline else []

    def mean_gains(self, weight: Tensor, arms: Sequence[str], claimed: bool = False) -> list[Gain]:
        """Return gains by arms in the mean over sites of a weight [K]; nothing is claimed by default."""

        def mean(scores: Tensor) -> Tensor:  # [..., 1]
            share = weight.expand_as(scores).masked_fill(scores.isnan(), 0)
            return (share * scores.nan_to_num()).sum(-1, keepdim=True) / share.sum(-1, keepdim=True)

        def of(given: Scores) -> Compared:
            by_arm = torch.stack([mean(given[arm]) for arm in arms], -2)
            return Compared(by_arm, [*map(mean, others_of(given))])

        found = self._gains("overall", of, self.test.sum() / self.train.sum(), arms, ["all sites"])
        return found if claimed else [replace(gain, p_value=math.nan, verdict="no evidence") for gain in found]

    @cached_property
    def gains(self) -> list[Gain]:
        """Gains of every site by all together and by every method."""
        return self._gains("sites", self._by_arm, self.test / self.train, self.arms, self.names, self.one_sided)

    def _by_arm(self, given: Scores) -> Compared:
        return Compared(torch.stack([given[arm] for arm in self.arms], -2), others_of(given))

    @cached_property
    def pair_gains(self) -> list[Gain]:
        """Gains of every site by every other that was tried."""
        ratio, unknown = (self.test / self.train)[:, None], self.one_sided[:, None]
        return self._gains("pairs", self._by_site, ratio, self.names, self.names, unknown)

    @staticmethod
    def _by_site(given: Scores) -> Compared:
        return Compared(given["pairs"], others_of(given), axis=-1)

    @cached_property
    def group_gains(self) -> list[Gain]:
        """Gains of all but one site, mean over them, for each of three or more: does it spoil the group (`worth`)?

        No gain is claimed unless they do better without that one than with it (`spared`), in the mean, and where there
        is evidence of a gain by all together, surely.
        """

        def of(given: Scores) -> Compared:
            without = given["without"]
            others = [  # means over the members of every group
                one[..., None].expand_as(without).masked_fill(without.isnan(), torch.nan).nanmean(-2)
                for one in others_of(given)
            ]
            return Compared(without.nanmean(-2)[..., None, :], others)

        others = 1 - torch.eye(len(self.names), dtype=torch.float64)
        ratio = (others @ self.test.double()) / (others @ self.train.double())
        sites = [f"all but {name}" for name in self.names] * (len(self.names) > 2)
        gains = self._gains("groups", of, ratio, ["together"], sites)
        helps = any(gain.by == "together" and gain.verdict == "gains" for gain in self.overall)
        better = self.spared.low if helps else self.spared.mean
        for k, gain in enumerate(gains):
            if gain.verdict == "gains" and better[k] <= 0:
                gains[k] = replace(gain, verdict="no evidence")
        return [gain for gain in gains if not math.isnan(gain.gain)]

    @cached_property
    def spared(self) -> Differences:
        """By how much all but each site do better without it than with it, in the mean over them, [K]."""
        without = self._better(self.without, self.scores["together"][:, :, None]).nanmean(1)
        return corrected_differences(without, self.test.sum() / self.train.sum())

    @property
    def matrix(self) -> Tensor:
        """Mean gains of site i by site j alone, [K, K]; NaN where that was not tried."""
        return self._shown(self._differences(self._by_site, (self.test / self.train)[:, None], 0).mean)

    @cached_property
    def worth(self) -> Tensor:
        """What site i would lose if site k left the group of all, [K, K], in the mean; NaN where that was not tried."""
        return self._shown(self._better(self.scores["together"][:, :, None], self.without).nanmean(0))

    @cached_property
    def left_out(self) -> Tensor:
        """What the model of all others gains each site that had no part in it, over training alone, in the mean, [K].

        NaN where that was not tried. It is what a newcomer without samples to learn from would get.
        """
        return self._shown(self._better(self.outside, self.scores["alone"]).nanmean(0))

    def of(self, site: Node) -> dict[str, Gain]:
        """Return all gains of a site, by name or position (`Node`): by arm, and by the names of others."""
        name = self.names[find_node(site, self.names, "site")]
        return {gain.by: gain for gain in [*self.gains, *self.pair_gains] if gain.site == name}

    def agreement(self, method: str) -> float:
        """Return how alike the weights are that a method learned on different splits (`weight_agreement`).

        Splits on which they were found to be equal have no say; NaN without two others.
        """
        even = [bool({*kinds.split(", ")} & {*EVEN_KINDS}) for kinds in self.findings.get(method, [])]
        told = self.weights[method][~torch.tensor(even)] if any(even) else self.weights[method]
        return weight_agreement(told) if len(told) > 1 else math.nan

    def against(self, name: str) -> Benefit:
        """Return it with a simple tool of ``baseline`` in the place of training alone."""
        halves = {**self.halves, "alone": self.halves[name]} if self.halves else {}
        return replace(self, scores={**self.scores, "alone": self.baseline[name]}, halves=halves, baseline={})

    @property
    def found(self) -> list[Gain]:
        """Gains and losses there is evidence of: in the mean over sites, over all but one, then the largest."""

        def claimed(gains: list[Gain]) -> list[Gain]:
            return [gain for gain in gains if gain.verdict in ("gains", "loses")]

        single = sorted(claimed([*self.gains, *self.pair_gains]), key=lambda gain: -abs(gain.gain))
        return [*claimed(self.overall), *claimed(self.group_gains), *single]

    @property
    def helps(self) -> bool:
        """Whether there is evidence of any gain, of a site or in the mean over sites."""
        return any(gain.verdict == "gains" for gain in self.found)

    def save(self, path: str | Path) -> Path:
        """Write all numbers as JSON, the whole file or none of it."""
        return write_whole(path, json.dumps(self._told(), indent=1).encode())

    def _told(self) -> dict[str, Any]:
        told = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__ if name != "also"}
        told["matrix"] = plain(self.matrix)
        for name in ("overall", "by_samples", "by_baseline", "gains", "pair_gains", "group_gains"):
            told[name] = plain([asdict(gain) for gain in getattr(self, name)])
        return {**told, "also": {name: one._told() for name, one in self.also.items()}}

    @cached_property
    def relative(self) -> bool:
        """Whether gains are shares of an error: the metric is positive, and better the smaller it is."""
        every = (*self.scores.values(), self.pairs, self.without, self.outside)
        return not self.higher_is_better and all(bool(((one > 0) | one.isnan()).all()) for one in every)

    def by_constants(self, by: str) -> bool:
        """Tell whether constants stood for an arm's models on half of the splits: then these have no part in a gain."""
        chosen = self.chosen.get(by, [])
        return 2 * chosen.count(self.flat) >= max(len(chosen), 1)

    def untold(self, by: str) -> bool:
        """Tell whether neither of two kinds of models did better than constants, so that there is no gain or loss.

        Where those of training alone did, models no better than constants lose in the mean over sites.
        """
        return self.by_constants(by) and self.by_constants("alone")

    @property
    def _whole(self) -> Scores:
        """Scores by all that was trained, [R, K], of groups [R, K, K]."""
        return {**self.scores, **self.baseline, "pairs": self.pairs, "without": self.without, "constant": self.constant}

    def _better(self, score: Tensor, than: Tensor) -> Tensor:
        """Return by how much scores are better: differences, or of errors logarithms of ratios."""
        if self.relative:
            return (than / score).log()
        return score - than if self.higher_is_better else than - score

    def _mean_over_splits(self, scores: Tensor) -> Tensor:
        """Return means over splits [...] of scores [R, ...]; of errors geometric ones."""
        return scores.log().nanmean(0).exp() if self.relative else scores.nanmean(0)

    def _shown(self, gain: Tensor) -> Tensor:
        """Return gains as they are shown: of logarithms, shares by which an error falls."""
        return -torch.expm1(-gain) if self.relative else gain

    def _differences(self, of: Callable[[Scores], Compared], ratio: Tensor, than: int) -> Differences:
        """Return gains of a family, [by, k], over one of the others; errors below the floor count as that."""

        def gains(given: Scores) -> Tensor:
            score, others, axis = of(given)
            score, other, floor = score, others[than].unsqueeze(axis), FLOOR * others[1].unsqueeze(axis)
            if self.relative:
                score, other = (torch.where(one < floor, floor, one) for one in (score, other))
            return self._better(score, other)

        return corrected_differences(gains(self._whole), ratio, halves=gains(self.halves) if self.halves else None)

    def _gains(
        self,
        family: str,
        of: Callable[[Scores], Compared],
        ratio: Tensor,
        by: Sequence[str],
        sites: Sequence[str],
        unknown: Tensor | None = None,
    ) -> list[Gain]:
        """Return a family of gains, [by, k], over training alone, with what there is evidence of."""
        found, *rivals = (self._differences(of, ratio, than) for than in range(3))
        level = LEVELS[family] * self.level
        p_value, bar = judge(found, rivals, level, unknown)
        score, others, axis = of(self._whole)
        scores, alone, constant = map(self._mean_over_splits, (score.movedim(axis, 1), *others[:2]))
        gains, lows, highs, bars = (self._shown(one) for one in (found.mean, found.low, found.high, bar))
        if self.metric in SHARES:  # no difference of shares goes further, and a t-interval of few splits may
            lows, highs = lows.clamp(min=-1), highs.clamp(max=1)
        numbers = torch.stack([one.movedim(axis, 0) for one in (gains, lows, highs, p_value, bars)], -1)
        told = []
        for k, site in enumerate(sites):
            for a, name in enumerate(by):
                gain, low, high, p, least = numbers[a, k].tolist()
                reached, models = float(scores[a, k]), MODELS.get(family, name)
                stood = self.by_constants(models)  # by one choice for all sites, or pairs
                verdict: Verdict = "no evidence"
                if math.isnan(reached):
                    if name not in self.arms:
                        continue
                    verdict = "not defined"
                elif p <= level and not self.untold(models) and not (stood and (gain > 0 or family != "overall")):
                    verdict = "gains" if gain > 0 else "loses"
                means = float(alone[k]), reached, float(constant[k])
                told.append(Gain(site, name, *means, gain, low, high, p, least, verdict))
        return told
