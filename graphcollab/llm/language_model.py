"""`LanguageModel`: a transformers model with PEFT adapters as a node's model."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphcollab._base.errors import (
    AmbiguousError,
    ConflictError,
    EmptyError,
    InvalidTypeError,
    RangeError,
    TooManyError,
    UnsupportedError,
)
from graphcollab._base.settings import checked
from graphcollab.data.tasks import Tasks
from graphcollab.engine.guards import unwritten
from graphcollab.engine.param_spec import shared_tensors
from graphcollab.engine.randomness import recomputed
from graphcollab.llm.base import kind_of, require_causal, require_padding
from graphcollab.llm.token_loss import PADDING, require_tokens
from graphcollab.train.fingerprint import weights_checksum

Share: TypeAlias = Literal["both", "A", "B"]
"""The matrices of the adapters that form the part ``"lora"``."""

SCALE = "peft_type", "r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern"


class LanguageModel(nn.Module):
    r"""A transformers model with frozen weights and PEFT adapters, which are trained and shared.

    A layer with a frozen weight W computes :math:`(W + \frac{\alpha}{r} B A) x` with matrices A [r, in] and B [out, r],
    from `LoRA: Low-Rank Adaptation of Large Language Models (Hu et al., ICLR 2022)
    <https://arxiv.org/abs/2106.09685>`_. B is initialized to zero, so all nodes start from the base.

    **Averaging A and B does not average their product**: the mean of :math:`B_i A_i` over nodes is not the product of
    the means. ``share`` sets the content of the part ``"lora"``, and so what methods with ``part="lora"`` mix:

    - ``"both"``: A and B are averaged separately, as in CoBo's experiment and most others. The error is the covariance
      of A and B among the nodes, which is small if nodes have similar adapters.
    - ``"A"``: A is mixed; B is trained and stays at its node, in the part ``"personal"``: `FedSA-LoRA (Guo et al., ICLR
      2025) <https://arxiv.org/abs/2410.01463>`_. By design, nodes no longer agree on one product.
    - ``"B"``: A keeps its initial values, the same at all nodes, and B is trained and mixed: `FFA-LoRA (Sun et al.,
      ICLR 2024) <https://arxiv.org/abs/2403.12313>`_. The product is then linear in B, so the mean of the products is
      the product of the means, at the price of half as many parameters.

    The new head of a classifier is also trained, in the part ``"head"``; ``part="lora+head"`` mixes both.

    Args:
        model: A ``peft.PeftModel`` of a causal model or a text classifier, with one trainable adapter. It becomes part
            of this module.
        share: See above.
        checkpointing: Keep activations at block boundaries only and recompute all others: this saves memory at the
            cost of one more forward pass; results are the same, dropout included.

    Shapes:
        inputs: For causal models, blocks of L predicted tokens, [m, L + 1] int64; for classifiers, texts, [m, L]. -1
            marks padding, which is allowed at the end only.
        Output: For causal models, the mean negative log-likelihood of a block's predicted tokens, [m], in nats, for
            `token_loss`. For classifiers, logits, [m, C].

    Raises:
        TypeError: If the model is no ``PeftModel``, or its base is of another kind.
        ValueError: If not exactly one adapter is active and trainable; if prompts are learned instead of layers; if A
            or B is to be shared and the adapters have other parameters; if a causal model sees the tokens to predict or
            writes to the frozen weights; or if a classifier has no padding token.
    """

    @checked
    def __init__(self, model: nn.Module, share: Share = "both", checkpointing: bool = False) -> None:
        super().__init__()
        base = _base_of(model)
        if getattr(base, "generation_config", None) is not None:
            base.generation_config._original_object_hash = None  # differs by process, and so would a resumed run
        self.model = model
        self.causal = kind_of(base) == "causal"
        about = base.config.get_text_config()
        with unwritten(model):  # it shares the weights of the given base
            require_causal(base) if self.causal else require_padding(base)
        padding, self.vocabulary = getattr(about, "pad_token_id", None) or 0, len(base.get_input_embeddings().weight)
        self.padding = int(padding) if 0 <= padding < self.vocabulary else 0  # masked, so any token will do
        self.longest = getattr(about, "max_position_embeddings", None) or -1  # as in some models: no limit
        self.share = share
        self.parts = _parts(self, share)
        if checkpointing:
            _checkpoint_blocks(model)

    def extra_repr(self) -> str:
        """Return the setting ``share`` for ``repr``."""
        return f"share={self.share!r}"

    def parts_over(self) -> dict[str, str]:
        """Return the foundation of the adapters, so that adapters over different weights are never averaged.

        It consists of a checksum of all frozen weights, including A if only B is trained, and the adapter scaling.
        """
        config = self.model.peft_config[adapter_of(self.model)].to_dict()  # type: ignore[union-attr, index]
        scale = {name: config.get(name) for name in SCALE}
        return {"lora": f"{weights_checksum(shared_tensors(self))} {scale}"}

    def check_tasks(self, tasks: Tasks) -> None:
        """Check before a run that samples fit the model, and that causal models are judged per token."""
        if self.causal:
            require_tokens(tasks)
        longest = max(pool.inputs.shape[-1] for pool in tasks.pools.values()) - self.causal
        if 0 < self.longest < longest:
            raise TooManyError(
                "context",
                f"the model reads {self.longest} tokens at most, got {longest}: give the tasks context={self.longest}",
            )
        largest = max(int(pool.inputs.max()) for pool in tasks.pools.values() if len(pool))
        if largest >= self.vocabulary:
            raise RangeError(
                "tokens",
                f"the model knows tokens 0 to {self.vocabulary - 1}, got {largest}: make the tasks with its tokenizer",
            )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the losses of blocks, [m], or the logits of texts, [m, C]."""
        tokens = inputs[:, :-1] if self.causal else inputs
        known = tokens.masked_fill(tokens < 0, self.padding)
        if self.causal:  # later tokens do not affect predictions, so no mask is needed
            return _mean_loss(self.model(input_ids=known, use_cache=False).logits, inputs)
        logits: Tensor = self.model(input_ids=known, attention_mask=tokens >= 0).logits
        return logits


