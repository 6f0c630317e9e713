"""The one place where graphcollab imports transformers and PEFT, each when it is first needed."""

from __future__ import annotations

import importlib
from typing import Any

from graphcollab._torchvision import torchvision_datasets

__all__ = ["peft", "transformers"]

torchvision_datasets()  # transformers imports torchvision, which beside some builds of PyTorch is possible only now


def transformers() -> Any:
    """Return the package ``transformers``; a ModuleNotFoundError says how to get it."""
    return _import("transformers")


def peft() -> Any:
    """Return the package ``peft``; a ModuleNotFoundError says how to get it."""
    transformers()
    return _import("peft")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        text = f"language models need {name}, which is not installed: pip install 'graphcollab[llm]'"
        raise ModuleNotFoundError(text, name=name) from error
