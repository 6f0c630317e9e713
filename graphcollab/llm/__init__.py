"""Language models at the nodes: adapters over one frozen base model, and text tasks.

Requires transformers and PEFT, ``pip install 'graphcollab[llm]'``; both are imported on first use.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.llm.adapters import load_adapter as load_adapter, save_adapters as save_adapters
    from graphcollab.llm.build_lora import build_lora as build_lora
    from graphcollab.llm.language_model import LanguageModel as LanguageModel
    from graphcollab.llm.text_tasks import (
        text_classification_tasks as text_classification_tasks,
        text_tasks as text_tasks,
    )
    from graphcollab.llm.token_loss import perplexity as perplexity, token_loss as token_loss

__all__ = make_lazy(__name__)