def _mean_loss(logits: Tensor, blocks: Tensor) -> Tensor:
    """Return the mean loss per block [m] of logits [m, L, V] and blocks [m, L + 1]; NaN if padding precedes a token."""
    wanted = blocks[:, 1:]
    there = wanted >= 0
    # [m L, V] and [m L]
    losses = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=PADDING, reduction="none")
    mean = losses.view(wanted.shape).sum(1) / there.sum(1).clamp(min=1)
    amid = ((blocks[:, :-1] < 0) & there).any(1)
    return mean.masked_fill(amid, torch.nan)


def _base_of(model: Any) -> Any:
    config = getattr(model, "active_peft_config", None)
    if config is None or not hasattr(model, "get_base_model"):
        raise InvalidTypeError(
            "model",
            f"expected a peft.PeftModel, got {type(model).__name__}: graphcollab.llm.build_lora(base) makes one",
        )
    if config.is_prompt_learning:
        raise UnsupportedError(
            "model", f"{config.peft_type.value} learns prompts: take adapters in layers, such as LoRA"
        )
    if len(several := model.active_adapters) > 1:
        raise AmbiguousError(
            "model",
            f"expected one adapter, and {' and '.join(map(repr, several))} are active: call model.set_adapter(name)",
        )
    return model.get_base_model()


def adapter_of(model: Any) -> str:
    """Return the name of the adapter in a node's PEFT model."""
    name: str = model.active_adapters[0]  # `active_adapter` does not follow model.base_model.set_adapter
    return name


def _parts(model: LanguageModel, share: Share) -> dict[str, list[str]]:
    """Return the parameter names of every part, and freeze A if only B is trained."""
    every = model.named_parameters(remove_duplicate=False)  # tied parameters under all their names
    trained = {name: p for name, p in every if p.requires_grad}
    head = [name for name in trained if ".modules_to_save." in name]
    adapters = [name for name in trained if name not in head]
    if not adapters:
        raise EmptyError(
            "model", "no adapter of the model is trainable: load it by PeftModel.from_pretrained(…, is_trainable=True)"
        )
    parts = {"lora": adapters, "head": head}
    if share != "both":
        first, second = ([name for name in adapters if f".lora_{m}." in name] for m in "AB")
        others = [name for name in adapters if name not in first + second]
        if others or not first:
            raise ConflictError(
                "share",
                f"share={share!r} is of matrices A and B, got {(others or adapters)[0]!r}: give share='both'",
            )
        parts = {"lora": first if share == "A" else second, "head": head}
        if share == "A":
            parts["personal"] = second
        else:
            for name in first:
                trained[name].requires_grad_(False)
    return {part: names for part, names in parts.items() if names}


def _checkpoint_blocks(model: nn.Module) -> None:
    blocks = [layer for layer in model.modules() if hasattr(layer, "gradient_checkpointing")]
    if not blocks:
        raise UnsupportedError(
            "checkpointing", f"{type(model).__name__} has no blocks that can be checkpointed: leave checkpointing out"
        )
    for layer in blocks:
        layer.gradient_checkpointing = True  # type: ignore[assignment]
        layer._gradient_checkpointing_func = recomputed  # type: ignore[assignment]
