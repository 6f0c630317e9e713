"""A small base model to fine-tune: a Llama of 1.1 million parameters, and the tokenizer it reads with.

It learns from English prose that every environment has: the documentation of Python, PyTorch and a few other packages
(`_prose.py`), 2 MB, so nothing is downloaded. That is what the parties of `finetune_languages.py` do *not* have: as
GPT-2, the base of CoBo's experiment, it has read English, and its parties other languages. Its byte-level BPE tokenizer
learns from the same prose and can write any text. With `--texts`, files of sentences are read as well. The base is
written as a folder that transformers reads, by default into the user's cache, where the example looks for it:

    pretrain_base.py
    pretrain_base.py --texts DATA/text/ud_ca_ancora.txt DATA/text/ud_es_gsd.txt --out bases/european
"""

# ci: --packages joblib --steps 3 --vocabulary 300 --width 16 --layers 1 --out $OUT/base

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from _device import add_device  # type: ignore
from _pretrain import PACKAGES, cached, pretrain  # type: ignore
from _prose import prose_of  # type: ignore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--packages", nargs="*", default=list(PACKAGES), help="whose prose is read (default: %(default)s)")
    add("--texts", type=Path, nargs="*", default=[], help="files of text, a sentence in each line")
    add("--out", type=Path, help="folder to write (default: one in the user's cache)")
    add("--steps", type=int, default=900, help="default: %(default)s")
    add("--vocabulary", type=int, default=2048, help="tokens (default: %(default)s)")
    add("--width", type=int, default=128, help="default: %(default)s")
    add("--layers", type=int, default=4, help="default: %(default)s")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    add_device(parser)
    args = parser.parse_args()
    if args.texts and args.out is None:
        parser.error("--texts make another base than the one in the cache: say by --out where it shall be")
    torch.set_num_threads(args.threads)
    shape: dict[str, Any] = {name: getattr(args, name) for name in ("steps", "vocabulary", "width", "layers", "seed")}
    began = time.monotonic()
    texts = [text for package in args.packages for text in prose_of(package)]
    texts += [file.read_text(encoding="utf-8") for file in args.texts]
    folder = args.out or cached(args.packages, shape)
    loss = pretrain(texts, folder, device=args.device, **shape)
    size = sum(map(len, texts)) / 1e6
    print(f"read {size:.1f} million characters, loss {loss:.2f} nats per token, {time.monotonic() - began:.0f} s")
    print("wrote", folder)


if __name__ == "__main__":
    main()
