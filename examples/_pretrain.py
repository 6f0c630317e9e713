"""How `pretrain_base.py` makes a small base model, and where it is kept."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LambdaLR
from tqdm import tqdm

from graphcollab._base.files import flush_folder, own_name
from graphcollab.engine.randomness import own_randomness
from graphcollab.llm.base import transformers

PACKAGES = ("python", "torch", "transformers", "networkx", "sympy")  # whose prose the small base reads
SHAPE = {"steps": 900, "vocabulary": 2048, "width": 128, "layers": 4, "seed": 0}  # what it is, unless others are given


def cached(packages: Sequence[str] = PACKAGES, shape: Mapping[str, int] = SHAPE) -> Path:
    """Return the folder in the user's cache where the base of these settings and versions of the packages is kept."""
    known = {name: version(name) for name in packages if name != "python"} | {"python": platform.python_version()}
    key = hashlib.sha256(json.dumps([known, dict(shape)], sort_keys=True).encode()).hexdigest()[:12]
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "graphcollab" / f"base-{key}"


CONTEXT = 128  # tokens of a block
END = "<|end|>"  # between documents, and where a shorter text is filled up


def pretrain(
    texts: Sequence[str],
    folder: Path,
    *,
    steps: int = 900,
    vocabulary: int = 2048,
    width: int = 128,
    layers: int = 4,
    batch_size: int = 16,
    lr: float = 3e-3,
    seed: int = 0,
    device: str = "cpu",
) -> float:
    """Train a tokenizer and a model on some texts, and write both into a folder, whole or not at all.

    Args:
        texts: Documents.
        folder: Where to; what is there is replaced.
        steps: Steps of AdamW, on blocks of 128 tokens; the step size rises for a tenth of them, then falls.
        vocabulary: Tokens, 256 bytes and the end of a text among them.
        width: Entries of a hidden state, a multiple of 16 (each head has 32 of them, or all there are).
        layers: Blocks of attention and MLP.
        batch_size: Blocks of a step.
        lr: Largest step size.
        seed: Of first parameters and batches.
        device: Where to compute.

    Returns:
        The mean loss over the last tenth of the steps, in nats per token.
    """
    tokenizer = learn_tokenizer(texts, vocabulary)
    end = tokenizer.eos_token_id
    stream = torch.tensor([token for ids in tokenizer(list(texts)).input_ids for token in [*ids, end]])
    if len(stream) <= CONTEXT:
        raise ValueError(f"expected texts of more than {CONTEXT} tokens to learn from, got {len(stream)}")
    with own_randomness(seed):
        model = small_llama(len(tokenizer), width, layers, end).to(device)
        starts = [torch.randint(len(stream) - CONTEXT, (batch_size,)) for _ in range(steps)]
    rise = max(steps // 10, 1)  # steps in which the step size rises; then it falls in a straight line
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.1)
    pace = LambdaLR(optimizer, lambda step: min((step + 1) / rise, (steps - step) / steps))
    losses = []
    for start in (bar := tqdm(starts, unit="step", disable=None)):
        tokens = stream[start[:, None] + torch.arange(CONTEXT + 1)].to(device)  # [batch_size, CONTEXT + 1]
        logits = model(input_ids=tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        pace.step()
        losses.append(loss.item())
        bar.set_postfix_str(f"loss {losses[-1]:.2f}", refresh=False)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = own_name(folder)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    if folder.exists():
        shutil.rmtree(folder)
    part.rename(folder)
    flush_folder(folder.parent)
    return sum(losses[-rise:]) / rise


def learn_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """Return a byte-level BPE tokenizer of so many tokens at most, learned from some texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    bytes_ = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=bytes_, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return transformers().PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)


def small_llama(vocabulary: int, width: int, layers: int, end: int) -> Any:
    """Return a Llama with first parameters; embeddings and output layer are one matrix."""
    heads = max(width // 32, 1)
    config = transformers().LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    return transformers().LlamaForCausalLM(config)
