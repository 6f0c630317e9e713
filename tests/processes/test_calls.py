"""`compare`, `benefit` and examples find in several processes what they find in one."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from pathlib import Path

import pytest
import torch

from tests.data.rooms import prepared
from tests.forked import launch
from tests.processes.calls import play
from tests.processes.hospitals import outcomes_of, tables
from tests.processes.test_equal import torchrun

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[!_]*.py"))


@pytest.mark.slow
def test_calls_find_the_same(tmp_path):
    done = launch(2, Path(__file__).with_name("calls.py"), tmp_path, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = json.loads(json.dumps(play()))
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        for name in ("compared", "matrix"):
            assert torch.allclose(torch.tensor(found[name]), torch.tensor(alone[name]), atol=1e-6, equal_nan=True), name
        for name in ("chosen", "answer", "sites"):
            assert found[name] == alone[name], name


def marked(example: Path):
    """Some examples in every check, all of them nightly."""
    often = example.stem in ("hospitals", "patients", "train_meta_l2c")
    return pytest.param(example, id=example.stem, marks=[] if often else pytest.mark.nightly)


@pytest.mark.slow
@pytest.mark.parametrize("example", [*map(marked, EXAMPLES)])
def test_examples_run(example, tmp_path):
    options = re.search("^# ci: (.*)", example.read_text(), re.MULTILINE)[1].replace("$OUT", str(tmp_path))
    done = torchrun(2, example, *shlex.split(options), timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]


def close(one, other, path=""):
    """Check that two values of JSON are the same, up to rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            close(one[key], other[key], f"{path}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for k, pair in enumerate(zip(one, other, strict=True)):
            close(*pair, f"{path}/{k}")
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-5, rel=1e-4), path
    else:
        assert one == other, path


@pytest.mark.slow
def test_hospitals_that_keep_their_tables_find_the_same(tmp_path):
    done = launch(3, Path(__file__).with_name("hospitals.py"), tmp_path, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    pooled = tables()
    alone = json.loads(json.dumps(outcomes_of(lambda **settings: prepared(pooled, **settings))))
    everybody = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    for found in everybody:
        assert found.keys() == alone.keys()
        for name, one in alone.items():
            close(found[name]["told"], one["told"], name)
            if name != "compared":
                assert found[name]["answer"] == one["answer"], name
        assert found["compared"]["deals"] == alone["compared"]["deals"] == 1
        assert found["compared"]["fingerprints"] == everybody[0]["compared"]["fingerprints"]
        numbers = [re.findall(r"-?\d+\.\d+", one["compared"]["answer"]) for one in (found, alone)]
        close(*([float(number) for number in one] for one in numbers))
