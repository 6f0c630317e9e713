"""Base models of transformers: their kind, their layers, and copies that share their weights.

The only module of graphcollab that imports transformers and PEFT, each on first use.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from graphcollab._base.errors import (
    EmptyError,
    InvalidTypeError,
    MissingError,
    RangeError,
    UnknownError,
    UnsupportedError,
)
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
        f"expected a model of transformers for next tokens (AutoModelForCausalLM) or for classes of texts "
        f"(AutoModelForSequenceClassification), got {type(base).__name__}",
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
        switch = hasattr(base.config, "is_decoder")
        cure = ", or set is_decoder=True in its configuration" if switch else ", such as one of GPT-2's or Llama's kind"
        raise UnsupportedError(
            "model", f"{type(base).__name__} sees the tokens that it is to predict: give a causal model{cure}"
        )


def require_padding(base: Any) -> None:
    """Refuse a classifier whose output depends on trailing padding: texts of unequal lengths would be misclassified."""
    padding, end = (getattr(base.config.get_text_config(), f"{which}_token_id", None) for which in ("pad", "eos"))
    known = len(base.get_input_embeddings().weight)
    if padding is not None and not 0 <= padding < known:
        raise RangeError(
            "pad_token_id",
            f"the padding token of {type(base).__name__}, {padding}, is outside of its vocabulary of {known}: set "
            "model.config.pad_token_id to one that it has, or call model.resize_token_embeddings(len(tokenizer)) first",
        )
    free = [token for token in range(4) if token not in (padding, end)] * 3  # some cannot process very short texts
    last = [end] if isinstance(end, int) and end < known else []  # which some look for
    training = base.training
    base.eval()
    with torch.no_grad():  # one text at a time: without a padding token some refuse batches
        alone, padded = (
            torch.cat([_logits(base, [*some, *last], more) for some in (free, free[::-1])])
            for more in ([], [padding or 0])
        )
    base.train(training)
    if float((padded - alone).abs().max()) <= torch.finfo(alone.dtype).eps ** 0.5 * float(alone.abs().max()):
        return  # equal up to rounding
    if padding is None:
        raise MissingError(
            "pad_token_id",
            f"{type(base).__name__} has no padding token, so it does not know where a padded text ends: set "
            "model.config.pad_token_id = tokenizer.pad_token_id, or tokenizer.eos_token_id where there is none",
        )
    raise UnsupportedError(
        "model",
        f"what {type(base).__name__} makes of a text changes with padding behind it, and texts of unequal lengths are "
        "padded there: take a classifier that goes by the attention mask, such as one of BERT's or Llama's kind",
    )


def _logits(base: Any, text: list[int], padding: list[int]) -> Tensor:
    """Return the logits [1, C] of a text followed by padding."""
    device = base.get_input_embeddings().weight.device
    there = torch.tensor([[1] * len(text) + [0] * len(padding)], device=device)
    logits: Tensor = base(input_ids=torch.tensor([[*text, *padding]], device=device), attention_mask=there).logits
    return logits


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


def target_layers(base: Any, targets: Sequence[str] | None) -> list[str]:
    """Return the full names of the layers that get adapters, given names or name suffixes; a ValueError if none match.

    Default: all linear layers in the repeated blocks of attention and MLP, and so neither embeddings nor layers behind
    the last block.
    """
    every, blocks = _linear_layers(base)
    kinds = layer_names(base)
    if targets is None:
        if not blocks:
            raise MissingError(
                "targets",
                f"{type(base).__name__} has no linear layers in repeated blocks: name its layers, targets={kinds}",
            )
        return blocks
    if not targets:
        raise EmptyError("targets", f"targets must name at least one kind of layer, such as {kinds}")
    lacking = [one for one in targets if not any(_ends(name, one) for name in every)]
    if lacking:
        raise UnknownError(
            "targets",
            f"targets names {lacking[0]!r}, and no linear layer of {type(base).__name__} is called so; its layers are "
            f"called {', '.join(map(repr, kinds))}",
        )
    return [name for name in every if any(_ends(name, one) for one in targets)]


def layer_names(base: Any) -> list[str]:
    """Return the short names of the linear layers in a model's blocks, or of all its linear layers without blocks."""
    every, blocks = _linear_layers(base)
    return list(dict.fromkeys(name.rpartition(".")[2] for name in blocks or every))


def _linear_layers(base: Any) -> tuple[list[str], list[str]]:
    inside = [name for name, layer in base.named_modules() if isinstance(layer, nn.ModuleList)]
    linear = nn.Linear, transformers().pytorch_utils.Conv1D
    every = [name for name, layer in base.named_modules() if isinstance(layer, linear)]
    return every, [name for name in every if any(name.startswith(f"{one}.") for one in inside)]


def _ends(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")
