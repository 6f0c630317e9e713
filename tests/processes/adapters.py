"""Adapters that one process or several train and write: ``adapters.py FOLDER OUT``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from graphcollab import run
from graphcollab.engine.randomness import own_randomness
from graphcollab.llm import build_lora, save_adapters, text_tasks
from graphcollab.methods import cobo
from graphcollab.train import Compute, Result
from tests.llm.tiny import TEXTS, gpt, words
from tests.processes.scenes import processes

NODES = {"a": TEXTS[:5], "b/c": TEXTS[3:], "d": TEXTS[::2], "e": TEXTS[1::2]}
SHARES = {1: None, 2: [0, 1, 1, 0]}


def play() -> Result:
    with own_randomness(3):
        model = build_lora(gpt(), dropout=0.0)
    method = cobo(part="lora", domain="simplex", sampling="all", lr=0.1, batch_size=2)
    tasks = text_tasks(NODES, words(), context=5, val_fraction=0.0)
    return run(method, tasks, model, rounds=3, compute=Compute(placement=SHARES[processes()]))


if __name__ == "__main__":
    folder, out = sys.argv[1:]
    result = play()
    for _ in range(2):  # those that are there are replaced
        places = save_adapters(result, folder)
        told = {name: [str(place), sorted(one.name for one in place.iterdir())] for name, place in places.items()}
    told["here"] = [*result.models()]
    Path(out, f"{os.environ['RANK']}.json").write_text(json.dumps(told))
    (Path(folder) / "notes.txt").write_text("mine")
    try:
        save_adapters(result, folder)
    except Exception as error:
        Path(out, f"{os.environ['RANK']}.error").write_text(f"{type(error).__name__}: {error}")
