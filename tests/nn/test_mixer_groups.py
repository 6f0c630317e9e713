"""Encoders of parts of the graph that are not connected."""

from __future__ import annotations

import pytest
import torch

from graphcollab import join, run
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import meta_l2c
from graphcollab.nn import MixingEncoder
from graphcollab.testing import Scene, differences
from tests.methods import plain_attention
from tests.raising import raises

SPEC = ParamSpec.from_module(torch.nn.Linear(3, 2))
PARTS = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])  # and node 4, which is alone
QUICK = {"epochs": 1, "lr": 0.1, "batch_size": 4, "drop_round": None}
NOBODY = torch.empty(2, 0, dtype=torch.int64)


def two():
    first, second = (MixingEncoder.create(SPEC, seed=seed) for seed in (0, 1))
    tensors = {f"{g}/{name}": tensor for g, one in enumerate((first, second)) for name, tensor in one.tensors.items()}
    return first, second, MixingEncoder(first.widths, tensors, torch.tensor([0, 1, -1, 0]))


def test_every_node_is_encoded_by_its_own():
    first, second, mixers = two()
    change = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    code = mixers.encode(change, SPEC)
    for mixer, rows in ((first, [0, 3]), (second, [1])):
        torch.testing.assert_close(code[rows], mixer.encode(change[rows], SPEC))
    assert code[2].tolist() == [0.0] * 10
    assert mixers.of(1) == second
    assert first.of(1) is first
    with raises("disconnected", "node 2"):
        mixers.of(2)


def test_parameters_go_there_and_back():
    first, _, mixers = two()
    assert mixers.num_parameters == first.num_parameters
    doubled = mixers.with_tensors({name: 2 * tensor for name, tensor in mixers.tensors.items()})
    assert all(torch.equal(doubled.tensors[name], 2 * tensor) for name, tensor in mixers.tensors.items())
    assert doubled.clone().to("cpu").cpu().tensors.keys() == mixers.tensors.keys()


def test_one_for_all_stays_one():
    mixer = MixingEncoder.create(SPEC, seed=0)
    assert mixer.for_groups(torch.tensor([0, 0])) is mixer
    assert mixer.for_groups(torch.tensor([0, 0, -1])).num_groups == 1
    assert mixer.for_groups(torch.tensor([-1, -1])).num_groups == 1
    assert mixer.for_groups(torch.tensor([0, 1])).num_groups == 2


@pytest.fixture(scope="module")
def result():
    tasks = Scene.small().tasks.select(range(5))
    return run(meta_l2c(**QUICK), tasks, list(Scene.small().modules), PARTS, rounds=2)


def test_whose_mixer_is_saved(result, tmp_path):
    for node, place in ((0, 0), ("node 2", 2)):
        saved = MixingEncoder.load(result.save_mixer(tmp_path / "mixer", node))
        assert differences(dict(saved.tensors), dict(result.data.mixer.of(place).tensors)) == []
    with raises("ambiguous", "node"):
        result.save_mixer(tmp_path / "mixer")
    with raises("disconnected", "node 4"):
        result.save_mixer(tmp_path / "mixer", 4)
    with raises("unknown", "node", "'otto'", kind=KeyError):
        result.save_mixer(tmp_path / "mixer", "otto")


def test_a_mixer_of_one_part_needs_no_name(tmp_path):
    scene = Scene.small()
    one = run(meta_l2c(**QUICK), scene.tasks, list(scene.modules), PARTS[:, :2], rounds=1)
    assert MixingEncoder.load(one.save_mixer(tmp_path / "mixer")).num_parameters == one.data.mixer.num_parameters


def test_newcomers_join_one_part(result):
    new = Scene.small().tasks.select([5])
    with raises("conflict", "node 'node 5'"):
        join(result, new)
    with raises("conflict", "node 'node 5'"):
        join(result, new, allowed=torch.tensor([[2, 4], [0, 0]]))
    there = join(result, new, allowed=torch.tensor([[2, 3], [0, 0]]), finetune=0)
    alone = join(result, new, allowed=NOBODY, finetune=0).stacks.part("all")
    changes = torch.cat([result.data.x.part("all")[[2, 3]], alone])
    changes = changes - result.data.x_init.part("all")[:1]
    expected = plain_attention.weights(result.data.mixer.of(2), changes, result.data.x.specs[0])[2]
    assert there.edge_weight.tolist() == pytest.approx(expected.tolist())


def test_newcomers_use_the_only_mixer_for_everybody():
    scene = Scene.small()
    tasks, modules = scene.tasks.select(range(5)), list(scene.modules)
    one = run(meta_l2c(**QUICK), tasks, modules, PARTS[:, :2], rounds=1)
    told = join(one, scene.tasks.select([5]), finetune=0)
    start, mixer = one.data.x_init.part("all")[:1], one.data.mixer.of()
    alone = join(one, scene.tasks.select([5]), allowed=NOBODY, finetune=0).stacks.part("all")
    changes = torch.cat([one.data.x.part("all"), alone]) - start
    expected = plain_attention.weights(mixer, changes, one.data.x.specs[0])[5]
    assert told.edge_weight.tolist() == pytest.approx(expected.tolist())


def test_a_run_goes_on_with_several(result, tmp_path):
    scene = Scene.small()
    tasks, modules = scene.tasks.select(range(5)), list(scene.modules)
    for rounds in (1, 2):
        again = run(meta_l2c(**QUICK), tasks, modules, PARTS, rounds=rounds, checkpoint=tmp_path)
    assert differences(again.data.mixer.tensors, result.data.mixer.tensors) == []
    assert torch.equal(again.data.x.tensors[0], result.data.x.tensors[0])
