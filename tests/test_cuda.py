"""Every method on a real GPU, where there is one: its models are the CPU's, to the last digits of double precision."""

from __future__ import annotations

import pytest
import torch

from graphcollab import methods, run
from graphcollab.testing import Scene
from tests.methods.quick import quick

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

SIZES = (8, 13, 9, 13, 10, 11)  # batches of 4 leave no single sample, for batch normalisation


@pytest.mark.parametrize("name", methods.__all__)
def test_models_are_those_of_the_cpu(name):
    method = quick(name)
    scene = Scene.small(sizes=SIZES, embeds=method.embeds)
    settings = {"rounds": 3, "seed": 3, "architecture": scene.architecture}
    there, here = (
        run(method, scene.tasks, scene.modules, **settings, device=device).data for device in ("cuda", "cpu")
    )
    for one, other in zip(there.x.tensors, here.x.tensors, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-9)
