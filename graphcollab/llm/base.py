"""Base models of transformers: their kind, their layers, and copies that share their weights.

The only module of graphcollab that imports transformers and PEFT, each on first use.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import nn

from graphcollab._base.errors import InvalidTypeError, MissingError, RangeError, UnsupportedError
from graphcollab._base.extras import import_extra
from graphcollab._base.torchvision import torchvision_datasets

DRAWN = "_modules_drawn"  # attribute of a loaded classifier: names of modules whose weights were in no file
KINDS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
}

torchvision_datasets()  # transformers imports torchvision, which some builds of PyTorch allow only after this call


def transformers() -> Any:
    """Return the package ``transformers``; a ModuleNotFoundError says how to install it."""
    return import_extra("transformers", "language models", "llm")


def peft() -> Any:
    """Return the package ``peft``; a ModuleNotFoundError says how to install it."""
    transformers()
    return import_extra("peft", "language models", "llm")


def kind_of(base: nn.Module) -> Literal["causal", "classification"]:
    """Return the kind of a transformers model: causal or text classification; a TypeError for any other model."""
    known = transformers().models.auto.modeling_auto
    classes = {one.__name__ for one in type(base).__mro__}
    for kind, mapping in KINDS.items():
        entries = getattr(known, mapping).values()  # class names, or tuples of them
        if classes & {name for one in entries for name in ([one] if isinstance(one, str) else one)}:
            return kind  # type: ignore[return-value]
    raise InvalidTypeError(
        "model",
        f"expected an AutoModelForCausalLM or AutoModelForSequenceClassification, got {type(base).__name__}",
    )


def require_causal(base: Any) -> None:
    """Refuse a model whose prediction after a token depends on the next token: its low loss would mean nothing."""
    device = base.get_input_embeddings().weight.device
    training = base.training
    base.eval()
    with torch.no_grad():
        pairs = torch.tensor([[0, 1], [0, 0]], device=device)
        one, other = base(input_ids=pairs, use_cache=False).logits[:, 0]
    base.train(training)
    if float((one - other).abs().max()) > 1e-4 * float(one.abs().max()):  # more than rounding
        cure = " or set is_decoder=True in its configuration" * hasattr(base.config, "is_decoder")
        raise UnsupportedError(
            "model", f"{type(base).__name__} sees the tokens that it is to predict: give a causal model{cure}"
        )


def require_padding(base: Any) -> None:
    """Refuse a classifier without a padding token: it would not know where a padded text ends."""
    padding = getattr(base.config.get_text_config(), "pad_token_id", None)
    known = len(base.get_input_embeddings().weight)
    if padding is None:
        raise MissingError(
            "pad_token_id",
            f"{type(base).__name__} has no padding token: set model.config.pad_token_id, as the tokenizer does",
        )
    if not 0 <= padding < known:
        raise RangeError(
            "pad_token_id",
            f"expected a token below {known}, got {padding}: call model.resize_token_embeddings(len(tokenizer)) first",
        )


def shared_copy(base: nn.Module) -> nn.Module:
    """Return a copy of a model with frozen weights in the same memory, so that its layers can be replaced."""
    known: dict[int, Any] = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in base.parameters()}
    known |= {id(buffer): buffer for buffer in base.buffers()}
    return copy.deepcopy(base, known)


def head_of(base: Any) -> list[str]:
    """Return the names of a classifier's new modules: those behind its body, and randomly initialized ones."""
    body = base.base_model
    behind = [name for name, child in base.named_children() if child is not body and [*child.parameters()]]
    return [*behind, *(name for name in getattr(base, DRAWN, ()) if name.split(".")[0] not in behind)]
