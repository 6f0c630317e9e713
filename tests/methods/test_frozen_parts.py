"""Every method plays with models that are partly frozen: both backends alike, and what is frozen stays as it is."""

from __future__ import annotations

import pytest
import torch

from graphcollab import methods
from graphcollab.models import MLP
from graphcollab.testing import Scene
from tests.methods.quick import early


def partly_frozen(embeds: bool) -> Scene:
    """A scene whose models have a frozen first layer, or, where they are split, frozen biases."""
    scene = Scene.small(embeds=embeds)
    if embeds:
        frozen = [p for name, p in scene.modules[0].named_parameters() if name.endswith("bias") and "head" not in name]
    else:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            scene = scene.replace(modules=[MLP(4, (7, 6), 3).double()])
        frozen = [*scene.modules[0].parameters()][:2]
    for parameter in frozen:
        parameter.requires_grad_(False)
    return scene


@pytest.mark.parametrize("name", methods.__all__)
def test_methods_play_with_models_that_are_partly_frozen(name):
    method = early(name, epochs=1)
    scene = partly_frozen(method.embeds)
    module = scene.modules[0]
    before = {name: p.clone() for name, p in module.named_parameters()}
    learns = sum(p.numel() for p in module.parameters() if p.requires_grad)
    found = [scene.replace(backend=backend).play(method, rounds=2)[0] for backend in ("vmap", "loop")]
    assert [data.x.part("all").shape for data in found] == [(6, learns)] * 2
    torch.testing.assert_close(found[0].x.tensors[0], found[1].x.tensors[0], rtol=1e-7, atol=1e-9)
    assert not torch.equal(found[0].x.part("all"), found[0].x_init.part("all"))
    assert all(torch.equal(p, before[name]) for name, p in module.named_parameters())
