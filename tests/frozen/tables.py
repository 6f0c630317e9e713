"""Tables whose tasks are recorded: those that ship, those of the documentation, and those that users stumbled over."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np

from graphcollab import Tasks, load_dataset

Columns: TypeAlias = dict[str, list[Any]]
Case: TypeAlias = Callable[[Path], Tasks]

ALL = {"val_fraction": 0, "test_fraction": 0}
DOCS = """hospital,age,sex,pressure,outcome
north,63,m,145,well
north,67,m,160,ill
north,41,f,,well
north,56,m,120,ill
north,62,f,140,ill
south,57,f,,well
south,44,m,120,well
south,52,m,172,ill
south,54,f,150,ill
south,48,f,110,well
"""
PARKINSONS = ("subject#", "age", "sex", "test_time", "motor_UPDRS", "total_UPDRS", "Jitter(%)", "PPE")
AGE = [40.0 + k % 17 for k in range(40)]


def patients(n: int = 60, seed: int = 1, **more: Sequence[Any]) -> Columns:
    """Return the columns of patients of three sites, and further columns, which are repeated to their length."""
    draw = Random(seed)
    table: Columns = {
        "site": [("north", "south", "west")[k % 3] for k in range(n)],
        "age": [draw.randrange(20, 90) for _ in range(n)],
        "pressure": [None if draw.random() < 0.1 else round(draw.gauss(130, 15), 1) for _ in range(n)],
        "sex": [draw.choice("fm") for _ in range(n)],
        "height": [round(draw.gauss(170, 9), 1) for _ in range(n)],
    }
    logit = [(age - 55) / 10 + draw.gauss(0, 1) for age in table["age"]]
    table["y"] = ["ill" if one > 0 else "well" for one in logit]
    return table | {name: [values[k % len(values)] for k in range(n)] for name, values in more.items()}


def days(n: int = 60, seed: int = 2, **more: Sequence[Any]) -> Columns:
    """Return the like with an amount to predict."""
    table = patients(n, seed, **more)
    draw = Random(seed + 100)
    return table | {"y": [round(age / 5 + draw.gauss(0, 2), 2) for age in table["age"]]}


def written(table: Mapping[str, Sequence[Any]], separator: str = ",", decimal: str = ".", missing: str = "") -> str:
    """Return a table as the text of a CSV file."""
    rows = [[missing if one is None else str(one) for one in row] for row in zip(*table.values(), strict=True)]
    rows = [[one.replace(".", decimal) for one in row] for row in rows]
    return "\n".join(separator.join(row) for row in [[*table], *rows]) + "\n"


def file(content: str | bytes, name: str = "t.csv", **settings: Any) -> Case:
    """Return the case of a CSV file with some content."""

    def make(folder: Path) -> Tasks:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Tasks.from_frame(path, **settings)

    return make


def frame(table: Any, **settings: Any) -> Case:
    """Return the case of a table in memory."""
    return lambda _: Tasks.from_frame(table, **settings)


def arrays(*columns: Any, **settings: Any) -> Case:
    """Return the case of flat arrays."""
    return lambda _: Tasks.from_arrays(*columns, **settings)


def heart(**settings: Any) -> Case:
    """Return the case of the table that ships."""
    return lambda _: load_dataset("heart_disease").tasks(**settings)


def parkinsons(folder: Path, **settings: Any) -> Tasks:
    """Return tasks of a small file that is written as the original one is."""
    draw, path = Random(3), folder / "tabular" / "parkinsons_updrs.data"
    path.parent.mkdir()
    rows = [
        [k % 4 + 1, 50 + k % 4, k % 2, k / 2, *(round(draw.uniform(5, 40), 3) for _ in range(2)), draw.random(), 0.1]
        for k in range(32)
    ]
    path.write_text("\n".join(",".join(map(str, row)) for row in [PARKINSONS, *rows]) + "\n")
    return load_dataset("parkinsons", root=folder).tasks(**settings)


def again(**settings: Any) -> Case:
    """Return the case of further rows, of a newcomer with an unseen word, that are prepared as others were."""
    old, new = patients(), patients(12, 7, site=["east"], sex=["f", "x"])
    return lambda _: Tasks.from_frame(new, preparation=Tasks.from_frame(old).preparation, **settings)


def two_sites(first: Any, second: Any, column: str = "y", route: str = "frame", **settings: Any) -> Case:
    """Return the case of two tables that write a column differently, as one frame or as a dict by site."""
    tables = {
        name: {"age": AGE, "s": [*"uvw"] * 13 + ["u"], "y": [*"uvvu"] * 10, column: [*values] * (40 // len(values))}
        for name, values in (("A", first), ("B", second))
    }
    joined = {name: [one for table in tables.values() for one in table[name]] for name in tables["A"]}
    return frame(tables if route == "dict" else {"site": ["A"] * 40 + ["B"] * 40, **joined}, **settings)


def cases() -> Iterator[tuple[str, Case]]:
    """Yield the name of every case and what makes its tasks."""
    for group, found in {"shipped": shipped(), "docs": docs(), "arrays": flat(), "cells": cells()}.items():
        yield from ((f"{group}/{name}", case) for name, case in found.items())
    for group, found in {"files": files(), "targets": targets(), "doubts": doubts()}.items():
        yield from ((f"{group}/{name}", case) for name, case in found.items())


def shipped() -> dict[str, Case]:
    return {
        "heart_disease": heart(),
        "heart_disease by auc": heart(metric="auc", seed=3),
        "heart_disease per site": heart(pooled="per_site", indicator_above=0.3),
        "heart_disease, some columns": heart(columns=["age", "sex", "thal"], test_fraction=0.5, stratify=False),
        "heart_disease as a frame": lambda _: Tasks.from_frame(
            load_dataset("heart_disease").columns, node="hospital", target="disease", categorical=["cp"]
        ),
        "parkinsons": parkinsons,
        "parkinsons standardized": lambda folder: parkinsons(folder, standardize_target=True, pooled="per_site"),
    }


def docs() -> dict[str, Case]:
    table, part = patients(), ["train", "train", "val", "test", "train"]
    by_site = {
        name: {column: values[k::3] for column, values in table.items() if column != "site"}
        for k, name in enumerate(("north", "south", "west"))
    }
    return {
        "patients": file(DOCS, "patients.csv", node="hospital", target="outcome"),
        "weights": frame(patients(ill=[0, 0, 1, 1], people=[100, 250, 80, 40]), target="ill", weight="people"),
        "groups": frame(patients(patient=[*range(21)]), group="patient"),
        "split": frame(patients(part=part), split="part"),
        "split of two words": frame(patients(part=["train", "test", "train"]), split="part", seed=4),
        "by site": frame(by_site),
        "rows": frame([dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]),
        "numpy": frame({name: np.array(values) for name, values in patients(pressure=[1.5, np.nan, 2]).items()}),
        "declared": frame(table, categories={"sex": ["f", "m", "d"], "y": ["ill", "well"]}),
        "declared, too few": frame(patients(sex=["f", "m", "d"]), categories={"sex": ["f", "m"]}),
        "categorical": frame(patients(ward=[1, 2, 3, 3]), categorical=["ward"], leave_out=["age"]),
        "amounts": frame(days()),
        "amounts standardized": frame(days(), standardize_target=True, seed=2),
        "amounts per site": frame(days(), pooled="per_site", standardize_target=True),
        "newcomer": again(**ALL),
        "newcomer, fitted anew": again(refit=True),
        "no hold-out": frame(table, **ALL),
        "truths": frame(patients(smoker=[True, False, False], y=[True, False]), target="y"),
    }


def flat() -> dict[str, Case]:
    draw = Random(5)
    x = np.array([[draw.gauss(0, 1) for _ in range(3)] for _ in range(40)])
    y, node = np.array([0, 1, 1, 0] * 10), ["a", "b"] * 20
    return {
        "plain": arrays(x, y, node),
        "lists": arrays(x.tolist(), y.tolist(), [2, 1] * 20, seed=6),
        "amounts": arrays(x.astype(np.float32), x[:, 0], node, loss="mse", metric="mae"),
        "weights": arrays(x, y, node, weight=np.arange(1.0, 41)),
        "groups": arrays(x, y, node, group=np.arange(40) // 4, stratify=False),
        "split": arrays(x, y, node, split=["train", "train", "val", "val", "test", "test", "train", "train"] * 5),
        "images": arrays(x.reshape(10, 3, 4), y[:10], node[:10]),
        "images of other scales": arrays((abs(x) * np.where(np.arange(40) % 2, 255, 1)[:, None])[:, :, None], y, node),
        "rows twice": arrays(np.tile(x, (2, 1)), np.tile(y, 2), ["a"] * 40 + ["b"] * 40),
        "not finite": arrays(np.where(x > 1.5, np.nan, x), y, node),
        "lengths": arrays(x, y[:-1], node),
        "few rows": arrays(x[:5], y[:5], ["a", "a", "a", "a", "b"]),
        "negative weight": arrays(x, y, node, weight=y - 0.5),
        "labels from 1": arrays(x, y + 1, node),
    }


def cells() -> dict[str, Case]:
    rows = written(patients())
    return {
        "missing words": file(written(patients(v=["1", "NA", "n/a", "?", "", "2.5", "NaN", "null", ".", "<NA>"]))),
        "missing words of categories": frame(patients(v=["a", "NA", "n/a", "?", "", "b", None, "null", ".", "<NA>"])),
        "dash and unknown": frame(patients(v=["a", "-", "unknown", "b"])),
        "numbers as text": frame(patients(v=["52.2", "48", "50.5"])),
        "numbers and a word": frame(patients(v=[*map(str, range(1, 20)), "k.A."])),
        "units": frame(patients(v=["12 %", "7 %", "9 %"])),
        "thousands": file(written(patients(v=["1", "2"])).replace(",1\n", ',"1,234"\n')),
        "huge whole number": file(written(patients(v=["7", "8", "9" * 5000]))),
        "beyond the largest": file(written(patients(v=[1, 2, "1e31"]))),
        "infinity": frame(patients(v=[1.0, 2.0, math.inf])),
        "long cell": file(written(patients(v=["a", "b", "x" * 140_000]))),
        "unicode minus": file(written(patients(v=["−1.5", "2", "3.5"]))),
        "spaces": frame(patients(sex=["f ", " m", "f", "m"], site=["north ", "south", " west"])),
        "case": frame(patients(sex=["Yes", "yes", "no"])),
        "numbers as sites": file(rows.replace("north", "1.0").replace("south", "2.0").replace("west", "10.0")),
        "small deviation": frame(patients(v=[1e9 + k * 0.004 for k in range(7)]), **ALL),
        "large scale": frame(patients(v=[k * 1e12 for k in range(7)])),
        "constant": frame(patients(v=[5]), **ALL),
        "all missing": frame(patients(v=[None])),
        "free text": frame(patients(note=[f"came by ambulance number {k}" for k in range(60)])),
        "site missing": file(rows.replace("north", "", 1)),
        "target missing": file(rows.replace("ill", "", 1)),
    }


def files() -> dict[str, Case]:
    rows, amounts = written(patients()), written(days())
    umlauts = written(patients(sex=["weiblich", "männlich"]))
    return {
        "comma": file(rows),
        "compressed": file(gzip.compress(rows.encode()), "t.csv.gz"),
        "semicolon": file(written(patients(), ";")),
        "decimal comma": file(written(days(), ";", ",")),
        "decimal comma by tabs": file(written(days(), "\t", ",", "NA")),
        "point or thousands": file(written(days(v=["1.234", "2.500"]), ";").replace("well", "1,5")),
        "byte order mark": file(b"\xef\xbb\xbf" + umlauts.encode()),
        "utf-16": file(umlauts.encode("utf-16")),
        "latin-1": file(umlauts.encode("latin-1")),
        "quoted line breaks": file(rows.replace(",f,", ',"fe\nmale",')),
        "quoted separators": file(rows.replace(",m,", ',"male, or so",')),
        "open quote": file(rows.replace(",m,", ',"m,', 1)),
        "windows line ends": file(amounts.replace("\n", "\r\n")),
        "blank lines": file(amounts.replace("\n", "\n\n")),
        "ragged": file(rows + "north,1\n"),
        "empty": file(""),
        "header only": file("site,age,y\n"),
        "column twice": file(rows.replace("pressure", "age", 1)),
        "column without a name": file("".join(f"{2 * k if k else ''},{one}\n" for k, one in enumerate(rows.split()))),
        "zero bytes": file(rows.replace("north", "no\0rth", 1)),
        "no file": lambda folder: Tasks.from_frame(folder / "none.csv"),
        "excel": file(b"PK\x03\x04" + bytes(40), "t.xlsx"),
        "wrong column": file(rows, target="outcom"),
        "no site column": file(rows.replace("site", "place", 1)),
        "one site": file(rows.replace("south", "north").replace("west", "north")),
        "site of two rows": file(rows + "east,1,2,f,ill\neast,2,3,m,well\n"),
    }


def targets() -> dict[str, Case]:
    return {
        "whole numbers": frame(patients(y=[0, 1, 1])),
        "codes of nothing": frame(patients(y=[0, 1, 1, 0, -9])),
        "counts": frame(patients(y=[*range(9)])),
        "many counts": frame(patients(y=[*range(15)])),
        "counts as amounts": frame(patients(y=[*range(15)]), loss="mse"),
        "words as amounts": frame(patients(), loss="mse"),
        "amounts as classes": frame(days(), loss="cross_entropy"),
        "numbers as text": frame(patients(y=["0", "1", "1"])),
        "large amounts": frame(days() | {"y": [1000.0 + k * 37.5 for k in range(60)]}),
        "status and time": frame(patients(status=[1, 2, 2], time=[*range(5, 60)]), target="status"),
        "one class": frame(patients(y=["ill"])),
        "a site of one class": frame(patients() | {"y": ["ill" if k % 3 == 0 or k % 2 else "well" for k in range(60)]}),
        "rare class": frame(patients() | {"y": ["rare" if k == 7 else "ab"[k // 3 % 2] for k in range(60)]}),
        "0, 1 and 1, 2": two_sites([0, 1], [1, 2]),
        "0, 1 and words": two_sites([0, 1], ["no", "yes"]),
        "0, 1 and words by site": two_sites([0, 1], ["no", "yes"], route="dict"),
        "words and words by site": two_sites(["0", "1"], ["no", "yes"], route="dict"),
        "inputs 1, 2 and 0, 1": two_sites([1, 2], [0, 1], "s"),
        "categories 1, 2 and 0, 1": two_sites([1, 2], [0, 1], "s", categorical=["s"]),
        "inputs of different words": two_sites(["ja", "nein"], ["yes", "no"], "s", "dict"),
        "inputs of different kinds": two_sites([1, 2], ["no", "yes"], "s", "dict"),
        "text at one site": two_sites(AGE, [*map(str, AGE)], "age", "dict"),
    }


def doubts() -> dict[str, Case]:
    ids, told, level = [*range(1000, 1060)], patients(), [0.01 * k for k in range(60)]
    amounts = days()
    ill = [one == "ill" for one in told["y"]]
    return {
        "copy of the target": frame(patients(copy=["a" if one else "b" for one in ill])),
        "threshold": frame(patients(lab=[(10 if one else 3) + more for one, more in zip(ill, level, strict=True)])),
        "same order": frame(days(twice=[2 * one + 1 for one in amounts["y"]])),
        "rounded": frame(days(about=[round(one) for one in amounts["y"]])),
        "rows of nines": frame(patients(v=[5, 7, 6, 8, 999, 6, 4])),
        "-9": frame(patients(v=[5, 7, 6, 8, -9, 6, 4])),
        "zeros of a site": frame(patients() | {"v": [0 if k % 3 == 0 else 150 + k for k in range(60)]}),
        "other units at a site": frame(patients() | {"v": [k * (1000 if k % 3 == 0 else 1) for k in range(60)]}),
        "dates": frame(patients(day=["2020-01-31", "2020-02-01", "2021-03-05"])),
        "dates as numbers": frame(patients(day=[20200131, 20200201, 20210305, 20191224])),
        "identifiers": frame(patients(patient_no=ids)),
        "identifiers as text": frame(patients(code=[f"P{k}" for k in ids])),
        "numbered rows": frame(patients(120, seed=4, v=[*range(120)])),
        "persons that come again": frame(patients(patient=[f"p{k * 7 % 20}" for k in range(60)])),
        "persons in groups": frame(patients(patient=[k // 3 for k in range(60)]), group="patient"),
        "rows twice": frame({name: values * 2 for name, values in patients().items()}),
        "half of the rows twice": file(written({name: one + one[:30] for name, one in days().items()})),
        "same law, few of a class": frame(
            patients(240) | {"y": ["yes" if Random(k).random() < 0.12 else "no" for k in range(240)]}
        ),
        "leading text in a split": frame(patients(part=["train", "test", "holdout"]), split="part"),
    }
