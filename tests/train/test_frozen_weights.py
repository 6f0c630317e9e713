"""Checkpoints name frozen weights and do not hold them; what is saved of a result holds them once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Tasks, compare, join, load, run
from graphcollab._base.errors import OtherRunError
from graphcollab.engine import AdamW, LocalSteps, Rows
from graphcollab.methods import dpsgd, fedavg, local
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.report._terms import unequal_terms
from graphcollab.train.fingerprint import weights_checksum
from graphcollab.train.identity import identify_models
from tests.raising import raises
from tests.train.forged import manifest_of

WIDTH = 400
BASE_BYTES = 4 * (WIDTH * WIDTH + WIDTH)
QUICK = {"epochs": 1, "lr": 0.1, "batch_size": 4}


def adapted(seed=0, scale=1.0, width=WIDTH):
    """A wide frozen layer with a small trained one before it and behind it; the trained ones are always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        base = nn.Linear(width, width)
        torch.manual_seed(7)
        first, last = nn.Linear(4, width, bias=False), nn.Linear(width, 2)
    with torch.no_grad():
        base.weight.mul_(scale)
    return nn.Sequential(first, base.requires_grad_(False), nn.ReLU(), last)


def tasks(count=4, first=0):
    draw = torch.Generator().manual_seed(first)
    sets = [(torch.randn(10, 4, generator=draw), torch.arange(10) % 2) for _ in range(count)]
    return Tasks.from_samples(sets, names=[f"n{first + k}" for k in range(count)])


def train(model, folder=None, rounds=2, method=None, **settings):
    return run(method or dpsgd(**QUICK), tasks(), model, rounds=rounds, checkpoint=folder, **settings)


def test_rows_optimizer_and_messages_hold_what_is_trained():
    result = train(adapted(), method=dpsgd(**QUICK, momentum=0.9))
    trained = 4 * WIDTH + 2 * WIDTH + 2
    assert result.data.x.tensors[0].shape == (4, trained)
    steps = LocalSteps(optimizer=AdamW(lr=0.1), batch_size=4)
    fitted = result.env.engine.fit(Rows.own(result.data.x), steps, seed=0, round_=0)
    assert [state.tensors[0].shape for state in fitted.slots.values()] == [(4, trained)] * 2
    assert result.data.bytes_sent.tolist() == [2 * 3 * 4.0 * trained] * 4  # 2 rounds, 3 others, 4 bytes


def test_checkpoints_are_as_small_as_what_is_trained(tmp_path):
    train(adapted(), tmp_path, rounds=1)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert size < BASE_BYTES / 2
    about = load_checkpoint(max(tmp_path.glob("round-*")))[2]
    base = adapted()[1]
    expected = weights_checksum({"1.weight": base.weight, "1.bias": base.bias})
    assert about["frozen weights of architecture 0"] == expected
    assert len(expected) == 32


def test_a_run_goes_on_with_the_same_base(tmp_path):
    whole = train(adapted(), rounds=4)
    train(adapted(), tmp_path, rounds=2)
    again = train(adapted(), tmp_path, rounds=4)
    assert torch.equal(again.data.x.tensors[0], whole.data.x.tensors[0])
    assert torch.equal(again.model(2)[1].weight, whole.model(2)[1].weight)


