from __future__ import annotations

import torch

from graphcollab.components import Judge
from graphcollab.methods import fedavg, fedclassavg, pfedsim
from graphcollab.testing import Scene


def test_nodes_at_rest_are_judged_by_what_they_trained_last():
    """Node 0 works in the first round only, whatever the server sends it after that."""
    method = fedavg(epochs=1).replace(judge=Judge(field="x_local"))
    data, env = Scene.small().begin(method)
    data = method.play(data, env)
    trained = method.models(data, env).part("all")
    data.trains = data.serves = torch.tensor([False] + [True] * 5)
    after = method.play(data, env)
    models = method.models(after, env).part("all")
    assert torch.equal(models[0], trained[0])
    assert bool((models[1:] != trained[1:]).any(1).all())
    assert not torch.equal(after.x.part("all")[0], trained[0])


def test_papers_that_judge_before_mixing_do_so_in_all_phases():
    two = pfedsim(warmup=2)
    for method in (two.method, two.next, fedclassavg()):
        assert method.judge == Judge(field="x_local")
