from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from graphcollab._base import torchvision as _torchvision
from tests.forked import interpret
from tests.raising import raises


def in_new_process(code: str, folder: Path) -> str:
    """Return what code prints where the package is known, torchvision is not, and warnings are errors."""
    script = folder / "script.py"
    script.write_text(BEGIN + code)
    done = interpret(script)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


BEGIN = """
import sys, warnings
warnings.simplefilter("error")
assert "torchvision" not in sys.modules
"""

PLAIN_IMPORT = """
try:
    import torchvision
    print("works")
except RuntimeError as error:
    print(error)
"""

OURS = """
from graphcollab._base import torchvision as _torchvision
print(_torchvision.torchvision_datasets().SVHN.__name__, len(_torchvision._declared))
import torchvision
from torchvision import transforms
assert torchvision.datasets is _torchvision.torchvision_datasets()
assert torchvision.models is _torchvision.torchvision_models()
"""

DECLARED_ELSEWHERE = """
import torch
library = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import torchvision
"""


@pytest.mark.slow
def test_declares_operators_where_torchvision_does_not_import(tmp_path: Path) -> None:
    plain = in_new_process(PLAIN_IMPORT, tmp_path)
    expected = "SVHN 0" if plain == "works" else "SVHN 1"
    assert in_new_process(OURS, tmp_path) == expected


@pytest.mark.slow
def test_recovers_from_an_import_that_failed_before(tmp_path: Path) -> None:
    assert in_new_process(PLAIN_IMPORT + OURS, tmp_path).splitlines()[-1].startswith("SVHN")


@pytest.mark.slow
def test_declares_nothing_where_torchvision_imports(tmp_path: Path) -> None:
    plain = in_new_process(PLAIN_IMPORT, tmp_path)
    assert in_new_process(("" if plain == "works" else DECLARED_ELSEWHERE) + OURS, tmp_path) == "SVHN 0"


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def import_module(name: str) -> ModuleType:
        raise error

    monkeypatch.setattr(importlib, "import_module", import_module)


def test_without_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ModuleNotFoundError("No module named 'torchvision'", name="torchvision"))
    with raises("missing-package", "torchvision", "pip install torchvision", kind=ImportError):
        _torchvision.torchvision_datasets()
    with raises("missing-package", "torchvision", "pip install torchvision", kind=ImportError):
        _torchvision.torchvision_models()


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("something else"),
        RuntimeError("operator torchvision::unheard_of does not exist"),
        ModuleNotFoundError("No module named 'PIL'", name="PIL"),
    ],
)
def test_other_errors_pass(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    failing(monkeypatch, error)
    with pytest.raises(type(error)) as caught:
        _torchvision.torchvision_datasets()
    assert caught.value is error


def test_does_not_declare_operators_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, RuntimeError("operator torchvision::nms does not exist"))
    monkeypatch.setattr(_torchvision, "_declared", [None])
    with pytest.raises(RuntimeError, match="nms does not exist"):
        _torchvision.torchvision_datasets()
