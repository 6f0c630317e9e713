from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graphcollab import load_dataset, run
from graphcollab.methods import local
from tests.raising import raises


def test_the_four_hospitals_are_the_original_files() -> None:
    table = load_dataset("heart_disease")
    assert table.sizes == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
    assert (len(table), table.node, table.target) == (920, "hospital", "disease")
    columns, at = table.columns, table.columns["hospital"]
    diseased = {str(site): int(columns["disease"][at == site].sum()) for site in np.unique(at)}
    assert diseased == {"cleveland": 139, "hungarian": 106, "switzerland": 115, "va": 149}
    assert np.isnan(columns["chol"][at == "switzerland"]).all()
    first = {name: columns[name][0] for name in ("age", "sex", "cp", "chol", "oldpeak", "thal", "disease")}
    assert first == {"age": 63, "sex": 1, "cp": 1, "chol": 233, "oldpeak": 2.3, "thal": 6, "disease": 0}
    assert int(np.isnan(columns["ca"]).sum()) == 611


def test_hospitals_become_tasks() -> None:
    tasks = load_dataset("heart_disease").tasks(metric="auc", seed=3)
    features = tasks.preparation.features
    assert {"age", "chol missing", "thal = 7", "cp = 4"} <= set(features)
    assert not {"disease", "hospital", "num"} & set(features)
    assert tasks.sizes("test").tolist() == [61, 59, 25, 40]
    assert torch.isfinite(tasks.pools["samples"].inputs).all()
    result = run(local(lr=0.05), tasks, torch.nn.Linear(len(features), 2), rounds=15)
    assert float(result.history.final("test_metric").mean()) > 0.7


def test_all_splits_have_the_same_features() -> None:
    table = load_dataset("heart_disease")
    prepared = [table.tasks(seed=seed, test_fraction=0.9).preparation for seed in range(4)]
    assert len({one.features for one in prepared}) == 1
    assert len({one.columns[0].mean for one in prepared}) == 4
    parts = np.where(np.arange(920) % 2 == 0, "train", "test")
    parted = replace(table, columns={**table.columns, "part": parts})
    split = parted.tasks(split="part")
    assert split.preparation.features == prepared[0].features
    assert split.sizes("test").sum() == 460
    assert table.tasks(columns=["age", "sex"]).preparation.features == ("age", "sex")
    some = parted.tasks(split="part", leave_out=["cp", "thal"]).preparation
    assert {one.name for one in some.columns} == {*table.columns} - {"hospital", "disease", "cp", "thal"}
    assert "restecg missing" in prepared[0].features  # of two patients


def write(root: Path, header: str) -> None:
    (root / "tabular").mkdir()
    rows = ["2,60,0,1.5,20.5,30.5,0.1,0.2", "1,70,1,2.5,21.5,31.5,0.3,0.4", "2,60,0,3.5,22.5,32.5,0.5,0.6"]
    (root / "tabular" / "parkinsons_updrs.data").write_text("\n".join([header, *rows]).replace(",", "\t") + "\n")


HEADER = "subject#,age,sex,test_time,motor_UPDRS,total_UPDRS,Jitter(%),PPE"


def test_the_other_score_is_no_input(tmp_path: Path) -> None:
    write(tmp_path, HEADER)
    table = load_dataset("parkinsons", root=tmp_path)
    assert list(table.columns) == ["patient", "motor_UPDRS", "age", "sex", "test_time", "Jitter(%)", "PPE"]
    assert table.sizes == {"1": 1, "2": 2}
    tasks = table.tasks(val_fraction=0, test_fraction=0)
    assert (tasks.names, tasks.loss, tasks.metric) == (("1", "2"), "mse", "mae")
    assert tasks.pools["samples"].targets.tolist() == [20.5, 21.5, 22.5]
    total = load_dataset("parkinsons", root=tmp_path, target="total_UPDRS")
    assert (total.target, total.columns["total_UPDRS"].tolist()) == ("total_UPDRS", [30.5, 31.5, 32.5])
    assert "motor_UPDRS" not in total.columns


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with raises("missing-file", f"file {tmp_path / 'tabular' / 'parkinsons_updrs.data'}", kind=FileNotFoundError):
        load_dataset("parkinsons", root=tmp_path)
    with raises("unsupported", "download"):
        load_dataset("parkinsons", root=tmp_path, download=True)
    with raises("value", "target", "'motor_UPDRS'", "'total_UPDRS'", "'age'"):
        load_dataset("parkinsons", root=tmp_path, target="age")
    write(tmp_path, HEADER.replace("motor", "arm"))
    with raises("unknown", "column 'motor_UPDRS'", "'subject#'"):
        load_dataset("parkinsons", root=tmp_path)


def test_the_real_recordings(data_root: Path) -> None:
    if not (data_root / "tabular").is_dir():
        pytest.skip("needs the folder tabular")
    table = load_dataset("parkinsons", root=data_root)
    assert (len(table), len(table.sizes), len(table.columns)) == (5875, 42, 21)
    tasks = table.tasks()
    assert tasks.names[:3] == ("1", "2", "3")
    assert len(tasks.preparation.features) == 19
