"""Each process looks through all its tensors for a sample of a node that another one owns: ``private.py FOLDER``."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace

import torch

from graphcollab import methods, run
from graphcollab.testing.scene import Scene
from graphcollab.train import Result
from tests.processes.scenes import SHARES, processes

SENTINEL = 1234.56789  # as an input of a training sample of node 5, which process 1 owns


def play(folder: str) -> Result:
    scene = Scene.small()
    pools = {name: replace(pool, inputs=pool.inputs.clone()) for name, pool in scene.tasks.pools.items()}
    split = scene.tasks.splits["train"]
    pools[split.pool].inputs[split.of(5)[0], 1] = SENTINEL
    tasks = replace(scene.tasks, pools=pools)
    settings = {"rounds": 2, "checkpoint": folder, "owner": SHARES[processes()]}
    return run(methods.dpsgd(lr=1e-6), tasks, scene.modules, **settings)


def found() -> list[tuple[int, ...]]:
    """Return the shapes of tensors that hold it."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if isinstance(one, torch.Tensor) and one.is_floating_point()]
    return [tuple(one.shape) for one in tensors if bool((one.detach() == SENTINEL).any())]


if __name__ == "__main__":
    result = play(sys.argv[1])
    print(f"process {os.environ['RANK']} with {len(result.tasks.pools['train'])} samples has it in {found()}")
