from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import pickle
import shutil

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from graphcollab import run
from graphcollab._base.errors import FormatError
from graphcollab.methods import meta_l2c
from graphcollab.models import MLP
from graphcollab.nn import MixingEncoder
from graphcollab.persistence import History, checkpoint, folder
from graphcollab.persistence.checkpoint import STATE, load_checkpoint, write_checkpoint, write_rows
from graphcollab.testing import Scene, differences
from graphcollab.train import Checkpoint, Finding, RecordGraph
from tests.raising import raises, warns
from tests.train.forged import change, latest_checkpoint, manifest_of, save_checkpoint, seal

METHOD = meta_l2c(epochs=1, batch_size=4, lr=0.1)


@pytest.fixture(scope="module")
def kept_checkpoints(tmp_path_factory):
    """A folder with the checkpoints of four rounds, of which two are kept; no test changes it."""
    resume(folder := tmp_path_factory.mktemp("kept_checkpoints") / "copied_checkpoints", rounds=4)
    return folder


@pytest.fixture
def copied_checkpoints(kept_checkpoints, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(kept_checkpoints, tmp_path / "copied_checkpoints")


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The result of six rounds in a row."""
    return resume(tmp_path_factory.mktemp("straight"))


def resume(folder, rounds=6, again=True, **settings):
    tasks, model = Scene.small(torch.float32).tasks, lambda: MLP(4, (6,), 3)
    settings = {"rounds": rounds, "callbacks": [RecordGraph({2})], **settings}
    return run(METHOD, tasks, model, checkpoint=Checkpoint(folder, 1, again), **settings)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_are_kept(copied_checkpoints):
    assert names(copied_checkpoints) == ["round-000003", "round-000004"]
    assert latest_checkpoint(copied_checkpoints).name == "round-000004"
    assert latest_checkpoint(copied_checkpoints / "nothing") is None


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
    history.findings.append(Finding("diverged", "models", "its loss is large", {"round": 3, "nodes": ("b",)}))
    history.observed["own_weight"] = torch.tensor([0.5, 0.25])
    history.add(1, 0.5, {"test_metric": torch.tensor([float("nan"), float("inf")])})
    about = {"seed": 1, "shapes": [[2, 3]], "method": "m"}
    loaded, again, told = load_checkpoint(save_checkpoint(tmp_path, data, history, about))
    assert differences((data, history), (loaded, again)) == []
    assert again.findings == history.findings
    assert told == about
    assert set(loaded.keys()) == set(data.keys())
    assert isinstance(loaded.mixer, MixingEncoder)


def test_histories_without_the_newer_fields_can_be_read(tmp_path):
    data, _ = Scene.small().begin(METHOD)
    path = save_checkpoint(tmp_path, data, History(("a",)), {})

    def older(manifest):
        fields = manifest["content"]["history"]["mapping"]
        newer = [field for field in fields if field[0] in ("findings", "observed")]
        assert len(newer) == 2
        fields[:] = [field for field in fields if field not in newer]

    assert load_checkpoint(change(path, older))[1] == History(("a",))


def test_rows_that_are_all_the_same_are_stored_once(tmp_path):
    data, _ = Scene.small().begin(METHOD)
    path = save_checkpoint(tmp_path, data, History(("a",)), {})
    stored = load_file(path / "state.safetensors")["data.x_init.tensors.0"]
    assert data.x_init.tensors[0].shape == (6, 51)
    assert stored.shape == (1, 51)
    assert load_checkpoint(path)[0].x_init.tensors[0].stride(0) == 0


def test_what_is_being_written_is_never_picked_up(copied_checkpoints):
    whole = copied_checkpoints / "round-000004"
    shutil.copytree(whole, copied_checkpoints / ".round-000009.0123456789abcdef.part")
    shutil.copytree(whole, copied_checkpoints / "round-best")
    assert latest_checkpoint(copied_checkpoints).name == "round-000004"
    assert resume(copied_checkpoints, rounds=4).history.rounds == [1, 2, 3, 4]
    assert names(copied_checkpoints) == ["round-000003", "round-000004", "round-best"]


def flipped(content):
    return content[:-9] + bytes([content[-9] ^ 4]) + content[-8:]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-1], lambda b: b[:5], flipped, None])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(copied_checkpoints, damage):
    file = copied_checkpoints / "round-000004" / STATE
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    with warns("damaged", "checkpoint round-000004"):
        assert latest_checkpoint(copied_checkpoints).name == "round-000003"


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(copied_checkpoints, straight):
    file = copied_checkpoints / "round-000004" / STATE
    file.write_bytes(flipped(file.read_bytes()))
    with warns("damaged", "checkpoint round-000004"):
        result = resume(copied_checkpoints)
    assert differences(straight.data, result.data) == []
    assert differences(straight.history.values, result.history.values) == []
    assert names(copied_checkpoints) == ["round-000005", "round-000006"]
    assert differences(load_checkpoint(copied_checkpoints / "round-000006")[0], straight.data) == []
    assert differences(load_checkpoint(copied_checkpoints / "round-000005")[1].graphs, straight.history.graphs) == []


def test_the_round_of_a_damaged_checkpoint_is_saved_again(copied_checkpoints):
    (copied_checkpoints / "round-000004" / STATE).write_bytes(b"")
    with warns("damaged", "checkpoint round-000004"):
        resume(copied_checkpoints, rounds=4)
    assert names(copied_checkpoints) == ["round-000003", "round-000004-1"]
    assert latest_checkpoint(copied_checkpoints).name == "round-000004-1"


def test_without_any_undamaged_checkpoint_there_is_an_error(copied_checkpoints):
    for path in copied_checkpoints.glob(f"*/{STATE}"):
        path.write_bytes(path.read_bytes()[:200])
    with (
        warns("damaged"),
        raises("damaged", "checkpoint", 2, "resume=False"),
    ):
        resume(copied_checkpoints)
    assert resume(copied_checkpoints, rounds=1, again=False).data.round == 1


def test_two_checkpoints_share_no_bytes(copied_checkpoints):
    resume(copied_checkpoints, rounds=9)
    nodes = [path.stat().st_ino for path in copied_checkpoints.glob("*/*")]
    assert len(set(nodes)) == len(nodes) == 2


def test_another_version_is_refused_by_name(copied_checkpoints):
    for path in copied_checkpoints.glob("*"):
        change(path, lambda manifest: manifest.update(version=7))
    with raises("version", f"folder {copied_checkpoints / 'round-000004'}", 7, 6):
        load_checkpoint(copied_checkpoints / "round-000004")
    with raises("version", None, 7):
        resume(copied_checkpoints)


def test_a_number_that_a_disk_has_changed_is_damage(copied_checkpoints):
    path = copied_checkpoints / "round-000004" / STATE
    content = path.read_bytes()
    assert content.count(b'\\"version\\": 6,') == 1
    path.write_bytes(content.replace(b'\\"version\\": 6,', b'\\"version\\": 4,'))
    with warns("damaged", "checkpoint round-000004"):
        assert latest_checkpoint(copied_checkpoints).name == "round-000003"


@pytest.mark.parametrize("number", [3, 4])
def test_a_checkpoint_of_another_version_is_not_passed_over_and_removed(copied_checkpoints, number):
    path = copied_checkpoints / f"round-{number:06d}" / STATE
    seal(path.parent, '{"format": "graphcollab-checkpoint", "version": 7, "whatever": "comes"}')
    before = {path: path.read_bytes() for path in copied_checkpoints.rglob("*") if path.is_file()}
    for use in (resume, latest_checkpoint):
        with raises("version", f"folder {path.parent}", 7, 6, "resume=False"):
            use(copied_checkpoints)
    assert {path: path.read_bytes() for path in copied_checkpoints.rglob("*") if path.is_file()} == before


def test_pipes_in_the_place_of_files(copied_checkpoints):
    path = copied_checkpoints / "round-000004" / STATE
    path.unlink()
    os.mkfifo(path)
    with raises("damaged", f"folder {path.parent}", STATE, "is no regular file"):
        load_checkpoint(path.parent)


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, "nonsense", "3", "{}", '{"files": 5}', '{"a": {}}', '{}, "content": 5']
)
def test_a_manifest_that_makes_no_sense(copied_checkpoints, text):
    path = copied_checkpoints / "round-000004"
    head = '{"format": "graphcollab-checkpoint", "version": 6, "content": '
    for whole in (text, f"{head}{text}}}"):
        seal(path, whole)
        with raises("damaged", f"folder {path}"):
            load_checkpoint(path)


@pytest.mark.parametrize("name", ["../round-000003/state.safetensors", "/etc/passwd", "..", ""])
def test_parts_lie_in_the_folder(copied_checkpoints, name):
    def elsewhere(told):
        told["content"]["rows"] = [{"file": name, "sha256": "0" * 64}]

    path = change(copied_checkpoints / "round-000004", elsewhere)
    with raises("damaged", f"folder {path}", repr(name), "is no name"):
        load_checkpoint(path)


def test_rows_of_another_checkpoint_are_damage(tmp_path):
    rows = [write_rows(tmp_path, torch.tensor([0, 1]), {"x": torch.full((2, 3), value)}) for value in (1.0,)]
    write_checkpoint(tmp_path, {"y": torch.ones(1)}, History(("a", "b")), {}, rows)
    assert load_checkpoint(tmp_path)[0].x.tolist() == [[1.0] * 3] * 2
    (tmp_path / rows[0]["file"]).unlink()
    write_rows(tmp_path, torch.tensor([0, 1]), {"x": torch.zeros(2, 3)})
    with raises("damaged", f"folder {tmp_path}", "another checkpoint"):
        load_checkpoint(tmp_path)
    (tmp_path / rows[0]["file"]).unlink()
    with raises("damaged", f"folder {tmp_path}", rows[0]["file"]):
        load_checkpoint(tmp_path)


def test_starting_afresh_removes_the_old_checkpoints(copied_checkpoints):
    resume(copied_checkpoints, rounds=1, again=False)
    assert names(copied_checkpoints) == ["round-000001"]


def test_bad_input_removes_nothing(copied_checkpoints):
    before = names(copied_checkpoints)
    with pytest.raises(ValueError, match="device"):
        resume(copied_checkpoints, again=False, compute="warp")
    assert names(copied_checkpoints) == before


def test_other_files(tmp_path):
    with raises("missing-file", f"folder {tmp_path / 'missing.safetensors'}", kind=FileNotFoundError):
        load_checkpoint(tmp_path / "missing.safetensors")
    mixer = MixingEncoder.create(Scene.small().begin(METHOD)[0].x.specs[0]).save(tmp_path / "mixer.safetensors")
    with raises("missing-file", f"folder {mixer}"):
        load_checkpoint(mixer)


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("load", [load_checkpoint, MixingEncoder.load])
def test_loading_executes_nothing(tmp_path, load):
    victim = tmp_path / "victim"
    for name, dump in (("pickle", pickle.dumps), ("torch", None)):
        path = tmp_path / f"round-{name}.safetensors"
        if dump is None:
            torch.save({"x": Harmful(victim)}, path)
        else:
            path.write_bytes(dump(Harmful(victim)))
        with pytest.raises((FileNotFoundError, FormatError)):
            load(path)
    assert not victim.exists()


@pytest.mark.parametrize("module", [checkpoint, folder, inspect.getmodule(MixingEncoder)])
def test_no_way_to_execute_is_even_imported(module):
    tree = ast.parse(inspect.getsource(module))
    imported = {alias.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert not imported & {"pickle", "marshal", "shelve", "dill", "importlib", "subprocess"}
    assert not called & {"eval", "exec", "torch.load", "__import__", "getattr.__call__"}


def test_what_cannot_be_stored_is_named(tmp_path):
    data, _ = Scene.small().begin(METHOD)
    data.strange = nn.Linear(1, 1)
    with raises("type", "data.strange", "Linear"):
        save_checkpoint(tmp_path, data, History(("a",)), {})
    assert names(tmp_path) == []


def test_a_description_that_cannot_be_read(copied_checkpoints):
    path = copied_checkpoints / "round-000004"
    seal(path, json.dumps(manifest_of(path)).replace("Stacks", "Stocks"))
    with raises("damaged", f"folder {path}", "KeyError 'Stocks'"):
        load_checkpoint(path)


def test_classes_of_others_that_have_our_names_are_not_taken_for_ours():
    other = dataclasses.make_dataclass("Finding", ["nodes"])
    with raises("type", "x", "Finding"):
        folder.encode(other(("a",)), "x", {})
    with raises("type", "x", "tuple"):
        folder.encode({(1, 2): 3}, "x", {})
