"""The only module of graphcollab that imports torchvision.

The wheel on PyPI is built for CUDA. With a CPU-only PyTorch its compiled extension cannot be loaded, which torchvision
tolerates, but on import it attaches shape rules to the extension's operators ``nms`` and ``qnms`` and fails. Declaring
these operators without implementations is sufficient: datasets and classifiers do not call them.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

from graphcollab._base.errors import MissingPackageError

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # a declaration lasts as long as its library object


def torchvision_datasets() -> ModuleType:
    """Return ``torchvision.datasets``, imported on first use; a MissingPackageError says how to install it."""
    return _import("torchvision.datasets", "this dataset is read by torchvision")


def torchvision_models() -> ModuleType:
    """Return ``torchvision.models``, imported on first use; a MissingPackageError says how to install it."""
    return _import("torchvision.models", "this network is torchvision's")


def _import(module: str, why: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "torchvision":
            raise
        text = f"{why}, which is not installed; `pip install torchvision` adds it"
        raise MissingPackageError("torchvision", text) from error
    except RuntimeError as error:
        if _declared or "operator torchvision::nms does not exist" not in str(error):
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # the half-finished import
    return importlib.import_module(module)
