"""Runs with checkpoints that processes play together: ``saved.py FOLDER OUT ROUNDS SLEEP METHOD …``.

What has been found of a method is written whole; started once more, processes leave out what all of them have found.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from graphcollab import run
from graphcollab.testing import Scene
from graphcollab.train import Callback, Checkpoint, Compute, Result
from tests.methods.quick import early
from tests.processes.scenes import SHARES, processes


class Slowly(Callback):
    """Rounds that take a while, so that there is time to be killed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_round(self, data: Any, history: Any) -> None:
        time.sleep(self.seconds)


def play(folder: str, method: str, rounds: int, seconds: float = 0.0) -> Result:
    made = early(method)
    scene = Scene.small(embeds=made.embeds)
    return run(
        made,
        scene.tasks,
        scene.modules,
        scene.edge_index,
        rounds=rounds,
        compute=Compute(placement=SHARES[processes()]),
        checkpoint=Checkpoint(folder, every=1),
        callbacks=[Slowly(seconds)],
    )


def found_in(result: Result) -> dict[str, Any]:
    values = {name: result.history.table(name) for name in sorted(result.history.values)}
    models = {name: torch.nn.utils.parameters_to_vector(m.parameters()).detach() for name, m in result.models().items()}
    return {"models": models, "values": values, "rounds": result.history.rounds}


if __name__ == "__main__":
    folder, out, rounds, seconds, *names = sys.argv[1:]
    Path(out).mkdir(exist_ok=True)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)
    (Path(out) / f"attempt-{attempt}-{os.environ['RANK']}").write_text(str(os.getpid()))
    done = [name for name in names if len([*Path(out).glob(f"{name}-*.pt")]) == processes()]
    for name in names:
        if name not in done:
            result = play(f"{folder}/{name}", name, int(rounds), float(seconds))
            path = Path(out) / f"{name}-{os.environ['RANK']}.pt"
            torch.save(found_in(result), path.with_suffix(".part"))
            path.with_suffix(".part").rename(path)
            if result.interrupted:
                sys.exit(130)  # as shells say of what Ctrl-C has ended
