"""What finetune_languages.py fine-tunes on: sentences of four languages, or prose of four packages, by party."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _prose import prose_of  # type: ignore

from graphcollab import Tasks
from graphcollab.llm import text_tasks

LANGUAGES = "ca", "es", "de", "nl"  # Catalan, Spanish, German, Dutch
TOPICS = "numpy", "scipy", "sklearn", "matplotlib"  # packages whose prose the small base has not read
SHORTEST = 20  # characters of a sentence


def read_texts(source: str | None, root: str | None) -> dict[str, list[str]]:
    """Return the texts to draw from, each once, by language or topic.

    Args:
        source: ``"languages"``: ``text/commonvoice_<language>.txt`` below the root, a sentence in each line;
            ``"topics"``: paragraphs of the documentation of four packages, which are there without a root.
            Default: languages where there is a root.
        root: The folder with the data. Default: the variable GRAPHCOLLAB_DATA.
    """
    root = root or os.environ.get("GRAPHCOLLAB_DATA")
    if source == "topics" or not (source or root):
        return {name: _once("\n".join(prose_of(name)).splitlines()) for name in TOPICS}
    folder = Path(root or ".") / "text"
    files = {name: folder / f"commonvoice_{name}.txt" for name in LANGUAGES}
    missing = [str(file) for file in files.values() if not file.is_file()]
    if missing:
        raise SystemExit(
            f"expected sentences of four languages, one in each line, and there is no {missing[0]}: give the folder "
            "that has text/ by --root or GRAPHCOLLAB_DATA (see docs/language_models.md), or take --texts topics, which "
            "needs nothing"
        )
    return {name: _once(file.read_text(encoding="utf-8").splitlines()) for name, file in files.items()}


def draw_tasks(
    texts: Mapping[str, Sequence[str]],
    tokenizer: Any,
    seed: int,
    *,
    parties: int,
    train: int,
    val: int,
    test: int,
    context: int,
) -> Tasks:
    """Return tasks of so many parties for each language, no two of which share a text to learn from or to choose by.

    Args:
        texts: What to draw from, by language.
        tokenizer: The base's.
        seed: Seed of the draw.
        parties: Parties of a language.
        train: Texts that a party learns from.
        val: Texts that it chooses by.
        test: Texts that all parties of a language are tested on.
        context: Tokens of a block.
    """
    drawn: dict[str, dict[str, list[str]]] = {"train": {}, "val": {}, "test": {}}
    for language, every in texts.items():
        needed = parties * (train + val) + test
        if len(every) < needed:
            raise SystemExit(f"{parties} parties need {needed} texts of {language!r}, and there are {len(every)}")
        some = random.Random(f"{seed} {language}").sample(list(every), needed)
        for p in range(parties):
            name, mine = f"{language}-{p + 1}", some[test + p * (train + val) :][: train + val]
            drawn["train"][name], drawn["val"][name], drawn["test"][name] = mine[:train], mine[train:], some[:test]
    cluster = {name: [*texts].index(name.rpartition("-")[0]) for name in drawn["train"]}
    given: dict[str, Any] = {"val": drawn["val"], "test": drawn["test"], "cluster": cluster}
    return text_tasks(drawn["train"], tokenizer, context=context, **given)


def _once(lines: Sequence[str]) -> list[str]:
    """Return lines that are long enough, each once."""
    return list(dict.fromkeys(line.strip() for line in lines if len(line.strip()) >= SHORTEST))
