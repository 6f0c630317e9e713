"""`base_checksum`: by which weights an adapter was trained over is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab.llm._libraries import peft
from graphcollab.llm.base import head_of, kind_of
from graphcollab.llm.language_model import LanguageModel
from graphcollab.train.checksum import weights_checksum

__all__ = ["base_checksum"]


def base_checksum(model: nn.Module) -> str:
    """Return the checksum (BLAKE2b) of a base's weights, in single precision; the same with adapters and without.

    So a base that was stored in half precision has one checksum, in whichever precision it is loaded. The head of a
    classifier is not part of it, since it is trained with the adapters; nor are weights that `build_lora` or
    `load_adapter` did not find in the folder that they loaded, and drew anew.

    Args:
        model: A model of transformers, a ``peft.PeftModel`` or a `LanguageModel`.
    """
    return weights_checksum({name: v.float() if v.is_floating_point() else v for name, v in _base_weights(model)})


def _base_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of the base's weights, as they are called without adapters."""
    model = model.model if isinstance(model, LanguageModel) else model
    if hasattr(model, "get_base_model"):
        model = model.get_base_model()
    head = head_of(model) if kind_of(model) == "classification" else []
    inside = _wrappers(model)
    with torch.no_grad():
        for name, values in model.state_dict().items():
            plain = _plain(name, inside)
            if plain is not None and not any(plain == one or plain.startswith(f"{one}.") for one in head):
                yield plain, values


def _wrappers(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return where PEFT has put something around a layer, and what it may call the layer there."""
    library = peft()
    kinds: dict[type, tuple[str, ...]] = {
        library.utils.other.AuxiliaryTrainingWrapper: ("original_module", "token_adapter"),
        library.tuners.tuners_utils.BaseTunerLayer: ("base_layer",),
    }
    return {
        name: inner for name, layer in model.named_modules() for kind, inner in kinds.items() if isinstance(layer, kind)
    }


def _plain(name: str, inside: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return a weight's name without wrappers, None if it is one of the wrapper's own."""
    steps: list[str] = []
    place = ""
    for step in name.split("."):
        if place not in inside:
            steps.append(step)
        elif step not in inside[place]:
            return None
        place = f"{place}.{step}" if place else step
    return ".".join(steps)
