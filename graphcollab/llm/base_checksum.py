"""`base_checksum`: by which weights an adapter was trained over is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab.llm.base import head_of, kind_of
from graphcollab.llm.language_model import LanguageModel
from graphcollab.train.checksum import weights_checksum

__all__ = ["base_checksum"]

LAYER = "base_layer"  # what PEFT calls a layer that it has put adapters around


def base_checksum(model: nn.Module) -> str:
    """Return the checksum (BLAKE2b) of a base's weights, in single precision; the same with adapters and without.

    So a base that was stored in half precision has one checksum, in whichever precision it is loaded. The head of a
    classifier is not part of it, since it is trained with the adapters.

    Args:
        model: A model of transformers, a ``peft.PeftModel`` or a `LanguageModel`.
    """
    return weights_checksum({name: v.float() if v.is_floating_point() else v for name, v in _base_weights(model)})


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
