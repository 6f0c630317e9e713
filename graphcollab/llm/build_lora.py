from __future__ import annotations

from typing import Any

from graphcollab.llm._libraries import peft
from graphcollab.llm.language_model import LanguageModel


def build_lora(base: Any, rank: int = 4, alpha: float = 32.0, dropout: float = 0.1) -> LanguageModel:
    library = peft()
    config = library.LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return LanguageModel(library.get_peft_model(base, config))
