"""Every example computes where ``--device`` says."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest

from graphcollab.train import Compute

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.rglob("*.py") if not path.name.startswith("_"))


def run_script(script: Path, *line: str) -> None:
    """Run a script in this process."""
    before, folder = set(sys.modules), str(script.parent)
    sys.argv, sys.path = [str(script), *line], [folder, *sys.path]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
                del sys.modules[name]  # another folder may have a module of that name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_example_takes_a_device(script, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", sys.path)
    with pytest.raises(SystemExit) as ended:
        run_script(script, "--help")
    assert ended.value.code == 0
    assert "--device" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run_script(script, "--device", "gpu9")
    assert re.search("gpu9.*(cannot be used|invalid choice)|invalid choice.*gpu9", capsys.readouterr().err)


def test_the_gpu_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert Compute("auto").found_device().type == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.zeros", mock.Mock())  # of a GPU that answers
    assert Compute("auto").found_device().type == "cuda"
