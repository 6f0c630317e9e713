"""Language models as nodes' models: adapters over one frozen base, and tasks of text.

It needs transformers and PEFT, ``pip install 'graphcollab[llm]'``, which are imported when they are first used.
"""

from graphcollab.llm.adapters import load_adapter, save_adapters
from graphcollab.llm.base_checksum import base_checksum
from graphcollab.llm.build_lora import build_lora
from graphcollab.llm.language_model import LanguageModel
from graphcollab.llm.text_classification_tasks import text_classification_tasks
from graphcollab.llm.text_tasks import text_tasks
from graphcollab.llm.token_loss import perplexity, token_loss

__all__ = [
    "LanguageModel",
    "base_checksum",
    "build_lora",
    "load_adapter",
    "perplexity",
    "save_adapters",
    "text_classification_tasks",
    "text_tasks",
    "token_loss",
]
