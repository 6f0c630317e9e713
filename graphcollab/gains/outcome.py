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

from graphcollab.files import write_whole
from graphcollab.gains.evidence import Gain, Judged, Verdict, judge
from graphcollab.gains.held import LEAST
from graphcollab.metrics import weight_agreement
from graphcollab.metrics.inference import Differences, corrected_differences
from graphcollab.naming import Node, find_node
from graphcollab.train.collapse import EVEN_KINDS
from graphcollab.train.trial import SHARES

__all__ = ["Benefit"]

LEVELS = {"overall": 0.35, "groups": 0.15, "sites": 0.3, "pairs": 0.2}  # each family's part of the level


@dataclass(frozen=True)
class Benefit:
    """Who gains by whom: metrics of K sites on R random splits of their samples, and what follows from them.

    A gain is the difference to training alone on the same split, turned so that positive is better. Of errors, which
    are positive and better the smaller they are, it is the share by which the error falls, 0.2 for a fifth, and it is
    judged by logarithms, since the errors of models of few samples differ so much between splits. Intervals and
    p-values are those of `corrected_differences`; p-values are adjusted by Holm's method in four families: gains in the
    mean over sites (at 0.35 of the level), the same without one of them (0.15), gains of sites by all together and by
    methods (0.3), and by single others (0.2). So the chance to claim any where there is none is ``level`` at most.

    Models that overfit less seem to gain where nothing can be learned. So a gain counts only if it is one over
    constants, too, by the same test: p-values of gains are the larger of the two, before they are adjusted. A constant
    says the same of every sample of a site: the mean of its training targets for ``loss="mse"``, how often each class
    occurs among them for ``"cross_entropy"`` and ``"bce"``. Its AUC is 0.5.

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
        halves: Where sites have more test than training samples: the same metric on either half of the test samples,
            [R, 2, K], also of ``"constant"``, and [R, 2, K, K] of ``"pairs"`` and ``"without"``.
        rarer: Mean number of test samples of a site's rarer class, [K], where there are two classes in all.
        minority: Number of a site's samples that have another target than most of them have, at most 5.
        groups: Mean number of groups that a site's test samples are of, [K], where samples are in groups.
        deviation: Name of the target and its standard deviation, mean over splits, where targets were standardised by
            one; errors are in units of it.
        weighted: Whether samples have weights, so that metrics are weighted means.
        findings: What runs of methods found wrong with their weights, kinds for each split; empty where nothing.
        weights: What sites gave each other in the last round, [R, K, K], receivers in rows, of methods along edges.
        work: What was played, in words.
        quick: What of it was less than usual, in words; empty if nothing was.
        tried: Pairs that were tried, and how many there are.
        level: α.
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
    also: Mapping[str, Benefit] = field(default_factory=dict, repr=False)

    @property
    def one_sided(self) -> Tensor:
        """Sites of which nothing is claimed, since almost all of their samples have one target, [K]."""
        return torch.zeros_like(self.test).bool() if self.minority is None else self.minority < LEAST

    @property
    def arms(self) -> tuple[str, ...]:
        """What sites may do but train alone: ``"together"``, and methods."""
        return tuple(name for name in self.scores if name != "alone")

    @cached_property
    def overall(self) -> list[Gain]:
        """Gains in the mean over sites, by all together and by every method; their ``site`` is ``"all sites"``."""
        return self._overall(torch.ones_like(self.test))

    @cached_property
    def by_samples(self) -> list[Gain]:
        """Gains in the mean over sites weighted by their test samples: told beside `overall`, nothing is claimed."""
        return [replace(gain, p_value=math.nan, verdict="no evidence") for gain in self._overall(self.test)]

    def _overall(self, weight: Tensor) -> list[Gain]:
        def mean(scores: Tensor) -> Tensor:
            """Return the mean over sites, [..., 1]."""
            share = weight.expand_as(scores).masked_fill(scores.isnan(), 0)
            return (share * scores.nan_to_num()).sum(-1, keepdim=True) / share.sum(-1, keepdim=True)

        ratio = self.test.sum() / self.train.sum()
        found, beyond = (self._differences(ratio, mean, than) for than in ("alone", "constant"))
        scores = torch.stack([mean(self.scores[arm]) for arm in self.arms], 1)
        base = mean(self.scores["alone"]), mean(self.constant)
        judged = judge(found, beyond, LEVELS["overall"] * self.level)
        return self._gains(found, judged, list(self.arms), scores, ["all sites"], base)

    @cached_property
    def by_arm(self) -> Differences:
        """Gains by all together and by methods, [arms, K]; of errors, logarithms."""
        return self._differences(self.test / self.train, lambda scores: scores, "alone")

    def _differences(self, ratio: Tensor, of: Callable[[Tensor], Tensor], than: str) -> Differences:
        """Return gains by arms of what is made of scores [R, K], or of halves [R, 2, K], over one or ``"constant"``."""

        def gains(scores: Mapping[str, Tensor]) -> Tensor:
            return torch.stack([self._better(of(scores[arm]), of(scores[than])) for arm in self.arms], -2)

        halves = gains(self.halves) if self.halves else None
        return corrected_differences(gains({**self.scores, "constant": self.constant}), ratio, halves=halves)

    @cached_property
    def by_site(self) -> Differences:
        """Gains of site i by site j alone, [K, K]; of errors, logarithms."""
        return self._pair_differences("alone")

    def _pair_differences(self, than: str) -> Differences:
        """Return gains of site i by site j alone, [K, K], over training alone or over ``"constant"``."""
        base = self.constant if than == "constant" else self.scores[than]
        values = self._better(self.pairs, base[..., None])
        halves = self._better(self.halves["pairs"], self.halves[than][..., None]) if self.halves else None
        return corrected_differences(values, (self.test / self.train)[:, None], halves=halves)

    @property
    def matrix(self) -> Tensor:
        """Mean gains of site i by site j alone, [K, K]; NaN where that was not tried."""
        return self._shown(self.by_site.mean)

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

    @cached_property
    def gains(self) -> list[Gain]:
        """Gains of every site by all together and by every method."""
        beyond = self._differences(self.test / self.train, lambda scores: scores, "constant")
        scores = torch.stack([self.scores[arm] for arm in self.arms], 1)
        base = self.scores["alone"], self.constant
        judged = judge(self.by_arm, beyond, LEVELS["sites"] * self.level, self.one_sided)
        return self._gains(self.by_arm, judged, list(self.arms), scores, self.names, base)

    @cached_property
    def pair_gains(self) -> list[Gain]:
        """Gains of every site by every other that was tried."""
        found, beyond = (  # [j, i], as by_arm is
            Differences(*(value.T for value in asdict(some).values()))
            for some in (self.by_site, self._pair_differences("constant"))
        )
        base, scores = (self.scores["alone"], self.constant), self.pairs.transpose(1, 2)
        judged = judge(found, beyond, LEVELS["pairs"] * self.level, self.one_sided)
        return self._gains(found, judged, list(self.names), scores, self.names, base, "pairs")

    @cached_property
    def group_gains(self) -> list[Gain]:
        """Gains of all but one site together, in the mean over them, for every site that was left out of three or more.

        So it is found out whether a site spoils the group of all; `worth` says for whom.
        """
        found, beyond = (self._group_differences(than) for than in ("alone", "constant"))
        judged = judge(found, beyond, LEVELS["groups"] * self.level)
        alone, constant = (self._of_members(one, self.without) for one in (self.scores["alone"], self.constant))
        sites = [f"all but {name}" for name in self.names] * (len(self.names) > 2)
        score = self.without.nanmean(1)[:, None]
        gains = self._gains(found, judged, ["together"], score, sites, (alone, constant), "without")
        return [gain for gain in gains if not math.isnan(gain.gain)]

    def _group_differences(self, than: str) -> Differences:
        """Return gains of all but site k, in the mean over them, [1, K], over training alone or over ``"constant"``."""
        base = self.constant if than == "constant" else self.scores[than]
        others = 1 - torch.eye(len(self.names), dtype=torch.float64)
        ratio = (others @ self.test.double()) / (others @ self.train.double())

        def gains(without: Tensor, own: Tensor) -> Tensor:
            return self._better(without.nanmean(-2), self._of_members(own, without))[..., None, :]

        halves = gains(self.halves["without"], self.halves[than]) if self.halves else None
        return corrected_differences(gains(self.without, base), ratio, halves=halves)

    @staticmethod
    def _of_members(own: Tensor, without: Tensor) -> Tensor:
        """Return means of what sites have by themselves, [..., K], over the members of every group of all but one."""
        return own[..., None].expand_as(without).masked_fill(without.isnan(), torch.nan).nanmean(-2)

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
        told = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__ if name != "also"}
        told["matrix"] = _plain(self.matrix)
        for name in ("overall", "by_samples", "gains", "pair_gains", "group_gains"):
            told[name] = _plain([asdict(gain) for gain in getattr(self, name)])
        return {**told, "also": {name: one._told() for name, one in self.also.items()}}

    @cached_property
    def relative(self) -> bool:
        """Whether gains are shares of an error: the metric is positive, and better the smaller it is."""
        return not self.higher_is_better and all(bool((s > 0).logical_or(s.isnan()).all()) for s in self._all())

    def by_constants(self, by: str) -> bool:
        """Tell whether constants stood for models on half of the splits: then no model has a part in a gain.

        Args:
            by: ``"together"``, a method, ``"without"`` for groups of all but one, or ``"pairs"`` for those of two.
        """
        chosen = self.chosen.get(by, [])
        return 2 * chosen.count(self.flat) >= max(len(chosen), 1)

    def untold(self, by: str) -> bool:
        """Tell whether neither of two kinds of models did better than constants, so that there is no gain or loss.

        Where those of training alone did, models that are no better than constants lose by collaborating.
        """
        return self.by_constants(by) and self.by_constants("alone")

    def _all(self) -> list[Tensor]:
        return [*self.scores.values(), self.pairs, self.without, self.outside]

    def _better(self, score: Tensor, than: Tensor) -> Tensor:
        """Return by how much scores are better: differences, or of errors logarithms of ratios."""
        if self.relative:
            return (than / score).log()
        return score - than if self.higher_is_better else than - score

    def _shown(self, gain: Tensor) -> Tensor:
        """Return gains as they are shown: of logarithms, shares by which an error falls."""
        return -torch.expm1(-gain) if self.relative else gain

    def _gains(
        self,
        found: Differences,
        judged: Judged,
        by: list[str],
        scores: Tensor,
        sites: Sequence[str],
        base: tuple[Tensor, Tensor],
        of: str = "",
    ) -> list[Gain]:
        """Return gains of some sites, [by, k], over training alone and over constants.

        They are given with what there is evidence of (`judge`), the scores [R, by, k], and those of training alone and
        of constants, [R, k] each; ``of`` are the groups whose models these are, if not called as what sites gain by.
        """
        alone, constant, means = (
            one.log().nanmean(0).exp() if self.relative else one.nanmean(0) for one in (*base, scores)
        )
        gains, lows, highs, bars = map(self._shown, (found.mean, found.low, found.high, judged.bar))
        if self.metric in SHARES:  # no difference of shares goes further, and a t-interval of few splits may
            lows, highs = lows.clamp(min=-1), highs.clamp(max=1)
        told, nan = [], math.nan
        for k, site in enumerate(sites):
            mean, flat = float(alone[k]), float(constant[k])
            for a, name in enumerate(by):
                if math.isnan(float(means[a, k])):
                    if name in self.arms:
                        told.append(Gain(site, name, mean, nan, flat, nan, nan, nan, nan, nan, "not defined"))
                    continue
                p, gain = float(judged.p_value[a, k]), float(gains[a, k])
                claimed: Verdict = "gains" if gain > 0 else "loses"
                none = self.untold(of or name) or (gain > 0 and self.by_constants(of or name))
                verdict: Verdict = claimed if p <= judged.level and not none else "no evidence"
                ends, score = (float(lows[a, k]), float(highs[a, k])), float(means[a, k])
                told.append(Gain(site, name, mean, score, flat, gain, *ends, p, float(bars[a, k]), verdict))
        return told


def _plain(value: Any) -> Any:
    """Return what JSON can hold; NaN as null."""
    if isinstance(value, Tensor):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
