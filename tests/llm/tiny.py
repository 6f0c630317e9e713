"""Random language models of a few thousand weights, and a tokenizer whose tokens are words."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from graphcollab.engine.randomness import own_randomness
from graphcollab.llm.base import transformers

WORDS = [
    "red",
    "green",
    "blue",
    "one",
    "two",
    "three",
    "four",
    "cat",
    "dog",
    "bird",
    "runs",
    "eats",
    "sees",
    "a",
    "the",
]
SIZE = 24  # words that models know
TEXTS = [
    "the red cat runs",
    "a blue dog sees the bird",
    "one two three four",
    "the dog eats",
    "a green bird sees a cat and the dog",
    "four three two one",
    "the bird runs",
    "one cat two cat three",
]


def words(*more: str, end: str | None = "<end>", start: int = 0) -> Any:
    """Return a tokenizer of words; those that it does not know are <what>."""
    known = ["<end>", "<what>", *WORDS[start:], *WORDS[:start], *more]
    rules = Tokenizer(models.WordLevel({word: k for k, word in enumerate(known)}, unk_token="<what>"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers().PreTrainedTokenizerFast(tokenizer_object=rules, eos_token=end, unk_token="<what>")


def gpt(seed: int = 0, dropout: float = 0.0, layers: int = 2) -> Any:
    library, off = transformers(), dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    with own_randomness(seed):
        config = library.GPT2Config(
            vocab_size=SIZE,
            n_positions=16,
            n_embd=8,
            n_layer=layers,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
            **off,
            initializer_range=0.3,
        )
        return library.GPT2LMHeadModel(config)


def llama(seed: int = 0, classes: int | None = None) -> Any:
    library = transformers()
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "max_position_embeddings": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    with own_randomness(seed):
        config = library.LlamaConfig(vocab_size=SIZE, **sizes, **heads, pad_token_id=0, initializer_range=0.3)
        if classes is None:
            return library.LlamaForCausalLM(config)
        config.num_labels = classes
        return library.LlamaForSequenceClassification(config)


def bert(classes: int = 2, seed: int = 0, kind: str = "Bert") -> Any:
    library = transformers()
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    positions = {"Bert": 16, "Roberta": 18}[kind]  # RoBERTa counts from behind its padding
    with own_randomness(seed):
        config = getattr(library, f"{kind}Config")(
            vocab_size=SIZE,
            **sizes,
            max_position_embeddings=positions,
            pad_token_id=1,
            num_labels=classes,
            initializer_range=0.3,
        )
        return getattr(library, f"{kind}ForSequenceClassification")(config)


CAUSAL = {"gpt": gpt, "llama": llama}
