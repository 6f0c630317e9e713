"""`base_checksum`: by which weights an adapter was trained over is known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphcollab.llm.base import head_of, kind_of
from graphcollab.llm.language_model import LanguageModel

__all__ = ["base_checksum"]

LAYER = "base_layer"  # what PEFT calls a layer that it has put adapters around


def base_checksum(model: nn.Module) -> str:
    """Return the SHA-256 checksum of a base's weights, in single precision; the same with adapters and without.

    So a base that was stored in half precision has one checksum, in whichever precision it is loaded. The head of a
    classifier is not part of it, since it is trained with the adapters.

    Args:
        model: A model of transformers, a ``peft.PeftModel`` or a `LanguageModel`.
    """
    digest = hashlib.sha256()
    for name, values in sorted(_base_weights(model)):
        kept = values.detach().cpu()
        kept = kept.float() if kept.is_floating_point() else kept
        digest.update(f"{name} {list(kept.shape)} ".encode())
        digest.update(np.ascontiguousarray(kept.numpy()).data)
    return digest.hexdigest()


def _base_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of the base's weights, as they are called without adapters."""
    model = model.model if isinstance(model, LanguageModel) else model
    adapter = "lora_"
    if hasattr(model, "get_base_model"):
        adapter, model = getattr(model.base_model, "prefix", adapter), model.get_base_model()
    head = head_of(model) if kind_of(model) == "classification" else []
    with torch.no_grad():
        for name, values in model.state_dict().items():
            steps = name.split(".")
            if steps[0] in head or any(step.startswith(adapter) for step in steps):
                continue
            yield ".".join(step for step in steps if step != LAYER), values
