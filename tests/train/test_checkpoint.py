from __future__ import annotations

import ast
import inspect
import pickle

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from graphcollab import meta_l2c, run
from graphcollab.models import MLP
from graphcollab.nn import Mixer
from graphcollab.testing import Scene, differences
from graphcollab.train import (
    Finding,
    History,
    RecordGraph,
    checkpoint,
    encoding,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)

METHOD = meta_l2c(epochs=1, batch_size=4, lr=0.1)


@pytest.fixture
def played(tmp_path):
    """A folder with the checkpoints of four rounds, of which two are kept."""
    run(
        METHOD,
        Scene.small(torch.float32).tasks,
        lambda: MLP(4, (6,), 3),
        rounds=4,
        checkpoint=tmp_path / "played",
        callbacks=[RecordGraph({2})],
    )
    return tmp_path / "played"


def resume(folder, rounds=6, **settings):
    tasks, model = Scene.small(torch.float32).tasks, lambda: MLP(4, (6,), 3)
    return run(METHOD, tasks, model, rounds=rounds, checkpoint=folder, callbacks=[RecordGraph({2})], **settings)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_are_kept(played):
    assert names(played) == ["round-000003.safetensors", "round-000004.safetensors"]
    assert latest_checkpoint(played).name == "round-000004.safetensors"
    assert latest_checkpoint(played / "nothing") is None


def test_round_trip(tmp_path):
    scene = Scene.small()
    data, _ = scene.play(METHOD)
    history = History(
        ("a", "b"),
        "auc",
        False,
        isolated={"b": 1},
        isolated_because={"b": "its loss"},
        graphs={3: (torch.zeros(2, 1).long(), torch.ones(1))},
    )
    history.scores[3] = (torch.ones(2, 1).long(), torch.ones(1, dtype=torch.float64))
    history.findings.append(Finding(3, "never sampled", (1,), "nobody listened to b"))
    history.watched, history.heard = 3, torch.tensor([2, 0])
    history.add(1, 0.5, {"test_metric": torch.tensor([float("nan"), float("inf")])})
    about = {"seed": 1, "shapes": [[2, 3]], "method": "m"}
    loaded, again, told = load_checkpoint(save_checkpoint(tmp_path, data, history, about))
    assert differences((data, history), (loaded, again)) == []
    assert again.findings == history.findings
    assert told == about
    assert set(loaded.keys()) == set(data.keys())
    assert isinstance(loaded.mixer, Mixer)


def test_histories_without_the_newer_fields_can_be_read():
    code = encoding.encode(History(("a",)), "history", {})
    for name in ("scores", "findings", "watched", "heard"):
        code["fields"]["mapping"] = [item for item in code["fields"]["mapping"] if item["key"] != name]
    assert encoding.decode(code, {}) == History(("a",))


def test_rows_that_are_all_the_same_are_stored_once(tmp_path):
    data, _ = Scene.small().begin(METHOD)
    path = save_checkpoint(tmp_path, data, History(("a",)), {})
    stored = load_file(path)["data.x_init.tensors.0"]
    assert data.x_init.tensors[0].shape == (6, 51)
    assert stored.shape == (1, 51)
    assert load_checkpoint(path)[0].x_init.tensors[0].stride(0) == 0


def test_a_file_being_written_is_never_picked_up(played):
    content = (played / "round-000004.safetensors").read_bytes()
    (played / "round-000009.safetensors.part").write_bytes(content)
    (played / "round-9.safetensors.part").write_bytes(content[:100])
    (played / "round-best.safetensors").write_bytes(content)
    assert latest_checkpoint(played).name == "round-000004.safetensors"
    assert resume(played, rounds=4).history.rounds == [1, 2, 3, 4]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-1], lambda b: b[:5], lambda b: b""])
def test_a_damaged_file_is_passed_over_with_a_warning(played, tmp_path, damage):
    straight = resume(tmp_path / "straight")
    newest = played / "round-000004.safetensors"
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(RuntimeWarning, match=r"round-000004.*not a complete.*trying the checkpoint before it"):
        result = resume(played)
    assert differences(straight.data, result.data) == []
    assert names(played) == ["round-000005.safetensors", "round-000006.safetensors"]


def test_without_any_complete_file_there_is_an_error(played):
    for path in played.iterdir():
        path.write_bytes(path.read_bytes()[:200])
    with (
        pytest.warns(RuntimeWarning, match="not a complete"),
        pytest.raises(ValueError, match=r"none of the 2 checkpoints .* is complete.*resume=False"),
    ):
        resume(played)
    assert resume(played, rounds=1, resume=False).data.round == 1


def test_starting_afresh_removes_the_old_checkpoints(played):
    resume(played, rounds=1, resume=False)
    assert names(played) == ["round-000001.safetensors"]


def test_bad_input_removes_nothing(played):
    before = names(played)
    with pytest.raises(ValueError, match="device"):
        resume(played, resume=False, device="warp")
    assert names(played) == before


def test_other_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load_checkpoint(tmp_path / "missing.safetensors")
    mixer = Mixer.create(Scene.small().begin(METHOD)[0].x.specs[0]).save(tmp_path / "mixer.safetensors")
    with pytest.raises(ValueError, match=r"not a checkpoint .*'graphcollab-mixer-1'"):
        load_checkpoint(mixer)


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("load", [load_checkpoint, Mixer.load])
def test_loading_executes_nothing(tmp_path, load):
    victim = tmp_path / "victim"
    for name, dump in (("pickle", pickle.dumps), ("torch", None)):
        path = tmp_path / f"round-{name}.safetensors"
        if dump is None:
            torch.save({"x": Harmful(victim)}, path)
        else:
            path.write_bytes(dump(Harmful(victim)))
        with pytest.raises(ValueError, match=r"not a (complete )?safetensors file"):
            load(path)
    assert not victim.exists()


@pytest.mark.parametrize("module", [checkpoint, encoding, inspect.getmodule(Mixer)])
def test_no_way_to_execute_is_even_imported(module):
    tree = ast.parse(inspect.getsource(module))
    imported = {alias.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert not imported & {"pickle", "marshal", "shelve", "dill", "importlib", "subprocess"}
    assert not called & {"eval", "exec", "torch.load", "__import__", "getattr.__call__"}


def test_what_cannot_be_stored_is_named(tmp_path):
    data, _ = Scene.small().begin(METHOD)
    data.strange = nn.Linear(1, 1)
    with pytest.raises(TypeError, match=r"data\.strange is a Linear, which a checkpoint cannot hold"):
        save_checkpoint(tmp_path, data, History(("a",)), {})
    assert names(tmp_path) == []


def test_a_description_that_cannot_be_read(played):
    path = played / "round-000004.safetensors"
    path.write_bytes(path.read_bytes().replace(b"Stacks", b"Stocks"))
    with pytest.raises(ValueError, match=r"damaged or of another version: KeyError 'Stocks'"):
        load_checkpoint(path)
