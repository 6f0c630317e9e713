"""What the cells of tables are read as: numbers, true and false, or text, alike from files and from frames."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import pytest
import torch

from graphcollab import Tasks
from graphcollab.data._values import is_number
from graphcollab.data.table import open_table, read_column
from tests.raising import raises, warns

ALL = {"val_fraction": 0, "test_fraction": 0}
SMOKER = [k % 3 == 0 for k in range(12)]


def column(table, name):
    return read_column(open_table(table), name)


def write(path, name, cells, separator=","):
    rows = [{"site": "ab"[k % 2], name: cell, "y": k % 3 % 2} for k, cell in enumerate(cells)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["site", name, "y"], delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("separator", [",", "|"])
@pytest.mark.parametrize("cells", [["950", "12,500"], ["NA", "12,5"], ["1", "1,234,567"], ["2.5", "1,234.5"]])
def test_commas_that_may_separate_thousands_are_refused(tmp_path, cells, separator):
    table = write(tmp_path / "t.csv", "income", cells, separator)
    with raises("ambiguous", "column 'income'", f"row 1 (site 'b') has '{cells[1]}'", "separators of thousands"):
        Tasks.from_frame(table, **ALL)
    assert column(table, "y").tolist() == [0, 1]  # and others can be read


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_where_commas_mean_nothing_else(tmp_path, separator):
    table = write(tmp_path / "t.csv", "income", ["12,500", "950", "?"], separator)
    assert column(table, "income").tolist() == pytest.approx([12.5, 950.0, np.nan], nan_ok=True)


def test_decimal_commas_without_a_zero_before_them(tmp_path):
    table = write(tmp_path / "t.csv", "share", [",7", "1,5", "-,25"], ";")
    assert column(table, "share").tolist() == [0.7, 1.5, -0.25]


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("other", ["12,5", "1.012,5"])
def test_points_that_may_separate_thousands_are_refused_beside_decimal_commas(tmp_path, separator, other):
    def table(*cells):
        path = write(tmp_path / "t.csv", "income", cells, separator)
        path.write_text(path.read_text().replace(f"a{separator}", f"{other}{separator}", 1))  # as the name of a site
        return path

    for cells in (["900", "1.234", "NA"], ["900", "1.234.567", "2.000"], ["900,5", "-2.000", "1"]):
        with raises("ambiguous", "column 'income'", "separators of thousands"):
            Tasks.from_frame(table(*cells), **ALL)
    assert column(table("1.234", "0.5"), "income").tolist() == [1.234, 0.5]
    assert column(table("0.123", "0.500"), "income").tolist() == [0.123, 0.5]
    assert column(table("1.234", "x"), "income").tolist() == ["1.234", "x"]
    assert column(write(tmp_path / "t.csv", "x", ["1.234", "2"], separator), "x").tolist() == [1.234, 2]


@pytest.mark.parametrize(
    "cells",
    [["1.234,5", "2.000,0"], ["1 234,5", "12"], ["12 %", "7%"], ["1'000", "20"], ["5 €", "-1 €"], ["7\u00a0%", "8 %"],
     ["1\u202f000", "20\u202f000,5"], ["3 kg", "4.5 kg"], ["$59,222", "€7"], ["836 sq ft", "796 sqft"],
     ["5 mg/dl", "6 mg/dl"]],
)  # fmt: skip
def test_numbers_with_units_or_separators_are_no_categories(tmp_path, cells):
    for table in (
        write(tmp_path / "t.csv", "v", cells * 4, ";"),
        {"site": [*"ab"] * 4, "v": cells * 4, "y": [0, 1] * 4},
    ):
        with raises("ambiguous", "column 'v'", f"row 0 (site 'a') has {cells[0]!r}"):
            Tasks.from_frame(table, **ALL)


@pytest.mark.parametrize(
    "cells", [["30s", "40s"], ["1st", "2nd"], ["18-25", "26-40"], ["2 doors", "4 doors"], ["B12", "5A"], ["<5", ">5"]]
)
def test_categories_with_digits_are_categories(cells):
    table = {"site": [*"ab"] * 4, "v": cells * 4, "y": [0, 1] * 4}
    assert len(Tasks.from_frame(table, **ALL).preparation.features) == 2


def test_spaces_around_text_do_not_count_in_files_or_frames(tmp_path):
    path, frame = tmp_path / "t.csv", {"site": ["a ", "b", " a", "b "] * 3, "v": ["no ", "yes", " no", " "] * 3}
    frame["y"] = ["ill", " well", "well ", "ill "] * 3
    path.write_text("\n".join(["site;v;y", *(";".join(row) for row in zip(*frame.values(), strict=True))]))
    made = [Tasks.from_frame(one, **ALL) for one in (path, frame)]
    pandas = pytest.importorskip("pandas")
    made.append(Tasks.from_frame(pandas.read_csv(path, sep=";"), **ALL))
    made.append(Tasks.from_frame(pandas.DataFrame({name: pandas.Categorical(v) for name, v in frame.items()}), **ALL))
    for tasks in made:
        assert tasks.names == ("a", "b")
        assert tasks.preparation.features == ("v = no", "v = yes", "v missing")
        assert tasks.preparation.classes == ("ill", "well")
        assert torch.equal(tasks.preparation.apply({"v": ["no ", "\tyes", ""]}), torch.eye(3))
    by_site = {
        "a ": {"v": [1, 2], "y": [0, 1], "site": ["a", "a "]},
        "b": {"v": [1, 2], "y": [0, 1], "site": ["b"] * 2},
    }
    assert Tasks.from_frame(by_site, **ALL).names == ("a", "b")


def test_text_may_have_commas(tmp_path):
    assert column(write(tmp_path / "t.csv", "name", ["1,5", "Smith, J"]), "name").tolist()[0] == "1,5"


@pytest.mark.parametrize("cell", ["1", "-1", "+1.5", ".5", "5.", "1e3", "1.5E-3", "inf", "-Infinity", "nan"])
def test_numbers(cell):
    assert is_number(cell)


@pytest.mark.parametrize("cell", ["1_0", "", ".", "e3", "1e", "1,5", "0x1", "1 0", "٣", "--1"])
def test_no_numbers(cell):
    assert not is_number(cell)


def test_what_only_python_takes_for_numbers_is_text(tmp_path):
    table = write(tmp_path / "t.csv", "code", ["1_0", "1_1"] * 6)
    assert Tasks.from_frame(table, **ALL).preparation.features == ("code = 1_0", "code = 1_1")


@pytest.fixture(params=["bool", "text", "upper", "rows", "pandas", "polars", "categorical"])
def frame(request, tmp_path):
    """The same table of true and false from another source."""
    table = {"site": ["a", "b"] * 6, "smoker": SMOKER, "y": [k % 3 % 2 for k in range(12)]}
    words = [str(one) for one in SMOKER]
    if request.param in ("pandas", "polars", "categorical"):
        library = pytest.importorskip("polars" if request.param == "polars" else "pandas")
        if request.param == "categorical":
            return library.DataFrame({**table, "smoker": library.Categorical(words)})
        return library.read_csv(write(tmp_path / "other.csv", "smoker", SMOKER))
    if request.param == "rows":
        return list(csv.DictReader(io.StringIO(write(tmp_path / "other.csv", "smoker", SMOKER).read_text())))
    return {**table, "smoker": {"bool": SMOKER, "text": words, "upper": [one.upper() for one in words]}[request.param]}


def test_true_and_false_are_read_alike(frame, tmp_path):
    table = write(tmp_path / "t.csv", "smoker", SMOKER)
    assert column(frame, "smoker").tolist() == column(table, "smoker").tolist() == SMOKER
    given = Tasks.from_frame(table, **ALL).preparation
    assert given.features == ("smoker",)  # a third of rows is true: mean 1/3, standard deviation sqrt(2)/3
    expected = torch.tensor([[2**0.5] if one else [-(0.5**0.5)] for one in SMOKER])
    torch.testing.assert_close(given.apply(frame), expected)
    target = Tasks.from_frame({"site": ["a"] * 12, "x": range(12), "smoker": SMOKER}, target="smoker", **ALL)
    assert target.preparation.classes == (False, True)
    assert (
        target.preparation.targets(frame).tolist() == target.preparation.targets(table).tolist() == [*map(int, SMOKER)]
    )


def test_missing_among_true_and_false(tmp_path):
    file = column(write(tmp_path / "t.csv", "smoker", ["true", "", "FALSE"]), "smoker")
    row = column({"smoker": ["True", "", "False"]}, "smoker")
    other = column({"smoker": [True, None, False]}, "smoker")
    np.testing.assert_array_equal([file, row, other], [[1.0, np.nan, 0.0]] * 3)
    assert column({"smoker": ["", ""]}, "smoker").tolist() == [None, None]
    assert column({"smoker": ["true", "unknown"]}, "smoker").tolist() == ["true", "unknown"]


def test_true_and_false_beside_other_words_at_another_site():
    sites = {"a": {"s": ["True", None, "False"], "y": [0, 1, 0]}, "b": {"s": ["True", "unknown"], "y": [0, 1]}}
    with raises("mismatch", "column 's'", "'a'", "'True'"):
        Tasks.from_frame(sites, categorical=["s"], **ALL)
    sites["b"]["s"] = ["some", "unknown"]
    names = ("s = 0", "s = 1", "s = some", "s = unknown")
    assert Tasks.from_frame(sites, categorical=["s"], indicator_above=1, **ALL).preparation.features == names


def test_numbers_as_text_are_the_categories_that_they_are():
    table = {"site": ["a", "b"] * 6, "ward": [1, 2, 3] * 4, "y": [0, 1] * 6}
    given = Tasks.from_frame(table, categorical=["ward"], **ALL).preparation
    assert given.apply({"ward": ["1", "2.0", "03", "4"]}).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    zips = Tasks.from_frame({**table, "ward": ["01", "1", "2"] * 4}, categorical=["ward"], **ALL).preparation
    assert zips.apply({"ward": ["01", "1"]}).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_a_column_of_unknown_categories_is_said():
    table = {"site": ["a", "b"] * 6, "sex": ["f", "m"] * 6, "y": [0, 1] * 6}
    given = Tasks.from_frame(table, **ALL).preparation
    with warns("quality", "column 'sex'", "'female'", "'male'", "'f'", "'m'"):
        assert given.apply({"sex": ["male", "female", None]}).tolist() == [[0, 0]] * 3
    assert given.apply({"sex": ["male", "m", None]}).tolist() == [
        [0, 0],
        [0, 1],
        [0, 0],
    ]  # some are known: as documented
    with warns("quality", "column 'sex'"):
        assert given.apply({"sex": [None]}).tolist() == [[0, 0]]


def test_compressed_files_are_named_as_such(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"site,x,y\na,1,0\n"))
    with raises("format", f"file {path}"):
        Tasks.from_frame(path)
    latin = tmp_path / "table.csv"
    latin.write_bytes("site,x,y\nGenève,1,0\n".encode("latin-1"))
    with raises("format", f"file {latin}"):
        Tasks.from_frame(latin)


@pytest.mark.parametrize(
    ("lines", "code", "facts"),
    [
        ("63,1,1,0\n67,0,2,1\n", "duplicate", ("2 columns", "'1'", "first line")),
        ("63,1,2,0\n67,0,2,1\n", "format", ("numbers", "first line")),
        ("# export\na,1,1\n", "format", ("saw 3", "first line")),
    ],
)
def test_a_first_line_without_names_is_said(tmp_path, lines, code, facts):
    (tmp_path / "t.csv").write_text(lines)
    with raises(code, f"file {tmp_path / 't.csv'}", *facts):
        open_table(tmp_path / "t.csv")


@pytest.mark.parametrize("odd", ["k.A.", "-", "unbekannt", "#NV", "#DIV/0!", "<0,5", ">100"])
@pytest.mark.parametrize("comma", [",", "."])
def test_the_word_among_numbers_is_named_and_not_the_numbers(tmp_path, odd, comma):
    cells = [f"{k}{comma}5" for k in range(7)]
    cells[3] = odd
    with raises("ambiguous", "column 'crp'", f"row 3 (site 'b') has {odd!r}"):
        Tasks.from_frame(write(tmp_path / "t.csv", "crp", cells, ";"))
    cells = [odd] * 5 + ["1.5", "2.25", "0.7"]  # in most rows
    with raises("ambiguous", "column 'crp'", f"row 0 (site 'a') has {odd!r}"):
        Tasks.from_frame({"site": [*"ab"] * 4, "crp": cells, "y": [0, 1] * 4}, **ALL)


@pytest.mark.parametrize("cells", [["1.5", "3", "unknown", "unknown"], ["0", "1", "2", "unknown"] + ["unknown"] * 4])
def test_few_numbers_among_words_are_categories(cells):
    table = {"site": [*"ab"] * 4, "v": cells * (8 // len(cells)), "y": [0, 1] * 4}
    assert Tasks.from_frame(table, **ALL).preparation.features == tuple(f"v = {one}" for one in dict.fromkeys(cells))


def test_decimal_commas_and_signs_in_frames_are_said():
    table = {"site": [*"ab"] * 4, "y": [0, 1] * 4}
    with raises("ambiguous", "column 'v'", "0", "'1,5'"):
        Tasks.from_frame({**table, "v": ["1,5", "2,5"] * 4}, **ALL)
    for cells in (["−1.5", "-2.5"], ["−1,5", "-2,5"], ["−15", "25"]):
        with raises("ambiguous", "column 'v'"):
            Tasks.from_frame({**table, "v": cells * 4}, **ALL)


@pytest.mark.parametrize("value", [1e300, -1e31])
def test_numbers_too_large_to_compute_with(value):
    table = {"site": [*"ab"] * 4, "v": [1.5] * 3 + [value] + [2.5] * 4, "y": [0.5, 1.5] * 4}
    with raises("range", "column 'v'", f"row 3 (site 'b') has {value:g}"):
        Tasks.from_frame(table, **ALL)
    with raises("range", "column 'v'", "3"):
        Tasks.from_frame(table, target="v", columns=["y"], **ALL)
    assert len(Tasks.from_frame({**table, "v": [1e30, -1e30] * 4}, **ALL).names) == 2


def test_many_whole_numbers_may_be_amounts():
    table = {"site": [*"ab"] * 22, "x": [0.5, 1.5, 2.5, 3.5] * 11, "days": [k % 11 for k in range(44)]}
    with warns("quality", "column 'days'", "11", "'mse'"):
        Tasks.from_frame(table, target="days", **ALL)
    Tasks.from_frame(table, target="days", loss="mse", **ALL)
    Tasks.from_frame(table, target="days", loss="cross_entropy", **ALL)
    Tasks.from_frame({**table, "days": [k % 10 for k in range(44)]}, target="days", **ALL)


def test_points_that_begin_at_a_thousand(tmp_path):
    def read(*cells):
        return column(write(tmp_path / "t.csv", "eur", cells, ";"), "eur").tolist()

    assert read("999", "1.234", "850", "2.100") == ["999", "1.234", "850", "2.100"]
    with raises("ambiguous", "column 'eur'", "row 1 (site 'b') has '1.234'", "separators of thousands"):
        Tasks.from_frame(tmp_path / "t.csv", **ALL)
    assert read("999", "1.234", "850", "1.234") == [999, 1.234, 850, 1.234]  # a single one
    assert read("9999", "1.234", "850", "2.100") == [9999, 1.234, 850, 2.1]
    assert read("999", "1.234", "850", "2.1") == [999, 1.234, 850, 2.1]
    assert read("9", "1.234", "8", "2.100") == [9, 1.234, 8, 2.1]
    assert read("1.000", "1.234", "8.500", "2.100") == [1, 1.234, 8.5, 2.1]


def test_rows_with_too_many_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("site,v,y\na,1,5,0\n")
    with raises("format", f"file {path}", "4"):
        open_table(path)


@pytest.mark.parametrize("cell", ["z" * 140_000, '"' + "z,1\n" * 50_000], ids=["long", "open quotation"])
def test_a_cell_that_is_too_long_is_refused(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"site,x,y\na,1,0\na,{cell},1\n")
    with raises("format", f"file {tmp_path / 't.csv'}", "field limit", "quotes"):
        open_table(tmp_path / "t.csv")


def test_whole_numbers_of_any_length(tmp_path):
    """Python reads 4300 digits at most; such numbers are names, as others beyond 63 bits are."""
    for many in (20, 5000):
        read = column(write(tmp_path / "t.csv", "k", ["9" * many, "8" * many]), "k")
        assert read.tolist() == ["9" * many, "8" * many]
    table = {"site": ["a", "b"] * 6, "k": [10**400, 1] * 6, "y": [0, 1] * 6}
    with raises("range", "column 'k'", "0"):
        Tasks.from_frame(table, **ALL)
    with raises("value", "node", "0", "21", "'site'"):
        Tasks.from_frame({**table, "site": [2**70, 2**71] * 6, "k": [0, 1] * 6}, **ALL)


def test_a_sheet_of_excel_is_read_as_a_frame(tmp_path):
    pytest.importorskip("openpyxl")
    pandas = pytest.importorskip("pandas")
    table = {"site": [*"ab"] * 6, "age": [30.5, None, 41, 52] * 3, "sex": ["f", "m", None] * 4, "y": [0, 1, 1] * 4}
    pandas.DataFrame(table).to_excel(tmp_path / "t.xlsx", index=False)
    made, known = (Tasks.from_frame(one, **ALL) for one in (tmp_path / "t.xlsx", table))
    assert made.preparation == known.preparation
    assert torch.equal(made.pools["samples"].inputs, known.pools["samples"].inputs)
    with raises("format", f"file {tmp_path / 'u.xlsx'}"):
        open_table(write(tmp_path / "u.xlsx", "x", ["1"]))


def test_rows_that_end_early_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("site,x,y\na,1,0\na,2\n")
    with raises("format", f"file {tmp_path / 't.csv'}", "row 1 has 2 values", "3 columns"):
        open_table(tmp_path / "t.csv")


def test_a_column_that_is_empty_at_one_site_stays_numbers(tmp_path):
    (tmp_path / "bern.csv").write_text("x,e,y\n" + "".join(f"{k / 7},{k / 3 - 1},{k % 2}\n" for k in range(12)))
    (tmp_path / "genf.csv").write_text("x,e,y\n" + "".join(f"{k / 5},,{k % 2}\n" for k in range(12)))
    tasks = Tasks.from_frame({site: tmp_path / f"{site}.csv" for site in ("bern", "genf")}, target="y")
    assert [column.name for column in tasks.preparation.columns] == ["x", "e"]
    assert not tasks.preparation.columns[1].categories
    frames = {
        site: {"x": [k / d for k in range(12)], "e": e, "y": [k % 2 for k in range(12)]}
        for site, d, e in (("bern", 7, [k / 3 - 1 for k in range(12)]), ("genf", 5, [float("nan")] * 12))
    }
    assert tasks.preparation == Tasks.from_frame(frames, target="y").preparation


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_without_a_name_that_numbers_rows_is_left_out(tmp_path, first):
    """As pandas writes its index, and R its names of rows; other columns need a name."""
    lines = ["site,x,y", *(f"{'ab'[k % 2]},{k * k},{k // 2 % 2}" for k in range(20))]
    table = tmp_path / "t.csv"
    table.write_text("\n".join([f",{lines[0]}", *(f'"{first + k}",{line}' for k, line in enumerate(lines[1:]))]))
    assert Tasks.from_frame(table).preparation.features == ("x",)
    table.write_text("\n".join([f",{lines[0]}", *(f"{2 * k},{line}" for k, line in enumerate(lines[1:]))]))
    with raises("format", f"file {table}", "column 0 has no name"):
        Tasks.from_frame(table)
