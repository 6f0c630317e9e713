"""What a table holds before a run, against pandas, and which sites and columns are odd."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from graphcollab import Tasks, report
from graphcollab.analysis.held import LEAST, minority_held
from graphcollab.report import describe_table
from graphcollab.report.description import sites_described

DRAW = np.random.default_rng(3)
N = 150
FRAME = pd.DataFrame(
    {
        "hospital": np.repeat(["w", "b", "one", "few"], [60, 50, 30, 10]),
        "age": np.where(DRAW.random(N) < 0.2, np.nan, DRAW.integers(20, 90, N)),
        "ward": np.where(DRAW.random(N) < 0.1, None, DRAW.choice(["A", "B", "C"], N)),
        "stay": DRAW.normal(8, 3, N).round(2),
        "ill": DRAW.choice(["no", "yes"], N, p=[0.7, 0.3]),
    }
)
FRAME.loc[FRAME.hospital == "one", "ill"] = "no"
FRAME.loc[FRAME.hospital == "few", "age"] = np.nan
FRAME.loc[FRAME.hospital == "few", "ill"] = ["yes"] * 3 + ["no"] * 7
FEATURES = ["age", "ward"]


@pytest.fixture(scope="module")
def found_table():
    return describe_table(FRAME, node="hospital", target="ill", leave_out=["stay"])


def test_rows_classes_and_missing_values_of_sites_as_pandas_counts_them(found_table):
    by_site = FRAME.groupby("hospital")
    assert [site.name for site in found_table.sites] == sorted(by_site.groups)
    for site in found_table.sites:
        rows = by_site.get_group(site.name)
        assert site.rows == len(rows)
        assert dict(site.classes) == rows.ill.value_counts().to_dict()
        assert site.missing == pytest.approx(rows[FEATURES].isna().to_numpy().mean())
        assert np.isnan(site.mean)
    assert dict(found_table.total.classes) == FRAME.ill.value_counts().to_dict()
    assert (found_table.loss, found_table.metric, found_table.refused) == ("cross_entropy", "accuracy", "")


def test_columns_as_pandas_counts_them(found_table):
    by_site = FRAME[FEATURES].isna().groupby(FRAME.hospital).mean()
    age, ward = found_table.columns
    for column in (age, ward):
        assert column.missing == pytest.approx(FRAME[column.name].isna().mean())
        assert column.most_missing == pytest.approx(by_site[column.name].max())
        assert column.site == by_site[column.name].idxmax()
    assert age.ends == (FRAME.age.min(), FRAME.age.max())
    assert dict(ward.categories) == FRAME.ward.value_counts().to_dict()


def test_amounts_as_pandas_has_them():
    found = describe_table(FRAME, node="hospital", target="stay", leave_out=["ill"])
    stays = FRAME.groupby("hospital").stay
    for site in found.sites:
        assert (site.mean, site.deviation) == pytest.approx((stays.mean()[site.name], stays.std()[site.name]))
    assert found.ends == (FRAME.stay.min(), FRAME.stay.max())
    assert (found.loss, found.metric) == ("mse", "mae")
    assert "an amount: mean" in str(found)


def test_what_is_odd_is_marked(found_table):
    odd = {site.name: [one.code for one in site.odd] for site in found_table.sites}
    assert odd == {"b": [], "w": [], "one": ["one-class"], "few": ["few-beside", "few-rows", "no-values"]}
    assert [str(one) for one in found_table.sites[1].odd] == [
        "3 beside the most frequent class",
        "few rows",
        "no value of age",
    ]


@pytest.mark.parametrize("target", ["ill", "stay"])
@pytest.mark.filterwarnings("ignore")
def test_too_few_for_a_claim_are_those_of_whom_a_benefit_claims_nothing(target):
    frame = FRAME.assign(stay=FRAME.stay.where(FRAME.index % 9 == 0, 0.5), patient=np.arange(N) // 3)
    for group in (None, "patient"):
        settings = {"node": "hospital", "target": target, "columns": ["age"], "group": group}
        tasks, found = Tasks.from_frame(frame, **settings), describe_table(frame, **settings)
        few = [name for name, many in zip(tasks.names, minority_held(tasks).tolist(), strict=True) if many < LEAST]
        assert [s.name for s in found.sites if {one.code for one in s.odd} & {"one-class", "few-beside"}] == few != []


def test_what_a_run_would_refuse_is_described_all_the_same():
    frame = FRAME.assign(ill=FRAME.ill.where(FRAME.index != 3), copy=FRAME.ill)
    frame.loc[N] = ["tiny", 40, "A", 8.0, "yes", "yes"]
    found = describe_table(frame, node="hospital", target="ill")
    assert "drop_missing_target=True" in found.refused
    assert found.total.rows == N
    codes = {one.code for one in found.findings}
    assert {"tells-target", "left-out-rows"} <= codes
    assert "left-out-sites" not in codes, "the tiny site is there, and a run is refused"
    assert f"no run can begin: {found.refused}" in str(found)
    assert found.refused.index("drop_missing_target=True") < found.refused.index("; and then: ")
    assert found.refused.index("; and then: ") < found.refused.index("min_rows=3")
    with pytest.raises(ValueError, match="no column 'none'"):
        describe_table(frame, node="hospital", target="none")
    counts = describe_table(FRAME.assign(stay=range(N)), node="hospital", target="stay")
    assert (counts.loss, counts.total.mean) == ("", (N - 1) / 2)


def test_columns_that_only_tell_sites_apart_are_named():
    """Beds are the same within every site, heights in all rows, and rooms at every site but one."""
    frame = pd.DataFrame(
        {"site": list("aabbcc"), "beds": [3, 3, 5, 5, None, 4], "heights": 2, "rooms": [1, 1, 2, 2, 3, 4]}
    )
    found = describe_table(frame.assign(y=list("noonno")), node="site", target="y")
    assert [(one.name, one.of_site) for one in found.columns] == [("beds", True), ("heights", False), ("rooms", False)]
    assert "The same for all rows of a site, so that no site can learn from it alone: beds." in str(found)
    assert "One value in all rows, which tells nothing: heights." in str(found)


def test_events_are_counted_as_cox_is_told_of_them():
    """Of site a's 20 times 4 end with an event, of b's 10; 2 says so."""
    seen = [2] * 4 + [1] * 16 + [2] * 10 + [1] * 10
    table = {"site": ["a"] * 20 + ["b"] * 20, "x": DRAW.normal(size=40), "days": range(1, 41), "seen": seen}
    found = describe_table(table, target="days", event="seen")
    assert [one.events for one in (*found.sites, found.total)] == [4, 10, 14]
    assert [[str(odd) for odd in one.odd] for one in found.sites] == [["4 events", "few rows"], ["few rows"]]
    assert "Fewer than 5 events, too few for a claim, at 1 of 2 sites (a)." in str(found)
    assert "days, a time until an event, seen in 14 rows: mean 20.5" in str(found)


def test_classes_that_may_be_counts_are_asked_about():
    table = {"site": ["a", "b"] * 30, "x": range(60), "visits": [k % 7 for k in range(60)]}
    asked = "If they are counts, give loss='poisson'; if other amounts, loss='mse'."
    assert asked in str(describe_table(table, target="visits"))
    assert asked not in str(describe_table({**table, "visits": [k % 2 for k in range(60)]}, target="visits"))


def test_of_many_sites_the_oddest_and_smallest_are_shown():
    sizes = np.array([30] * 60 + [8, 40])
    table = {"site": np.repeat(np.arange(62), sizes), "x": DRAW.normal(size=sizes.sum())}
    table["y"] = np.where(table["site"] == 5, 0, np.arange(sizes.sum()) % 2)
    described = describe_table(table)
    shown = sites_described(described, most=3)
    assert [row[0].text for row in shown.rows] == ["0", "5", "60", "all sites"]
    assert [note.numbers for note in shown.notes] == [{"left_out": 59}]
    assert len(sites_described(described).rows) == 63


def test_of_many_classes_the_rarest_is_named():
    table = {"site": ["a", "b"] * 60, "x": range(120), "y": [f"c{k // 2 % 12}" for k in range(118)] + ["rare"] * 2}
    found = describe_table(table)
    assert "one of 13 classes, of which 'rare' is the rarest (2 rows)" in str(found)
    assert "rare: 1 row" in str(found)


def test_the_page_says_the_same(found_table, tmp_path):
    text = report.page(found_table, tmp_path / "table.html").read_text()
    for one in ("To predict: ill", "no value of age", "Every column to predict from"):
        assert one in text
