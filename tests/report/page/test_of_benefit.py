"""The sentences on top of a page of a benefit: every headline is followed by the gains that it is of."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch

from graphcollab import report
from graphcollab.gains import Benefit
from graphcollab.report.page.of_benefit import content_of_benefit

SPLITS, SITES = 10, ("Bern", "Genf", "Zug")
NONE = torch.full((SPLITS, 3, 3), torch.nan, dtype=torch.float64)
SWINGS = torch.tensor([1.0, -1.0] * 5, dtype=torch.float64)[:, None]


def found(
    gains: Mapping[str, tuple[float, float]],
    without: torch.Tensor = NONE,
    metric: str = "accuracy",
    **more: Mapping[str, Benefit],
) -> Benefit:
    """Return a benefit of three sites that have 0.5 alone; of every arm its gain, and how far that swings by splits."""
    alone = torch.full((SPLITS, 3), 0.5, dtype=torch.float64)
    scores = {"alone": alone} | {arm: alone + gain + swing * SWINGS for arm, (gain, swing) in gains.items()}
    held = torch.full((3,), 40.0)
    chosen = {name: ["lr=0.1"] * SPLITS for name in (*scores, "pairs", "without")}
    outside, constant = torch.full((SPLITS, 3), torch.nan), 0.3 + 0.01 * SWINGS.expand(SPLITS, 3)
    flat = "the most frequent class"
    return Benefit(SITES, metric, True, scores, NONE, without, outside, constant, flat, held, held, chosen, **more)


def top(benefit: Benefit) -> list[str]:
    return list(content_of_benefit(benefit, "", []).answer)


def of_arm(benefit: Benefit, by: str) -> str:
    """The line of an arm in the full answer."""
    lines = report.benefit_answer(benefit).splitlines()
    return next(line for line in lines if line.startswith(f"In the mean over sites, {by}:"))


def test_evidence_is_followed_by_its_own_gain() -> None:
    # by all together 5 points, sure; by l2c 8 points in the mean, +28 and −12 in turn
    one = found({"together": (0.05, 0.001), "l2c": (0.08, 0.2)})
    headline, number, to_do = top(one)
    assert headline == "Evidence that collaborating by all together helps."
    assert number == of_arm(one, "by all together")
    assert number.startswith("In the mean over sites, by all together: +5.0 (+4.")
    assert "There is evidence of that (p = " in number
    assert to_do == "So let them collaborate by all together."


def test_harm_is_followed_by_the_loss() -> None:
    one = found({"together": (-0.05, 0.001), "l2c": (0.08, 0.2)})
    headline, number, to_do = top(one)
    assert headline == "Evidence that collaborating by all together harms, and none that anything helps."
    assert number.startswith("In the mean over sites, by all together: −5.0 (−5.")
    assert number == of_arm(one, "by all together")
    assert to_do == "So train alone."


def test_evidence_of_a_group_alone_is_followed_by_its_gain() -> None:
    # Bern and Genf gain 10 points without Zug; with any other left out the two lose 10
    without = NONE.clone()
    for i in range(3):
        for k in {0, 1, 2} - {i}:
            without[:, i, k] = (0.6 if k == 2 else 0.4) + 0.001 * SWINGS[:, 0]
    headline, number, to_do = top(found({"together": (0.02, 0.2), "l2c": (0.03, 0.2)}, without))
    assert headline == "Evidence that all but Zug gain by collaborating without it."
    assert number.startswith("In the mean over all but Zug, together: +10.0 (+9.")
    assert "* (p = " in number
    assert to_do.startswith("So let all but Zug collaborate, and train Zug alone.")


@pytest.mark.parametrize(("l2c", "arms"), [(0.08, ["by all together", "by l2c"]), (0.01, ["by all together"])])
def test_without_evidence_all_together_come_first(l2c: float, arms: list[str]) -> None:
    one = found({"together": (0.02, 0.2), "l2c": (l2c, 0.2)})
    headline, numbers, to_do = top(one)
    assert headline == "No evidence that collaborating helps."
    assert numbers == " ".join(of_arm(one, by) for by in arms)
    assert to_do.startswith("So this is undecided")


def test_every_metric_has_its_number() -> None:
    other = found({"together": (-0.04, 0.001), "l2c": (-0.01, 0.2)}, metric="auc")
    headline, first, second, _ = top(found({"together": (0.05, 0.001), "l2c": (0.08, 0.2)}, also={"auc": other}))
    assert headline == (
        "In accuracy: Evidence that collaborating by all together helps. "
        "In auc: Evidence that collaborating by all together harms, and none that anything helps."
    )
    assert first.startswith("In the mean over sites, by all together: +5.0 (")
    assert second.startswith("In auc (%): in the mean over sites, by all together: −4.0 (−4.")


def test_what_is_not_defined_has_no_number() -> None:
    headline, *rest = top(found({"together": (math.nan, 0.0)}))
    assert headline == "It cannot be said whether collaborating helps: accuracy is not defined."
    assert not any("mean over sites" in line for line in rest)


def test_evidence_at_a_single_site_is_told_after_the_mean() -> None:
    one = found({"together": (0.0, 0.2)})
    one.scores["together"][:, 1] = 0.6 + 0.001 * SWINGS[:, 0]
    headline, number, to_do = top(one)
    assert headline == "Evidence that some sites gain by collaborating, and none that all do in the mean."
    mean, site = number.split(" Genf gains ")
    assert mean == of_arm(one, "by all together")
    assert site.startswith("by all together: +10.0 (+9.")
    assert to_do.startswith("So collaborate where a star says")
