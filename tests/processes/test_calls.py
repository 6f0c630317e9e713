"""`compare`, `benefit` and examples find in several processes what they find in one."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from pathlib import Path

import pytest
import torch

from tests.processes.calls import play
from tests.processes.test_equal import launch

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[!_]*.py"))


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


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    options = re.search("^# ci: (.*)", example.read_text(), re.MULTILINE)[1].replace("$OUT", str(tmp_path))
    done = launch(2, example, *shlex.split(options), timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
