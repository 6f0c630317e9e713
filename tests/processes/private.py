"""Each process looks through all its tensors for a sample of a node that another one owns: ``private.py FOLDER``."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from typing import Any

import torch

from graphcollab import Tasks, methods, run
from graphcollab.testing import Scene
from graphcollab.train import Callback, Result
from tests.processes.scenes import SHARES, processes

SENTINEL = 1234.56789  # as an input of a training sample of node 5, which process 1 owns


class Looks(Callback):
    """Looks around in the middle of the run, in which the caller's tasks are still there."""

    everywhere = True

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    def on_round(self, data: Any, history: Any) -> None:
        print_shapes(f"in round {data.round}")


def play(folder: str) -> Result:
    scene, model = Scene.small(), lambda: torch.nn.Linear(4, 3, dtype=torch.float64)
    pools = {name: replace(pool, inputs=pool.inputs.clone()) for name, pool in scene.tasks.pools.items()}
    split = scene.tasks.splits["train"]
    pools[split.pool].inputs[split.of(5)[0], 1] = SENTINEL
    tasks = replace(scene.tasks, pools=pools)
    del scene, pools, split
    own = [node for node, process in enumerate(SHARES[processes()]) if process == int(os.environ["RANK"])]
    tasks = tasks.share(torch.tensor(own))  # what a script does that is to keep no more; else `run` does it
    return run(methods.dpsgd(lr=1e-6), tasks, model, rounds=2, checkpoint=folder, callbacks=[Looks(tasks)])


def shapes_with_sentinel() -> list[tuple[int, ...]]:
    """Return the shapes of tensors that hold it."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if isinstance(one, torch.Tensor) and one.is_floating_point()]
    return [tuple(one.shape) for one in tensors if bool((one.detach() == SENTINEL).any())]


def print_shapes(when: str) -> None:
    sys.stdout.write(f"\nprocess {os.environ['RANK']} has it {when} in {shapes_with_sentinel()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    result = play(sys.argv[1])
    print_shapes("afterwards")
