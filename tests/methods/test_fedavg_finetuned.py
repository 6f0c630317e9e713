from __future__ import annotations

from graphcollab.methods import fedavg, fedavg_finetuned
from graphcollab.testing import Scene, differences


def test_it_trains_as_fedavg_does():
    settings = {"lr": 0.1, "batch_size": 4, "fraction": 0.5, "weights": "uniform", "steps": 3, "momentum": 0.5}
    tuned, plain = fedavg_finetuned(**settings), fedavg(**settings)
    assert tuned.replace(name="fedavg", judge=plain.judge) == plain
    scene = Scene.small()
    assert differences(scene.play(tuned)[0], scene.play(plain)[0]) == []


def test_forty_steps_reach_the_nodes_own_minimum(points):
    """From the average 5, 40 steps with η = ½ leave the nodes 2⁻⁴⁰ of the way from 2 and 8."""
    method = fedavg_finetuned(finetune_steps=40, finetune_lr=0.5, lr=1.0, weight_decay=0.0)
    data, env = points([[[2.0]], [[8.0]]]).begin(method)
    data = method.play(data, env)
    judged = method.models(data, env).part("all").flatten()
    assert data.x.part("all").flatten().tolist() == [5.0, 5.0]
    assert judged.tolist() == [2.0 + 3 * 2.0**-40, 8.0 - 3 * 2.0**-40]