@pytest.mark.parametrize("other", [{"seed": 1}, {"scale": 1.0001}])
def test_another_base_is_refused(tmp_path, other):
    train(adapted(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with raises("other-run", "frozen weights of architecture 0", "base model"):
        train(adapted(**other), tmp_path, rounds=4)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_buffer_that_is_not_saved_is_part_of_the_base(tmp_path):
    def model(angle):
        module = adapted(width=5)
        module[1].register_buffer("angles", torch.full((3,), angle), persistent=False)
        return module

    train(model(1.0), tmp_path)
    with raises("other-run", "frozen weights of architecture 0", kind=OtherRunError):
        train(model(2.0), tmp_path, rounds=4)


def test_saved_models_hold_the_base_once(tmp_path):
    result = train(adapted())
    fresh = adapted(seed=5)
    models = load(result.save(tmp_path), model=lambda name: fresh)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert BASE_BYTES < size < 1.3 * BASE_BYTES
    inputs = torch.linspace(-1, 1, 12).view(3, 4)
    for k in range(4):
        assert torch.equal(models.outputs(k, inputs), result.model(k)(inputs).detach())
    assert models.model(0)[1].weight.data_ptr() == models.model(3)[1].weight.data_ptr()
    assert not models.model(0)[1].weight.requires_grad
    assert torch.equal(fresh[1].weight, adapted(seed=5)[1].weight)  # the caller's module stays what it was


def test_saved_models_may_be_loaded_into_a_module_with_other_parts_frozen(tmp_path):
    """Every node's own parameters stay its own where the module given has them frozen."""
    result = train(adapted(width=5))
    given = adapted(width=5).requires_grad_(False)
    given[1].requires_grad_(True)
    before = given[0].weight.clone()
    models = load(result.save(tmp_path), model=lambda name: given)
    assert [torch.equal(models.model(k)[0].weight, result.model(k)[0].weight) for k in range(4)] == [True] * 4
    assert torch.equal(given[0].weight, before)
    assert torch.equal(models.model(1)[1].weight, result.model(1)[1].weight)


def test_frozen_weights_that_lie_in_each_others_memory_are_saved(tmp_path):
    module = adapted(width=5)
    memory = torch.arange(30.0) / 30
    module[1].weight = nn.Parameter(memory[:25].view(5, 5), requires_grad=False)
    module[1].bias = nn.Parameter(memory[25:], requires_grad=False)
    models = load(train(module).save(tmp_path), model=lambda name: module)
    assert torch.equal(models.model(0)[1].bias, memory[25:])


@pytest.mark.parametrize("method", [fedavg(**QUICK), local(**QUICK)])
def test_newcomers_have_the_same_base(tmp_path, method):
    module = adapted(width=6)
    result = train(module, method=method)
    if method.name == "local":
        return
    joined = join(result, tasks(2, first=9))
    assert joined.model(0)[1].weight.data_ptr() == module[1].weight.data_ptr()
    models = load(joined.save(tmp_path), model=lambda name: module)
    inputs = torch.linspace(-1, 1, 12).view(3, 4)
    assert torch.equal(models.outputs("n9", inputs), joined.model("n9")(inputs).detach())


def test_several_architectures_share_a_part_over_bases_of_their_own():
    parts = {"first": ["0"], "last": ["3"]}
    modules = [adapted(width=6), adapted(seed=3, width=6), adapted(width=6)]
    modules[2][1] = nn.Sequential(modules[2][1], nn.Tanh(), nn.Linear(6, 6).requires_grad_(False))
    for module in modules:
        module.parts = parts
    result = train(modules, method=fedavg(**QUICK, part="last"), architecture=[0, 1, 2, 2])
    for node, architecture in enumerate([0, 1, 2, 2]):
        own, given = result.model(node), modules[architecture]
        frozen = [p.data_ptr() for p in given.parameters() if not p.requires_grad]
        assert [p.data_ptr() for p in own.parameters() if not p.requires_grad] == frozen
        torch.testing.assert_close(own[3].weight, result.model(0)[3].weight)
    assert result.data.x.tensors[2].shape == (2, 4 * 6 + 2 * 6 + 2)


def test_models_over_different_bases_are_different_models():
    one, same, other = (train(adapted(seed=seed, width=5)) for seed in (0, 0, 1))
    fingerprints = [identify_models(result.modules, result.data.x) for result in (one, same, other)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    makers = {"dpsgd": lambda: dpsgd(**QUICK), "fedavg": lambda: fedavg(**QUICK)}
    found = compare(
        makers, lambda seed: tasks(first=seed).hold_out(0.2, seed, into="test"), adapted(width=5), [0, 1], rounds=1
    )
    assert unequal_terms(found) == []
    assert len({trial.architectures for trial in found.trials}) == 1  # whatever the seed


def test_checksums_tell_names_shapes_types_and_bytes_apart():
    one = torch.arange(6.0)
    known = {
        weights_checksum(tensors)
        for tensors in (
            {"a": one},
            {"b": one},
            {"a": one.view(2, 3)},
            {"a": one.view(torch.int32)},
            {"a": one + torch.tensor([0, 0, 0, 0, 0, 1e-5])},
            {"a": one.bfloat16()},
            {"a": one, "b": one},
            {},
        )
    }
    assert len(known) == 8
    assert weights_checksum({"a": one.flip(0).flip(0)}) in known
    assert weights_checksum({"a": torch.stack([one, one], 1)[:, 0]}) in known  # however it lies in memory
    assert weights_checksum({"a": torch.empty(0)}) != weights_checksum({"a": torch.empty(0, 2)})


def test_a_checksum_is_found_anew_where_a_tensor_was_written_to():
    one = nn.Parameter(torch.zeros(3), requires_grad=False)
    before = weights_checksum({"a": one})
    assert weights_checksum({"a": one}) == before
    with torch.no_grad():
        one.add_(1)
    assert weights_checksum({"a": one}) == weights_checksum({"a": torch.ones(3)}) != before
    with torch.inference_mode():
        uncounted = torch.zeros(3)
        assert weights_checksum({"a": uncounted}) == before
        uncounted.add_(1)
    assert weights_checksum({"a": uncounted}) != before


def test_a_checkpoint_names_the_base_and_not_its_tensors(tmp_path):
    train(adapted(width=6), tmp_path)
    last = max(tmp_path.glob("round-*"), key=lambda path: path.name)
    content = (last / "state.safetensors").read_bytes()
    assert "frozen weights of architecture 0" in manifest_of(last)["content"]["about"]
    assert b"1.weight" not in content
