"""Results and comparisons can be pickled by whoever wants to; no file of the library is."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import graphcollab
from graphcollab import Phases, compare, methods, run
from graphcollab.methods import fedavg, local
from graphcollab.testing import Scene
from graphcollab.train import Compute
from tests.methods.quick import early


def small_scene(method):
    scene = Scene.small(torch.float32, embeds=method.embeds)
    return scene.tasks, scene.modules


@pytest.mark.filterwarnings("ignore:.*its learned weights are uniform")
@pytest.mark.parametrize("name", methods.__all__)
def test_results_of_every_method(name):
    method = early(name)
    result = run(method, *small_scene(method), rounds=2 if isinstance(method, Phases) else 1)
    again = pickle.loads(pickle.dumps(result))
    assert repr(again) == repr(result)
    inputs = result.tasks.pools["train"].inputs[:3]
    for k in (0, 5):
        assert torch.equal(again.model(k)(inputs), result.model(k)(inputs))
    assert again.summary() == result.summary()
    assert again.graph().named_edges() == result.graph().named_edges()


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_chains_convolutions_and_several_architectures(backend):
    scene = Scene.small(torch.float32, embeds=True, shared_head=True)
    result = run(
        local(epochs=1),
        scene.tasks,
        scene.modules,
        rounds=1,
        architecture=scene.architecture,
        compute=Compute(backend=backend),
    )
    assert torch.equal(pickle.loads(pickle.dumps(result)).stacks.tensors[1], result.stacks.tensors[1])
    chain = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))
    result = run(local(epochs=1), Scene.small(torch.float32).tasks, chain, rounds=1, compute=Compute(backend=backend))
    assert torch.equal(pickle.loads(pickle.dumps(result)).stacks.tensors[0], result.stacks.tensors[0])


def test_comparisons():
    tasks, modules = small_scene(local())
    tasks = replace(tasks, splits={**tasks.splits, "test": tasks.splits["val"]})
    made = {"local": local, "fedavg": fedavg}
    comparison = compare(made, lambda seed: tasks, modules, seeds=[0, 1], rounds=2)
    again = pickle.loads(pickle.dumps(comparison))
    assert repr(again) == repr(comparison)


SENDS = {"processes.py"}  # to processes of its own, as Python's multiprocessing does


def test_no_file_is_written_or_read_by_pickle():
    for path in Path(graphcollab.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert path.name in SENDS or "import pickle" not in text
        assert "pickle.dump(" not in text
        assert "pickle.load(" not in text
        assert "torch.load(" not in text
        assert "torch.save(" not in text
