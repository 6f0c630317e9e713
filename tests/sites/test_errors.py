"""What other sites read of an error."""

from __future__ import annotations

import errno
import re
import shutil

import pytest
from torch import nn

import graphcollab
from graphcollab import build_model, methods, run
from graphcollab._base.errors import MismatchError, UnknownError
from graphcollab._base.settings import settings_of
from graphcollab.sites.errors import as_shared, failure, received
from graphcollab.sites.hall import Door
from graphcollab.testing import Scene
from tests.sites.in_threads import NAMES, meet, small

SECRETS = [61.82517, -7.39184, "Jane Doe"]
OTHERS = [name for name in NAMES if name != "va"]


def raised(act) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return caught.value


@pytest.mark.parametrize(
    ("subject", "shown"), [("column 'Jane Doe'", "column"), ("Jane Doe", ""), ("file /patients/anna.csv", "file")]
)
def test_of_the_subject_of_another_one_the_kind_is_told(subject, shown):
    value = as_shared(UnknownError(subject, "Jane Doe is not known"), "va")
    assert value == {
        "module": "graphcollab._base.errors",
        "name": "UnknownError",
        "subject": shown,
        "message": f"va has failed with a UnknownError{f' ({shown})' * bool(shown)}; its message stays there",
    }


def test_of_a_setting_the_name_is_told_and_not_what_was_given():
    scene = Scene.small()
    error = raised(lambda: run(methods.fedavg(), scene.tasks, scene.models, rounds=-987))
    assert "-987" in str(error)
    value = as_shared(error, "va")
    assert value["subject"] == "rounds"
    assert "-987" not in str(value)


def test_of_samples_in_place_of_a_setting_nothing_is_told():
    """What is wrong is called by the name of a node here."""
    error = raised(lambda: graphcollab.Tasks.from_samples({"Jane Doe": "Jane Doe"}))
    assert "Jane Doe" in str(error)
    assert "Jane Doe" not in str(as_shared(error, "va"))


def test_of_a_file_without_a_header_other_sites_read_no_row(tmp_path):
    (tmp_path / "one.csv").write_text("Jane Doe,patient\n")
    error = raised(lambda: graphcollab.Tasks.from_frame(tmp_path / "one.csv", target="y"))
    assert "Jane Doe" in str(error)
    assert "Jane Doe" not in str(as_shared(error, "va"))


@pytest.mark.parametrize(
    "act",
    [
        lambda: build_model("Jane Doe", (3,), 2),
        lambda: methods.fedavg(**{"Jane Doe": 1}),
        lambda: settings_of(run, {"Jane Doe": 1}),
        lambda: graphcollab.Tasks.from_frame({"Bern": {"Jane Doe": "patients.csv"}}),
        lambda: run(methods.fedavg(), Scene.small().tasks, nn.Linear(3, 2), rounds=1, compute="Jane Doe"),
    ],
)
def test_other_words_that_quote_what_was_given_stay_at_the_site(act):
    error = raised(act)
    assert "Jane Doe" in str(error)
    assert "Jane Doe" not in str(as_shared(error, "va"))


def spied(monkeypatch) -> list[bytes]:
    """Return a list of all that Long Beach will send."""
    sent, ask, push = list[bytes](), Door.ask, Door.push

    def asks(self, content):
        sent.extend([content] * (self.name == "va"))
        return ask(self, content)

    def pushes(self, to, content):
        sent.extend([content] * (self.name == "va"))
        return push(self, to, content)

    monkeypatch.setattr(Door, "ask", asks)
    monkeypatch.setattr(Door, "push", pushes)
    return sent


def plays(here, method=methods.l2c, model=small, **settings):
    return here.run(method(), model, rounds=1, **settings)


@pytest.mark.parametrize(
    ("name", "own", "settings"),
    [
        ("target", {"target": SECRETS}, {}),
        ("columns", {"columns": [SECRETS]}, {}),
        ("categories", {"categories": SECRETS}, {}),
        ("categorical", {"categorical": [SECRETS]}, {}),
        ("loss", {"loss": SECRETS}, {}),
        ("val_fraction", {"val_fraction": SECRETS[0]}, {}),
        ("listeners", {"listeners": SECRETS}, {}),
        ("name", {"name": SECRETS}, {}),
        ("seed", {}, {"seed": SECRETS}),
        ("callbacks", {}, {"callbacks": SECRETS}),
        ("lr", {}, {"method": lambda: methods.l2c(lr=SECRETS)}),
        ("hidden", {}, {"model": lambda tasks: build_model("mlp", tasks.input_shape, 2, hidden=SECRETS[1])}),
    ],
)
def test_samples_in_place_of_a_setting_are_not_told(name, own, settings, monkeypatch):
    sent = spied(monkeypatch)
    found = meet(lambda here: plays(here, **(settings if here.name == "va" else {})), va=own)
    assert any(str(one) in str(found["va"]) for one in SECRETS)
    for other in OTHERS:
        assert "va has failed with a SettingError" in str(found[other])
        assert f"({name})" in str(found[other])
    assert sent
    assert not any(str(one).encode() in content for one in SECRETS for content in sent)


def test_of_checkpoints_of_another_run_others_read_that_they_are(tmp_path, monkeypatch):
    def act(here):
        return plays(here, checkpoint=tmp_path / here.name)

    meet(act)
    shutil.rmtree(tmp_path / "va")
    shutil.copytree(tmp_path / "cleveland", tmp_path / "va")
    sent = spied(monkeypatch)
    found = meet(act)
    own = str(found["va"])
    assert type(found["va"]).__name__ == "OtherRunError"
    assert str(tmp_path) in own
    checksums = re.findall(r"\b[0-9a-f]{12}\b", own)
    assert len(checksums) == 2
    for other in OTHERS:
        assert str(found[other]) == "va has failed with a OtherRunError; its message stays there"
        assert found[other].code == "other-run"
    for secret in (*checksums, str(tmp_path)):
        assert not any(secret.encode() in content for content in sent)


def test_of_a_full_disk_no_file_is_named():
    error = OSError(errno.ENOSPC, "No space left on device", "/patients/anna.csv")
    assert failure(error) == "has failed with a OSError (No space left on device)"
    assert failure(OSError(errno.ENOSPC, "Jane Doe")) == failure(error)


def test_an_error_has_its_class_code_and_kind_of_subject():
    error = received({"site": "Bern", **as_shared(MismatchError("column 'Jane Doe'", "Jane Doe differs"), "Bern")})
    assert type(error) is MismatchError
    assert (error.code, error.subject) == ("mismatch", "column")
    assert str(error) == "Bern has failed with a MismatchError (column); its message stays there"
    assert error.__notes__ == ["It was raised at Bern."]


def test_of_another_error_site_and_class_are_named():
    error = received({"site": "Bern", **as_shared(KeyError("Jane Doe"), "Bern")})
    assert type(error) is RuntimeError
    assert str(error) == "Bern has failed with a KeyError; its message stays there"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("subprocess", "Popen"),
        ("graphcollab.sites.site", "Site"),
        ("graphcollab", "nothing"),
        ("", ""),
    ],
)
def test_no_class_comes_from_elsewhere(module, name):
    error = received({"module": module, "name": name, "subject": "", "message": "of a peer"})
    assert type(error) is RuntimeError
    assert str(error) == f"{name}: of a peer"
