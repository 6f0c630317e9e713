"""What is known of a base model of transformers: what it is for, its layers, and a copy that shares its weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from graphcollab.llm._libraries import transformers

__all__ = ["DRAWN", "head_of", "kind_of", "require_causal", "shared_copy", "target_layers"]

DRAWN = "_modules_drawn"  # attribute of a loaded classifier: names of the modules whose weights were in no file
KINDS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
}


def kind_of(base: nn.Module) -> Literal["causal", "classification"]:
    """Return what a transformers model is for: predicting next tokens, or classes of texts.

    Raises:
        TypeError: If it is for something else, or none of transformers' models.
    """
    known = transformers().models.auto.modeling_auto
    classes = {one.__name__ for one in type(base).__mro__}
    for kind, mapping in KINDS.items():
        names = {name for entry in getattr(known, mapping).values() for name in _as_tuple(entry)}
        if classes & names:
            return kind  # type: ignore[return-value]
    raise TypeError(
        f"expected a model of transformers for next tokens (AutoModelForCausalLM) or for classes of texts "
        f"(AutoModelForSequenceClassification), got {type(base).__name__}"
    )


def _as_tuple(entry: str | Sequence[str]) -> Sequence[str]:
    return (entry,) if isinstance(entry, str) else entry


def require_causal(base: Any) -> None:
    """Check by a pass over two tokens that what is predicted after the first does not depend on the second.

    Raises:
        ValueError: If it does: its loss would be low for no merit.
    """
    device = base.get_input_embeddings().weight.device
    training = base.training
    base.eval()
    with torch.no_grad():
        pairs = torch.tensor([[0, 1], [0, 0]], device=device)
        one, other = base(input_ids=pairs, use_cache=False).logits[:, 0]
    base.train(training)
    if float((one - other).abs().max()) > 1e-4 * float(one.abs().max()):  # more than rounding
        raise ValueError(
            f"{type(base).__name__} sees the tokens that it is to predict: give a causal model, or set is_decoder=True "
            "in its configuration"
        )


def shared_copy(base: nn.Module) -> nn.Module:
    """Return a copy of a model whose weights are frozen and lie in the same memory, so that layers can be exchanged."""
    known: dict[int, Any] = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in base.parameters()}
    known |= {id(buffer): buffer for buffer in base.buffers()}
    return copy.deepcopy(base, known)


def head_of(base: Any) -> list[str]:
    """Return the names of the modules of a classifier that are new: those behind its body, and what was drawn anew."""
    body = base.base_model
    behind = [name for name, child in base.named_children() if child is not body and [*child.parameters()]]
    return [*behind, *(name for name in getattr(base, DRAWN, ()) if name.split(".")[0] not in behind)]


def target_layers(base: Any, targets: Sequence[str] | None) -> list[str]:
    """Return the full names of the layers that get adapters.

    Args:
        base: The model.
        targets: Their names, or ends of them, such as ``["q_proj", "v_proj"]``. Default: all linear layers in the
            repeated blocks of attention and MLP; so neither embeddings nor the layers behind the last block.

    Raises:
        ValueError: If a target names no linear layer; the message has the names there are.
    """
    inside = [name for name, layer in base.named_modules() if isinstance(layer, nn.ModuleList)]
    linear = nn.Linear, transformers().pytorch_utils.Conv1D
    every = [name for name, layer in base.named_modules() if isinstance(layer, linear)]
    blocks = [name for name in every if any(name.startswith(f"{one}.") for one in inside)]
    kinds = list(dict.fromkeys(name.rpartition(".")[2] for name in blocks or every))
    if targets is None:
        if not blocks:
            raise ValueError(
                f"{type(base).__name__} has no linear layers in repeated blocks: name its layers, targets={kinds}"
            )
        return blocks
    if not targets:
        raise ValueError(f"targets must name at least one kind of layer, such as {kinds}")
    lacking = [one for one in targets if not any(_ends(name, one) for name in every)]
    if lacking:
        raise ValueError(
            f"targets names {lacking[0]!r}, and no linear layer of {type(base).__name__} is called so; its layers are "
            f"called {', '.join(map(repr, kinds))}"
        )
    return [name for name in every if any(_ends(name, one) for one in targets)]


def _ends(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")
