"""`Benefit`: the gains of sites by collaborating, with the underlying numbers."""

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
from graphcollab.analysis.evidence import FLOOR, Choice, Compared, Gain, Scores, Verdict, judge, others_of, plain
from graphcollab.analysis.held import LEAST
from graphcollab.analysis.metrics import METRICS
from graphcollab.analysis.metrics.inference import Differences, corrected_differences
from graphcollab.analysis.metrics.weight_spread import weight_agreement
from graphcollab.analysis.trial import SHARES
from graphcollab.train.findings import EVEN_KINDS

LEVELS = {"overall": 0.35, "groups": 0.15, "sites": 0.3, "pairs": 0.2}  # each family's share of the level
MODELS = {"groups": "without", "pairs": "pairs"}  # arm whose models a family uses, if not that in `Gain.by`


@dataclass(frozen=True)
class Benefit:
    """Which sites gain by collaborating with whom: metrics of K sites on R random splits, and the resulting claims.

    A gain is the difference from training alone on the same split; positive is better. For positive errors, it is the
    relative reduction of the error, tested on the log scale, since errors on few samples vary widely between splits.
    Intervals and p-values are those of `corrected_differences`, with Holm's adjustment in four families: mean gains
    over sites (at 0.35 of the level), the same without one site (0.15), gains of sites by all together and by methods
    (0.3), and by single other sites (0.2). If there is no gain, the chance of claiming any is at most ``level``.

    Models that overfit less seem to gain if nothing can be learned, and all do if training alone is underfitted.
    Therefore, a gain must also hold against constants and, with ``baseline="sklearn"``, against a linear model of each
    site's own training samples: the largest p-value counts. A constant predicts a site's mean training target, or its
    class frequencies; its AUC is 0.5. Errors below a hundredth of the constant's error are raised to that value.

    Args:
        names: Names of the sites.
        metric: Name of the metric.
        higher_is_better: Whether higher values of the metric are better.
        scores: Test metric of every site, [R, K], ``"alone"``, ``"together"``, and by method.
        pairs: Test metric of site i when it collaborates with site j only, [R, K, K]; NaN if not tried.
        without: Test metric of site i when all sites but k collaborate, [R, K, K].
        outside: Test metric at each site of the model trained by all other sites, [R, K].
        constant: Test metric of a constant predictor, [R, K]; NaN if the loss has none.
        flat: Description of the constant.
        train: Mean number of training samples, [K].
        test: Mean number of test samples, [K].
        picked: Choices made on validation data: for every arm, a list with one per split; None for a constant.
        halves: If sites have more test than training samples: the same metric on either half of the test samples,
            [R, 2, K], also of ``"constant"``, and [R, 2, K, K] of ``"pairs"`` and ``"without"``.
        rarer: Mean number of test samples of a site's rarer class, [K], for binary tasks, or of test events.
        minority: Number of a site's samples with another target than its most frequent one, at most 5.
        groups: Mean number of groups among a site's test samples, [K], if samples have groups.
        deviation: Name and mean standard deviation of the target if it was standardized by one deviation for all sites;
            errors are in the target's own unit.
        weighted: Whether samples have weights, so that metrics are weighted means.
        findings: Problems with the weights found in runs of methods, as kinds for each split; empty if none.
        weights: Weights between sites in the last round, [R, K, K], receivers in rows, for methods that use edges.
        work: Description of the training.
        quick: Description of what was reduced compared with the defaults; empty if nothing.
        tried: Number of pairs tried, and total number of pairs.
        level: α.
        baseline: Test metric of every site, [R, K], by scikit-learn's models (`benefit`), if requested.
        about: Rows of sites by split, and the roles of the table's columns (``graphcollab.analysis.held.asked``).
        also: Results of the same models by additional metrics, by name.
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
    picked: Mapping[str, list[Choice | None]] = field(repr=False)
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
        """Sites without claims because almost all of their samples have the same target, a mask [K]."""
        return torch.zeros_like(self.test).bool() if self.minority is None else self.minority < LEAST

    @property
    def in_unit(self) -> bool:
        """Whether the metric is an error in the unit of a standardized target, or in a power of that unit."""
        return self.deviation is not None and self.metric in METRICS and METRICS[self.metric].unit > 0

    @property
    def arms(self) -> tuple[str, ...]:
        """Alternatives to training alone: ``"together"``, and methods."""
        return tuple(name for name in self.scores if name != "alone")

    @cached_property
    def overall(self) -> list[Gain]:
        """Mean gains over sites, by all together and by every method; their ``site`` is ``"all sites"``."""
        return self.mean_gains(torch.ones_like(self.test), self.arms, claimed=True)

    @cached_property
    def by_samples(self) -> list[Gain]:
        """Mean gains over sites weighted by their test samples: shown next to `overall`, without claims."""
        return self.mean_gains(self.test, self.arms)

    @cached_property
    def by_baseline(self) -> list[Gain]:
        """Mean gains of scikit-learn's models over training alone: shown without claims."""
        return self.mean_gains(torch.ones_like(self.test), tuple(self.baseline)) if self.baseline else []

    def mean_gains(self, weight: Tensor, arms: Sequence[str], claimed: bool = False) -> list[Gain]:
        """Return mean gains by arm over sites with a weight [K]; without claims by default."""

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
        """Gains of every site by every other site that was tried."""
        ratio, unknown = (self.test / self.train)[:, None], self.one_sided[:, None]
        return self._gains("pairs", self._by_site, ratio, self.names, self.names, unknown)

    @staticmethod
    def _by_site(given: Scores) -> Compared:
        return Compared(given["pairs"], others_of(given), axis=-1)

    @cached_property
    def group_gains(self) -> list[Gain]:
        """Mean gains of all sites but one, for each of three or more sites: does this site harm the group (`worth`)?

        A gain is claimed only if the others do better without the site than with it (`spared`): on average, or, if
        there is evidence of a gain by all together, with confidence.
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
        """Mean advantage of all sites but one over the same sites when it collaborates, for each site, [K]."""
        without = self._better(self.without, self.scores["together"][:, :, None]).nanmean(1)
        return corrected_differences(without, self.test.sum() / self.train.sum())

    @property
    def matrix(self) -> Tensor:
        """Mean gains of site i by site j alone, [K, K]; NaN if not tried."""
        return self._shown(self._differences(self._by_site, (self.test / self.train)[:, None], 0).mean)

    @cached_property
    def worth(self) -> Tensor:
        """Mean loss of site i if site k left the group of all sites, [K, K]; NaN if not tried."""
        return self._shown(self._better(self.scores["together"][:, :, None], self.without).nanmean(0))

    @cached_property
    def left_out(self) -> Tensor:
        """Mean gain over training alone at each site from the model of all other sites, [K].

        NaN if not tried. A new site without samples for training would get such a model.
        """
        return self._shown(self._better(self.outside, self.scores["alone"]).nanmean(0))

    def of(self, site: Node) -> dict[str, Gain]:
        """Return all gains of a site, by name or position (`Node`): by arm, and by the names of other sites."""
        name = self.names[find_node(site, self.names, "site")]
        return {gain.by: gain for gain in [*self.gains, *self.pair_gains] if gain.site == name}

    def agreement(self, method: str) -> float:
        """Return the agreement of the weights that a method learned on different splits (`weight_agreement`).

        Splits with uniform weights are excluded; NaN if fewer than two splits remain.
        """
        even = [bool({*kinds.split(", ")} & {*EVEN_KINDS}) for kinds in self.findings.get(method, [])]
        told = self.weights[method][~torch.tensor(even)] if any(even) else self.weights[method]
        return weight_agreement(told) if len(told) > 1 else math.nan

    def against(self, name: str) -> Benefit:
        """Return the benefit with a ``baseline`` model in place of training alone."""
        halves = {**self.halves, "alone": self.halves[name]} if self.halves else {}
        return replace(self, scores={**self.scores, "alone": self.baseline[name]}, halves=halves, baseline={})

    @property
    def found(self) -> list[Gain]:
        """Gains and losses with evidence: means over sites, then over all but one, then single ones, largest first."""

        def claimed(gains: list[Gain]) -> list[Gain]:
            return [gain for gain in gains if gain.verdict in ("gains", "loses")]

        single = sorted(claimed([*self.gains, *self.pair_gains]), key=lambda gain: -abs(gain.gain))
        return [*claimed(self.overall), *claimed(self.group_gains), *single]

    @property
    def helps(self) -> bool:
        """Whether there is evidence of any gain, of a site or on average over sites."""
        return any(gain.verdict == "gains" for gain in self.found)

    def save(self, path: str | Path) -> Path:
        """Write all numbers to a JSON file atomically."""
        return write_whole(path, json.dumps(self._told(), indent=1).encode())

    def _told(self) -> dict[str, Any]:
        told = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__ if name != "also"}
        told["matrix"] = plain(self.matrix)
        for name in ("overall", "by_samples", "by_baseline", "gains", "pair_gains", "group_gains"):
            told[name] = plain([asdict(gain) for gain in getattr(self, name)])
        return {**told, "also": {name: one._told() for name, one in self.also.items()}}

    @cached_property
    def relative(self) -> bool:
        """Whether gains are relative reductions of an error: the metric is positive, and lower is better."""
        every = (*self.scores.values(), self.pairs, self.without, self.outside)
        return not self.higher_is_better and all(bool(((one > 0) | one.isnan()).all()) for one in every)

    def by_constants(self, by: str) -> bool:
        """Return whether constants replaced an arm's models on at least half of the splits."""
        picked = self.picked.get(by, [])
        return 2 * picked.count(None) >= max(len(picked), 1)

    def untold(self, by: str) -> bool:
        """Return whether constants replaced both an arm's models and those of training alone, so nothing is claimed.

        If they replaced the arm's models only, the arm can lose on average over sites.
        """
        return self.by_constants(by) and self.by_constants("alone")

    @property
    def _whole(self) -> Scores:
        """Scores of everything that was trained, [R, K], of groups [R, K, K]."""
        return {**self.scores, **self.baseline, "pairs": self.pairs, "without": self.without, "constant": self.constant}

    def _better(self, score: Tensor, than: Tensor) -> Tensor:
        """Return the improvement of scores: differences, or log ratios for errors."""
        if self.relative:
            return (than / score).log()
        return score - than if self.higher_is_better else than - score

    def _mean_over_splits(self, scores: Tensor) -> Tensor:
        """Return means over splits [...] of scores [R, ...]; geometric means for errors."""
        return scores.log().nanmean(0).exp() if self.relative else scores.nanmean(0)

    def _shown(self, gain: Tensor) -> Tensor:
        """Convert gains for display: log ratios become relative reductions of the error."""
        return -torch.expm1(-gain) if self.relative else gain

    def _differences(self, of: Callable[[Scores], Compared], ratio: Tensor, than: int) -> Differences:
        """Return a family's gains, [by, k], over one of the others; errors are raised to the floor."""

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
        """Return a family of gains, [by, k], over training alone, with verdicts."""
        found, *rivals = (self._differences(of, ratio, than) for than in range(3))
        level = LEVELS[family] * self.level
        p_value, bar = judge(found, rivals, level, unknown)
        score, others, axis = of(self._whole)
        scores, alone, constant = map(self._mean_over_splits, (score.movedim(axis, 1), *others[:2]))
        gains, lows, highs, bars = (self._shown(one) for one in (found.mean, found.low, found.high, bar))
        if self.metric in SHARES:  # differences of shares are within [-1, 1], but a t-interval of few splits may not be
            lows, highs = lows.clamp(min=-1), highs.clamp(max=1)
        numbers = torch.stack([one.movedim(axis, 0) for one in (gains, lows, highs, p_value, bars)], -1)
        told = []
        for k, site in enumerate(sites):
            for a, name in enumerate(by):
                gain, low, high, p, least = numbers[a, k].tolist()
                reached, models = float(scores[a, k]), MODELS.get(family, name)
                stood = self.by_constants(models)  # chosen once for all sites, or pairs
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
