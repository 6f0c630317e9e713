"""The one place where graphcollab imports transformers and PEFT, each when it is first needed."""

from __future__ import annotations

from typing import Any

from graphcollab._torchvision import torchvision_datasets
from graphcollab.extras import import_extra

torchvision_datasets()  # transformers imports torchvision, which beside some builds of PyTorch is possible only now


def transformers() -> Any:
    """Return the package ``transformers``; a ModuleNotFoundError says how to get it."""
    return import_extra("transformers", "language models", "llm")


def peft() -> Any:
    """Return the package ``peft``; a ModuleNotFoundError says how to get it."""
    transformers()
    return import_extra("peft", "language models", "llm")
