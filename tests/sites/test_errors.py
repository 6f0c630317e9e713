"""What other sites read of an error."""

from __future__ import annotations

import errno
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from torch import nn

import graphcollab
from graphcollab import build_model, methods, run
from graphcollab.engine import NonFiniteLossError
from graphcollab.sites.errors import TOLD, SiteLostError, in_words, told_error
from graphcollab.sites.hall import Door
from graphcollab.sites.refused import require_of_run
from graphcollab.tasks import TellableError
from graphcollab.testing import Scene
from tests.sites.in_threads import NAMES, meet, small

SECRETS = [61.82517, -7.39184, "Jane Doe"]
OTHERS = [name for name in NAMES if name != "va"]


def raised(act) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return caught.value


def test_words_of_a_script_or_of_a_library_stay_at_the_site():
    assert in_words(raised(lambda: int("of a patient"))) == ""
    assert in_words(raised(lambda: {}["of a patient"])) == ""
    assert in_words(ValueError("made, and raised nowhere")) == ""


@pytest.mark.parametrize("kind", [SiteLostError, partial(NonFiniteLossError, "node 0"), TellableError])
def test_errors_that_quote_no_sample_are_told(kind):
    assert in_words(kind("what it says")) == "what it says"


def test_of_a_setting_the_name_is_told_and_not_what_was_given():
    scene = Scene.small()
    error = raised(lambda: run(methods.fedavg(), scene.tasks, scene.models, rounds=2, checkpoint_every=-987))
    assert "-987" in str(error)
    assert in_words(error) == "checkpoint_every= is not what it must be; what was given stays there"


def test_of_samples_in_place_of_a_setting_nothing_is_told():
    """What is wrong is called by the name of a node here."""
    error = raised(lambda: graphcollab.Tasks.from_samples({"Jane Doe": "Jane Doe"}))
    assert "Jane Doe" in str(error)
    assert "Jane Doe" not in in_words(error)


@pytest.mark.parametrize(
    "act",
    [
        lambda: build_model("Jane Doe", (3,), 2),
        lambda: methods.fedavg(**{"Jane Doe": 1}),
        lambda: require_of_run({"Jane Doe": 1}),
        lambda: graphcollab.site("Bern", {"Jane Doe": "patients.csv"}),
        lambda: run(methods.fedavg(), Scene.small().tasks, nn.Linear(3, 2), rounds=1, device="Jane Doe"),
    ],
)
def test_other_words_that_quote_what_was_given_stay_at_the_site(act):
    error = raised(act)
    assert "Jane Doe" in str(error)
    assert in_words(error) == ""


def test_words_that_stand_in_the_code_are_told():
    scene = Scene.small()
    error = raised(lambda: run(methods.fedavg(), scene.tasks, scene.models, rounds=2, tuned=True, chunk=1))
    assert in_words(error) == "tuned=True chooses backend, chunk and microbatch: leave them out, or tuned"


def test_words_of_an_error_that_somebody_tells_for_another_are_told():
    def act():
        raise KeyError("Jane Doe") from TellableError("a site differs")

    assert in_words(raised(act)) == "a site differs"


def test_what_may_quote_what_all_are_told_is_there():
    package = Path(graphcollab.__file__).parent
    for name, functions in TOLD.items():
        text = (package / name).read_text()
        assert all(f"def {one}(" in text for one in functions), name


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
        assert f"{name}= is not what it must be" in str(found[other])
    assert sent
    assert not any(str(one).encode() in content for one in SECRETS for content in sent)


def test_of_checkpoints_of_another_run_others_read_in_what_it_differs(tmp_path, monkeypatch):
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
        assert "va has failed with a OtherRunError: its checkpoints are of another run" in str(found[other])
        assert "differs in inputs in split 'train', targets in split 'train'" in str(found[other])
    for secret in (*checksums, str(tmp_path)):
        assert not any(secret.encode() in content for content in sent)


def test_what_tasks_refuse_stays_at_the_site():
    scene = Scene.small()
    error = raised(lambda: scene.tasks.require("of no name", "this"))
    assert str(error)
    assert in_words(error) == ""


def test_of_a_full_disk_no_file_is_named():
    assert in_words(OSError(errno.ENOSPC, "No space left on device", "/patients/anna.csv")) == "No space left on device"


def test_what_is_told_is_raised_as_what_it_was():
    error = told_error("Bern", "ValueError", "settings differ")
    assert type(error) is ValueError
    assert str(error) == "settings differ"
    assert error.__notes__ == ["It was raised at Bern."]


def test_where_nothing_is_told_site_and_class_are_named():
    error = told_error("Bern", "KeyError", "")
    assert type(error) is RuntimeError
    assert str(error) == "Bern has failed with a KeyError; what it says may quote a sample, and stays there"
