"""What learns weights is replayed on a real GPU, where there is one, and comes to the CPU's models."""

from __future__ import annotations

import pytest
import torch

from graphcollab import run
from graphcollab.engine import static_steps
from graphcollab.methods import l2c, meta_l2c
from graphcollab.testing import Scene

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.parametrize(("make", "recorded"), [(l2c, 1), (meta_l2c, 4)], ids=["l2c", "meta_l2c"])
def test_rounds_that_are_replayed_come_to_the_models_of_the_cpu(make, recorded, monkeypatch):
    """Gradients of validation losses, and meta-L2C's references' losses, codes, and gradients of encoders."""
    made, record = [], static_steps.record

    def noted(step, *given):
        made.append(getattr(step, "__qualname__", ""))
        return record(step, *given)

    monkeypatch.setattr(static_steps, "record", noted)
    scene = Scene.small(sizes=(8, 13, 9, 13, 10, 11))
    settings = {"rounds": 6, "seed": 3, "architecture": scene.architecture}
    there, here = (
        run(make(lr=0.1, batch_size=4, steps=2), scene.tasks, scene.modules, **settings, compute=device).data
        for device in ("cuda", "cpu")
    )
    for one, other in zip(there.x.tensors, here.x.tensors, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-9)
    assert sum("Replayed" in name for name in made) >= recorded
