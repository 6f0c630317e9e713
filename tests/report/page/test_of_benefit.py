"""The sentences on top of a page of a benefit: the headline, the gains, and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from graphcollab.analysis import Benefit
from graphcollab.analysis.evidence import Choice
from graphcollab.report.page.sections import content_of_benefit
from graphcollab.train import Finding

SPLITS, SITES = 10, ("Bern", "Genf", "Zug")
NONE = torch.full((SPLITS, 3, 3), torch.nan, dtype=torch.float64)
SWINGS = torch.tensor([1.0, -1.0] * 5, dtype=torch.float64)[:, None]


def benefit_of(
    gains: Mapping[str, tuple[float, float]],
    without: torch.Tensor = NONE,
    metric: str = "accuracy",
    **more: Mapping[str, Benefit],
) -> Benefit:
    """Return a benefit of three sites that have 0.5 alone; of every arm its gain, and how far that swings by splits."""
    alone = torch.full((SPLITS, 3), 0.5, dtype=torch.float64)
    scores = {"alone": alone} | {arm: alone + gain + swing * SWINGS for arm, (gain, swing) in gains.items()}
    held = torch.full((3,), 40.0)
    chosen = {name: [Choice("", {"lr": 0.1}, 1)] * SPLITS for name in (*scores, "pairs", "without")}
    outside, constant = torch.full((SPLITS, 3), torch.nan), 0.3 + 0.01 * SWINGS.expand(SPLITS, 3)
    flat = "the most frequent class"
    return Benefit(SITES, metric, True, scores, NONE, without, outside, constant, flat, held, held, chosen, **more)


def top(benefit: Benefit) -> list[Finding]:
    return list(content_of_benefit(benefit, "", "").answer)


def below(benefit: Benefit) -> dict[tuple[str, str], Finding]:
    """Return the findings of the details by code and subject."""
    details = next(one for one in content_of_benefit(benefit, "", "").sections if one.name == "details")
    return {(one.code, one.subject): one for one in details.said if isinstance(one, Finding)}


def test_evidence_is_followed_by_gains_and_what_to_do() -> None:
    # by all together 5 points, sure; by l2c 8 points in the mean, +28 and −12 in turn
    one = benefit_of({"together": (0.05, 0.001), "l2c": (0.08, 0.2)})
    headline, best, to_do = top(one)
    assert (headline.code, headline.subject, headline.numbers["gains"]) == ("evidence", "accuracy", ["together"])
    assert (best.code, best.subject) == ("best", "together")
    assert best.numbers["gain"] == pytest.approx(0.05)
    assert best.message.startswith(
        "Of 2 ways tried, all together (one model for all sites, by federated averaging) does best: accuracy rises by "
        "5.0 points in the mean over sites, compared with training alone (95 % interval 4."
    )
    assert best.message.endswith("There is evidence of that (p < 0.001).")
    details = below(one)
    assert details["mean", "together"].message.startswith("In the mean over sites, by all together: +5.0 (+4.")
    assert details["mean", "together"].numbers["verdict"] == "gains"
    assert details["mean", "l2c"].numbers["verdict"] == "no evidence"
    assert {("site", name) for name in SITES} <= {*details}
    assert (to_do.code, to_do.subject, to_do.numbers["by"]) == ("advice", "collaborate", "together")


def test_harm_is_followed_by_the_loss() -> None:
    one = benefit_of({"together": (-0.05, 0.001), "l2c": (0.08, 0.2)})
    headline, best, to_do = top(one)
    assert (headline.numbers["gains"], headline.numbers["loses"]) == ([], ["together"])
    assert below(one)["mean", "together"].numbers["gain"] == pytest.approx(-0.05)
    assert best.subject == "l2c"
    assert to_do.subject == "alone"


def test_evidence_of_a_group_alone_is_followed_by_its_gain() -> None:
    # Bern and Genf gain 10 points without Zug; with any other left out the two lose 10
    without = NONE.clone()
    for i in range(3):
        for k in {0, 1, 2} - {i}:
            without[:, i, k] = (0.6 if k == 2 else 0.4) + 0.001 * SWINGS[:, 0]
    one = benefit_of({"together": (0.02, 0.2), "l2c": (0.03, 0.2)}, without)
    headline, *_, to_do = top(one)
    number = below(one)["group", "all but Zug"]
    assert headline.numbers["groups"] == ["all but Zug"]
    assert number.numbers["verdict"] == "gains"
    assert number.numbers["gain"] == pytest.approx(0.1)
    assert (to_do.subject, to_do.numbers["alone"]) == ("leave-out", ["Zug"])


def test_without_evidence_it_is_undecided() -> None:
    headline, best, to_do = top(benefit_of({"together": (0.02, 0.2), "l2c": (0.08, 0.2)}))
    assert (headline.numbers["gains"], headline.numbers["loses"]) == ([], [])
    assert (best.subject, best.message.count("That is no evidence")) == ("l2c", 1)
    assert to_do.subject == "undecided"


def test_every_metric_has_its_number() -> None:
    other = benefit_of({"together": (-0.04, 0.001), "l2c": (-0.01, 0.2)}, metric="auc")
    both = benefit_of({"together": (0.05, 0.001), "l2c": (0.08, 0.2)}, also={"auc": other})
    headlines = [one for one in top(both) if one.code == "evidence"]
    assert [(one.subject, one.numbers["gains"], one.numbers["loses"]) for one in headlines] == [
        ("accuracy", ["together"], []),
        ("auc", [], ["together"]),
    ]
    assert below(both)["mean", "together"].numbers["gain"] == pytest.approx(0.05)
    assert below(both)["metric", "auc"].numbers["together"] == pytest.approx(-0.04)


def test_what_is_not_defined_has_no_number() -> None:
    one = benefit_of({"together": (math.nan, 0.0)})
    headline, *rest = top(one)
    assert (headline.code, headline.numbers["gains"]) == ("evidence", [])
    assert "not defined" in headline.message
    assert rest == []
    assert math.isnan(below(one)["mean", "together"].numbers["gain"])


def test_evidence_at_a_single_site_is_told_after_the_mean() -> None:
    one = benefit_of({"together": (0.0, 0.2)})
    one.scores["together"][:, 1] = 0.6 + 0.001 * SWINGS[:, 0]
    headline, best, to_do = top(one)
    site = below(one)["site", "Genf"]
    assert headline.numbers["sites"]["gains"] == ["Genf"]
    assert best.subject == site.numbers["by"] == "together"
    assert site.numbers["gain"] == pytest.approx(0.1)
    assert to_do.subject == "starred"


def test_what_hides_in_means_over_sites_is_said() -> None:
    """Alone is better than constants by 2 points in the mean, and worse by 3.3 where 8 of 10 test samples are."""
    one = benefit_of({"together": (0.05, 0.001)})
    apart = torch.tensor([0.11, -0.05, 0.0]).expand(SPLITS, 3)
    one = replace(one, constant=one.scores["alone"] - apart, test=torch.tensor([1.0, 8.0, 1.0]))
    said = next(finding for finding in top(one) if finding.code == "no-better-weighted")
    assert [*said.numbers["models"]] == ["alone"]
    assert "sites with few test samples make their mean over sites look better" in said.message
    assert not [finding for finding in top(one) if finding.code == "no-better"]


def test_the_last_round_is_said_to_be_the_best() -> None:
    one = benefit_of({"together": (0.05, 0.001)})
    picked = {"alone": [Choice("", {}, 9)] * SPLITS}
    picked["together"] = [Choice("", {}, 30)] * (SPLITS - 1) + [Choice("", {}, 3)]
    said = next(finding for finding in top(replace(one, picked=picked)) if finding.code == "last-round")
    assert said.numbers == {"splits": {"together": SPLITS - 1}, "of": SPLITS, "rounds": 30}
    assert "rounds=..." in said.message
