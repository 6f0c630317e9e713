"""Under every method, a node that is isolated in the first round, or has no edges, changes nothing for the others."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from graphcollab import methods, run
from graphcollab.data.samples import Pool
from graphcollab.testing import Scene
from tests.methods.quick import early

BAD, REST = 2, [0, 1, 3, 4, 5]
ONLY_ITS = 2  # the label that only the bad node has, of which no loss is finite


def tasks(scene):
    """Nodes with two classes, and one with large inputs and losses that are not finite."""
    pool, rows = scene.tasks.pools["train"], torch.cat([split.of(BAD) for split in scene.tasks.splits.values()])
    inputs, targets = pool.inputs.clone(), pool.targets.clamp(max=1)
    inputs[rows], targets[rows] = 1e3 * inputs[rows], ONLY_ITS

    def loss(outputs, targets):
        return F.cross_entropy(outputs, targets) + torch.where(targets == ONLY_ITS, torch.nan, 0.0).mean()

    return replace(scene.tasks, pools={"train": Pool(inputs, targets)}, loss=loss)


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.__all__)
def test_the_others_are_as_if_it_had_not_been_there(name):
    method = early(name, epochs=1)
    scene = Scene.small(embeds=method.embeds)
    given = tasks(scene)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = run(method, given, scene.modules[0], rounds=3, on_nonfinite="isolate")
        alone = run(method, given.select(REST), scene.modules[0], rounds=3)
    assert found.history.isolated == {given.names[BAD]: 1}
    ours, theirs = found.stacks.part("all")[REST], alone.stacks.part("all")
    assert (ours - theirs).abs().max() <= 1e-9 * theirs.abs().max()
    assert {e for e in found.graph().named_edges() if given.names[BAD] in e[:2] and e[0] != e[1]} == set()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*was isolated:RuntimeWarning")
@pytest.mark.parametrize("later", ["stop", "isolate"])
def test_a_run_that_isolates_a_node_at_once_is_resumed_with_or_without_isolating(tmp_path, later):
    method, scene = early("flt", epochs=1), Scene.small()
    given = tasks(scene)
    for rounds, how in ((1, "isolate"), (2, later), (3, "isolate")):
        found = run(method, given, scene.modules[0], rounds=rounds, on_nonfinite=how, checkpoint=tmp_path)
    whole = run(method, given, scene.modules[0], rounds=3, on_nonfinite="isolate")
    assert torch.equal(found.stacks.part("all"), whole.stacks.part("all"))


def test_a_run_that_begins_to_isolate_later_is_resumed(tmp_path):
    """What is finite but grows by its first update is isolated in its first round by those who look."""
    method, scene = early("flt", epochs=1, lr=1e3), Scene.small()
    for rounds, how in ((1, "stop"), (2, "isolate"), (3, "isolate")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = run(method, scene.tasks, scene.modules[0], rounds=rounds, on_nonfinite=how, checkpoint=tmp_path)
    assert found.data.round == 3
    assert min(found.history.isolated.values()) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*learned weights are:RuntimeWarning")
@pytest.mark.parametrize("name", methods.__all__)
def test_a_node_without_edges_changes_nothing_for_the_others(name):
    """Where all are at work, which `SampleNodes` draws among all there are."""
    method = early(name, epochs=1, fraction=1.0)
    scene = Scene.small(embeds=method.embeds)
    named = [scene.tasks.names[k] for k in REST]
    graph = [(one, other) for one in named for other in named if one != other]
    settings = {"graph": graph, "rounds": 3}
    found = run(method, scene.tasks, scene.modules[0], **settings).stacks.part("all")[REST]
    alone = run(method, scene.tasks.select(REST), scene.modules[0], **settings).stacks.part("all")
    assert (found - alone).abs().max() <= 1e-9 * alone.abs().max()
