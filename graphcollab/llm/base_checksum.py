"""`base_checksum`: by which weights an adapter was trained over is known."""

from __future__ import annotations

from typing import Any

from torch import nn

from graphcollab.llm.base import head_of, kind_of, shared_copy
from graphcollab.llm.language_model import LanguageModel
from graphcollab.train.fingerprint import weights_checksum


def base_checksum(model: nn.Module) -> str:
    """Return the checksum (BLAKE2b) of a base's weights, in single precision; the same with adapters and without.

    So a base that was stored in half precision has one checksum, in whichever precision it is loaded. The head of a
    classifier is not part of it, since it is trained with the adapters; nor are weights that `build_lora` or
    `load_adapter` did not find in the folder that they loaded, and drew anew.

    Args:
        model: A model of transformers, a ``peft.PeftModel`` or a `LanguageModel`.
    """
    base: Any = model.model if isinstance(model, LanguageModel) else model
    if hasattr(base, "get_base_model"):
        base = shared_copy(base).unload()  # type: ignore[operator]
    head = tuple(f"{name}." for name in head_of(base)) if kind_of(base) == "classification" else ()
    state = {name: values for name, values in base.state_dict().items() if not name.startswith(head)}
    return weights_checksum({name: v.float() if v.is_floating_point() else v for name, v in state.items()})
