"""`build_lora`: add LoRA adapters to the linear layers of a transformers model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import ConflictError, InvalidValueError, UnknownError
from graphcollab._base.settings import Count, Momentum, Positive, checked
from graphcollab.llm.base import DRAWN, head_of, kind_of, peft, shared_copy, transformers
from graphcollab.llm.language_model import LanguageModel, Share

Base = Annotated[nn.Module | str | Path, "a model of transformers, or the folder or hub name of one"]


@checked
def build_lora(
    base: Base,
    rank: Count = 4,
    alpha: Positive = 32.0,
    dropout: Momentum = 0.1,
    targets: Sequence[str] | None = None,
    share: Share = "both",
    checkpointing: bool = False,
    classes: Count | None = None,
) -> LanguageModel:
    """Add LoRA adapters to a model; the defaults are those of CoBo's experiment (section 4.3).

    The weights of the base are frozen and not copied, so several models may be built from one base. Adapters are
    initialized from the global generator, or from the seed of ``run`` if it is given ``lambda: build_lora(base)``.

    Args:
        base: A transformers model, causal or a text classifier; or its folder or name on a hub (loaded in single
            precision).
        rank: r, the number of rows of A and columns of B.
        alpha: Scale of the adapters: their outputs are multiplied by alpha / rank.
        dropout: Fraction of an adapter's inputs dropped in training.
        targets: The layers that get adapters, by name or name suffix, such as ``["q_proj", "v_proj"]``. Default: all
            linear layers but the head (PEFT's ``"all-linear"``). The experts of a mixture (such as Mixtral), stored as
            one tensor for all experts, get none.
        share: The shared matrices, see `LanguageModel`: ``"both"``, ``"A"`` or ``"B"``.
        checkpointing: Recompute activations in the backward pass to save memory.
        classes: Number of classes, to load a classifier from a folder or hub.

    Raises:
        TypeError: If the base is no such model.
        ValueError: If no layer matches ``targets``, or PEFT supports no adapters there; if the base has adapters
            already, is causal although ``classes`` is given, or is refused by `LanguageModel`.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> base = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, n_positions=16))
        >>> model = build_lora(base, rank=2)
        >>> sum(p.numel() for p in model.parameters() if p.requires_grad)  # 2 (8 + 24), 2 (8 + 8), 2 (8 + 32), twice
        256
    """
    library = peft()
    model = shared_copy(read_base(base, classes))
    causal = kind_of(model) == "causal"
    if causal and classes is not None:
        raise ConflictError(
            "classes",
            f"classes={classes}, and {type(model).__name__} predicts tokens: give its folder or name instead",
        )
    names = [f".{name}" for name, _ in model.named_modules()]
    for target in targets or ():  # PEFT refuses them only if none is found
        if not any(name.endswith(f".{target}") for name in names):
            raise UnknownError("targets", f"targets names {target!r}, and {type(model).__name__} has no such layer")
    config = library.LoraConfig(
        task_type="CAUSAL_LM" if causal else "SEQ_CLS",
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules="all-linear" if targets is None else list(targets),
        modules_to_save=None if causal else head_of(model),
    )
    with own_filter("ignore"):  # of deprecations between the two libraries
        try:
            adapted = library.get_peft_model(model, config)
        except ValueError as error:
            raise InvalidValueError("targets", str(error)) from error
        return LanguageModel(adapted, share, checkpointing)


def read_base(base: Any, classes: int | None = None) -> Any:
    """Return a base model without adapters, loading it if a folder or a name on a hub is given."""
    if isinstance(base, str | Path):
        library = transformers()
        if classes is None:
            return library.AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
        model, told = library.AutoModelForSequenceClassification.from_pretrained(
            str(base), dtype=torch.float32, num_labels=classes, output_loading_info=True
        )
        setattr(model, DRAWN, tuple(sorted({name.rpartition(".")[0] for name in told["missing_keys"]})))
        return model
    if isinstance(base, LanguageModel) or hasattr(base, "peft_config"):
        raise ConflictError(
            "model", "the base has adapters already: give it to graphcollab.llm.LanguageModel, or the base without them"
        )
    if kind_of(base) == "classification" and classes not in (None, base.config.num_labels):
        raise ConflictError(
            "classes", f"the model has {base.config.num_labels} classes, got classes={classes}: leave it out"
        )
    return base
