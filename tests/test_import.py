"""What the package does when it is imported in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

import graphcollab
from graphcollab import methods

HEAVY = ("torchvision", "sklearn", "matplotlib", "peft", "graphcollab.llm", "graphcollab.nn.functional._triton")
SCRIPT = f"""
import sys
import graphcollab.data.datasets, graphcollab.models
print(*(name for name in {HEAVY} if name in sys.modules))
import torch
from graphcollab import Tasks
tasks = Tasks.from_samples([(torch.ones(4, 3), torch.tensor([0, 1, 0, 1]))] * 3)
for method in (graphcollab.methods.meta_l2c, graphcollab.methods.fedavg, graphcollab.methods.dpsgd):
    graphcollab.run(method(), tasks, torch.nn.Linear(3, 2), rounds=1)
graphcollab.nn.MixConv()(torch.ones(2, 1), torch.tensor([[0], [1]]), torch.ones(1))
"""


@pytest.mark.slow
def test_no_heavy_library_is_imported_and_nothing_is_left_in_the_temporary_folder(tmp_path):
    """Neither when the package is imported, nor when runs are played and a layer is made."""
    places = {name: str(tmp_path) for name in ("TMPDIR", "TEMP", "TMP")}
    # PyTorch Geometric's own deprecation warning is the one exception, as in pyproject.toml
    quiet = ["-W", "error", "-W", "ignore:`torch.jit.script` is deprecated:DeprecationWarning"]
    command = [sys.executable, *quiet, "-c", SCRIPT]
    done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
    assert list(tmp_path.iterdir()) == []


LAZY = """
import sys
from importlib import import_module
from pkgutil import iter_modules
import graphcollab, graphcollab.methods
names = dir(graphcollab)
print(*(name for name in ("numpy", "torch", "graphcollab.train") if name in sys.modules))
from graphcollab.methods import ditto
import graphcollab.methods.ditto, graphcollab.train.run
assert graphcollab.methods.ditto is ditto  # and not the module of this name
assert set(graphcollab.__all__) <= set(names)
from graphcollab import *
assert run is graphcollab.train.run.run
"""


@pytest.mark.slow
def test_names_are_imported_at_first_use():
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


WITHOUT_MATPLOTLIB = """
import sys
sys.modules["matplotlib"] = None
from graphcollab import report
from graphcollab._base.errors import MissingPackageError
assert callable(report.results_table) and callable(report.page)
try:
    report.weight_heatmaps
except MissingPackageError as error:
    print(error.subject, error)
"""


@pytest.mark.slow
def test_tables_and_pages_work_without_matplotlib():
    command = [sys.executable, "-c", WITHOUT_MATPLOTLIB]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("matplotlib "), done.stderr
    assert "pip install 'graphcollab[figures]'" in done.stdout


def test_what_is_exported_is_there():
    shown = {name: getattr(graphcollab, name) for name in graphcollab.__all__}
    assert [name for name, value in shown.items() if not callable(value)] == ["partition"]
    assert all(callable(getattr(methods, name)) for name in methods.__all__)
    for module in iter_modules(graphcollab.__path__, "graphcollab."):
        package = import_module(module.name)
        assert [name for name in getattr(package, "__all__", []) if not hasattr(package, name)] == []
    assert not hasattr(graphcollab, "no_such_name")
