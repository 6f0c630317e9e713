"""`LanguageModel`: a transformers model with PEFT adapters, as a node's model."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphcollab.llm._libraries import peft, transformers
from graphcollab.settings import checked

__all__ = ["LanguageModel", "Share", "kind_of"]

Share: TypeAlias = Literal["both", "A", "B"]
"""Which matrices of the adapters make up the part ``"lora"``."""

PADDING = -1  # what stands in the place of a token where there is none


class LanguageModel(nn.Module):
    def __init__(self, model: Any, share: Share = "both", checkpointing: bool = False) -> None:
        super().__init__()
        self.model = model
        self.causal = kind_of(model.get_base_model()) == "causal"
        names = [name for name, p in model.named_parameters() if p.requires_grad]
        self.parts = {"lora": [f"model.{name}" for name in names]}

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.causal:
            return self._logits(inputs)
        tokens, wanted = inputs[:, :-1], inputs[:, 1:]
        logits = self.model(input_ids=tokens.clamp(min=0), use_cache=False).logits
        losses = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=PADDING, reduction="none")
        there = wanted != PADDING
        return losses.view(wanted.shape).sum(1) / there.sum(1).clamp(min=1)


def kind_of(base: Any) -> str:
    return "causal"
