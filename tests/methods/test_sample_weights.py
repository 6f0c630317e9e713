"""Every method with weights of samples: whole weights do what repeated samples do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphcollab import Phases, methods
from graphcollab.data.samples import Split
from graphcollab.engine import SupervisedContrast
from graphcollab.testing import Scene
from graphcollab.testing.claims import rows
from tests.methods.quick import early

SIZES = (12, 16, 12, 20, 16, 12)


def pieces_of(method):
    """All pieces of a method and its phases."""
    if isinstance(method, Phases):
        return [*pieces_of(method.method), *pieces_of(method.next)]
    held = [value for value in vars(method).values() if hasattr(value, "walk")]
    return [piece for value in held for piece in value.walk()]


def scenes(method, backend):
    """A scene whose samples have weights, and one where they come so often; sites have as many as they have weight."""
    scene = Scene.small(sizes=SIZES, embeds=method.embeds).replace(backend=backend)
    pool = scene.tasks.pools["train"]
    counts = torch.ones(len(pool), dtype=torch.int64)
    for split in scene.tasks.splits.values():
        for node in range(split.num_nodes):
            own = split.of(node)
            counts[own[:3]] = torch.tensor([2, 0, 1])  # as many in all as there are samples
    splits = {}
    for name, split in scene.tasks.splits.items():
        lists = [own.repeat_interleave(counts[own]) for own in map(split.of, range(split.num_nodes))]
        splits[name] = Split.from_lists("train", lists)
        assert torch.equal(splits[name].sizes, split.sizes)
    weighted = replace(scene.tasks, pools={"train": replace(pool, weight=2.5 * counts.double())})
    return scene.replace(tasks=weighted), scene.replace(tasks=replace(scene.tasks, splits=splits))


# In the loop these are played as well, which ask for losses and gradients in ways of their own.
IN_THE_LOOP = ("cga", "meta_l2c", "fomo", "ifca", "ditto", "fedproto")


@pytest.mark.parametrize(
    ("name", "backend"), [(name, "vmap") for name in methods.__all__] + [(name, "loop") for name in IN_THE_LOOP]
)
def test_weights_are_repetitions(name, backend):
    method = early(name, batch_size=100, samples=100, augment=None, buffers="keep")
    if any(isinstance(piece, SupervisedContrast) for piece in pieces_of(method)):
        pytest.skip("samples are compared with each other, and one that is repeated with itself")
    (found, env), (expected, other) = (scene.play(method, rounds=2) for scene in scenes(method, backend))
    torch.testing.assert_close(
        rows(method.models(found, env)), rows(method.models(expected, other)), rtol=1e-7, atol=1e-8
    )
    assert torch.equal(found.edge_index, expected.edge_index)
    torch.testing.assert_close(found.edge_weight, expected.edge_weight, rtol=1e-7, atol=1e-8)
    assert torch.equal(found.bytes_sent, expected.bytes_sent)


@pytest.mark.parametrize("name", methods.__all__)
def test_weights_matter(name):
    method = early(name, batch_size=100, augment=None)
    weighted, _ = scenes(method, "auto")
    plain = weighted.replace(
        tasks=replace(weighted.tasks, pools={"train": replace(weighted.tasks.pools["train"], weight=None)})
    )
    found, expected = (rows(scene.models(method, rounds=1)) for scene in (weighted, plain))
    assert (found - expected).abs().max() > 1e-4
