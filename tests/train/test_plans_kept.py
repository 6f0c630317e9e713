"""A resumed run computes as it began: in the memory format and the precision of its plan."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Tasks, run
from graphcollab.methods import fedavg
from graphcollab.models.classifiers import fedavg_cnn
from graphcollab.testing import differences
from graphcollab.train import Checkpoint, Compute
from tests.raising import raises
from tests.train.forged import change


def play(folder, rounds, **settings):
    draw = torch.Generator().manual_seed(0)
    samples = [
        (torch.randn(8, 1, 16, 16, generator=draw), torch.randint(3, (8,), generator=draw).float().long())
        for _ in range(2)
    ]
    method = fedavg(epochs=1, batch_size=4)
    model = lambda: fedavg_cnn((1, 16, 16), 3)  # noqa: E731
    where = None if folder is None else Checkpoint(folder, every=1)
    return run(method, Tasks.from_samples(samples), model, rounds=rounds, checkpoint=where, **settings)


def rewrite(folder, **fields):
    """Let plans in checkpoints have other fields."""

    def other(manifest):
        (plan,) = manifest["content"]["about"]["plans"]
        plan |= fields

    for path in folder.glob("*/state.safetensors"):
        change(path.parent, other)


@pytest.mark.parametrize("autocast", [False, True])
def test_resumed_runs_repeat_the_plan(tmp_path, autocast):
    play(tmp_path, 1, compute=Compute(autocast=autocast))
    resumed, whole = (
        play(tmp_path, 2, compute=Compute(autocast=autocast)),
        play(None, 2, compute=Compute(autocast=autocast)),
    )
    assert resumed.env.engine.plans == whole.env.engine.plans
    (plan,) = resumed.env.engine.plans
    assert (plan.memory_format, plan.precision) == ("channels_last", "bfloat16" if autocast else "full")
    assert differences(resumed.data, whole.data) == []


def test_plans_of_a_later_version_are_refused(tmp_path):
    play(tmp_path, 1)
    rewrite(tmp_path, memory_format="tiled")
    with raises("value", "memory_format", "'contiguous'", "'channels_last'", "'tiled'"):
        play(tmp_path, 2)
