"""What hospitals do not agree about is said before the first round, with names, and alike at all of them."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from graphcollab import build_model, methods
from graphcollab.sites.connection import Connection, SiteLostError
from graphcollab.sites.hall import Door, Hall
from graphcollab.sites.transport import Gathering
from graphcollab.train import Callback, Result
from tests.raising import raises
from tests.sites.in_threads import NAMES, ROWS, meet, pooled_tasks, small


def refused(act, **own) -> str:
    """Return the error that all hospitals raise."""
    found = meet(act, **own)
    told = {f"{type(one).__name__}: {one}" for one in found.values()}
    assert len(told) == 1, found
    assert all(isinstance(one, Exception) for one in found.values()), found
    return told.pop()


def plays(here, **changed):
    settings = {"method": methods.l2c(epochs=1), "model": small, "rounds": 2, **changed}
    return here.run(settings.pop("method"), settings.pop("model"), **settings)


def only(name, usual, other):
    return lambda here: other if here.name == name else usual


@pytest.mark.parametrize(
    ("what", "setting", "usual", "other"),
    [
        ("method", "method", methods.l2c(epochs=1), methods.l2c(epochs=1, lr=0.5)),
        ("rounds", "rounds", 2, 3),
        ("seed", "seed", 0, 1),
        ("shapes of the models", "model", small, lambda tasks: nn.Linear(*tasks.input_shape, 2)),
        ("on_nonfinite", "on_nonfinite", "stop", "isolate"),
        ("evaluate_every", "evaluate_every", 1, 2),
    ],
)
def test_other_settings(what, setting, usual, other):
    choose = only("va", usual, other)
    told = refused(lambda here: plays(here, **{setting: choose(here)}))
    assert re.search(
        rf"MismatchError: sites differ in {what}\S*, .* at cleveland, hungarian.* switzerland and .* at va", told
    )


def test_the_setting_that_differs_is_named():
    choose = only("va", methods.l2c(epochs=1), methods.l2c(epochs=1, lr=0.5))
    assert refused(lambda here: plays(here, method=choose(here))) == (
        "MismatchError: sites differ in method.local.optimizer.lr, 0.01 at cleveland, hungarian, switzerland and "
        "0.5 at va: all must play the same run"
    )


def test_the_layer_that_differs_is_named():
    def model(here):
        return lambda tasks: build_model("mlp", tasks.input_shape, 2, hidden=8 if here.name == "va" else 16)

    told = refused(lambda here: plays(here, model=model(here)))
    [inputs] = pooled_tasks().input_shape
    assert told == (
        f"MismatchError: sites differ in shapes of the models[0]['backbone.1.weight'], [16, {inputs}] at cleveland, "
        f"hungarian, switzerland and [8, {inputs}] at va: all must play the same run"
    )


def test_other_initial_parameters():
    def model(here):
        def make(tasks):
            made = small(tasks)
            with torch.no_grad():
                next(made.parameters()).add_(here.name == "va")
            return made

        return make

    told = refused(lambda here: plays(here, model=model(here)))
    assert re.match(r"MismatchError: sites differ in initial models of architecture 0, .* at va", told)


def test_a_model_that_others_have_not_made_is_not_told(monkeypatch):
    sent, ask, push = list[bytes](), Door.ask, Door.push
    monkeypatch.setattr(Door, "ask", lambda self, content: (sent.append(content), ask(self, content))[1])
    monkeypatch.setattr(Door, "push", lambda self, to, content: (sent.append(content), push(self, to, content))[1])
    trained = [torch.randn(64, generator=torch.Generator().manual_seed(k)) for k in range(200)]

    def model(here):
        def make(tasks):
            made = small(tasks)
            if here.name == "cleveland":
                with torch.no_grad():
                    for one in made.parameters():
                        one.copy_(torch.cat(trained)[: one.numel()].view_as(one))
            return made

        return make

    told = refused(lambda here: plays(here, model=model(here)))
    assert re.match(r"MismatchError: sites differ in initial models of architecture 0", told)
    for kind in (torch.float32, torch.float64):
        pieces = [one[k : k + 8].to(kind).numpy().tobytes() for one in trained[:40] for k in range(0, 64, 8)]
        assert not any(piece in content for content in sent for piece in pieces)


def over_a_base(number: float = 0.0):
    """Return a function that makes a trained layer over a frozen one of known numbers."""

    def make(tasks):
        [width] = tasks.input_shape
        base = nn.Linear(width, 16).requires_grad_(False)
        with torch.no_grad():
            base.weight.copy_(torch.randn(16, width, generator=torch.Generator().manual_seed(3)) / width)
            base.bias.fill_(number)
        return nn.Sequential(base, nn.Linear(16, 2))

    return make


def test_another_base_is_refused():
    told = refused(lambda here: plays(here, model=over_a_base(here.name == "va")))
    assert re.search(
        r"sites differ in frozen weights of architecture 0, \w{32} at cleveland, hungarian.* switzerland and \w{32} "
        r"at va: all must have the same base model, so load it from the same file",
        told,
    )


class Learned(Callback):
    """Looks at the change of the site's own model before it is sent."""

    def before_mixing(self, data, env):
        own = int(env.plane.own[0])
        self.change = data.x.row(own)[1] - data.x_start.row(own)[1]


def test_nobody_sends_the_base(monkeypatch):
    sent, push = list[bytes](), Door.push
    monkeypatch.setattr(Door, "push", lambda self, to, content: (sent.append(content), push(self, to, content))[1])
    seen = {name: Learned() for name in NAMES}
    found = meet(lambda here: plays(here, model=over_a_base(), callbacks=[seen[here.name]]))
    assert all(isinstance(one, Result) for one in found.values()), found
    base = next(iter(found.values())).modules[0][0].weight.detach()
    for kind in (torch.float32, torch.float64):
        pieces = [row[k : k + 8].to(kind).numpy().tobytes() for row in base for k in (0, 8)]
        assert not any(piece in content for content in sent for piece in pieces)
    for one in seen.values():  # what is sought would be seen
        assert any(one.change[:8].numpy().tobytes() in content for content in sent)


def test_models_may_differ_by_the_rounding_of_processors():
    def model(here):
        def make(tasks):
            made = small(tasks)
            with torch.no_grad():
                for one in made.parameters():
                    one.mul_(1 + 1e-7 * NAMES.index(here.name))
            return made

        return make

    usual, found = meet(plays), meet(lambda here: plays(here, model=model(here)))
    for name, one in found.items():
        assert isinstance(one, Result), one
        for mine, other in zip(one.model(name).parameters(), usual[name].model(name).parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_other_architectures():
    choose = only("va", dict.fromkeys(NAMES[1:], 0) | {NAMES[0]: 1}, dict.fromkeys(NAMES[:3], 0) | {"va": 1})
    told = refused(lambda here: plays(here, model=[small, small], architecture=choose(here)))
    assert "sites differ in architecture, [1, 0, 0, 0] at cleveland, hungarian, switzerland and [0, 0, 0, 1]" in told


def test_another_version(monkeypatch):
    everyone = Gathering.all_gather_object

    def other(self, value):
        version = "2" if value.get("site") == "va" else "1"
        return everyone(self, {**value, "version": version} if "version" in value else value)

    monkeypatch.setattr(Gathering, "all_gather_object", other)
    assert "different versions of graphcollab, 1 at 'cleveland'" in refused(plays)


def test_other_columns():
    fewer = {name: values for name, values in ROWS["va"].items() if name != "age"}
    assert "column 'age' is at 'cleveland'" in refused(plays, va={"rows": fewer})


def test_whoever_runs_the_server_reads_what_kind_of_error_has_ended_the_run(caplog):
    hall = Hall(NAMES, poll=0.5)
    meet(plays, hall, va={"val_fraction": 0.3})
    assert hall.coordinator.failed.endswith("has failed with a MismatchError (settings); its message stays there")
    assert "has failed with a MismatchError (settings)" in caplog.text


def test_what_is_wrong_with_samples_is_said_at_their_site_only():
    found = meet(plays, va={"target": "diseases"} | {"rows": {"age": ["Jane Doe"] * 40, "disease": [0, 1] * 20}})
    own = found.pop("va")
    assert own.__notes__ == [f"What is wrong here: {type(own.__cause__).__name__}: {own.__cause__}"]
    assert not any(hasattr(one, "__notes__") and "diseases" in str(one.__notes__) for one in found.values())


def test_other_kinds_of_values():
    words = {**ROWS["va"], "age": ["old"] * len(ROWS["va"]["age"])}
    for one in meet(plays, va={"rows": words}).values():
        assert "column 'age' holds values of different kinds, numbers at 'cleveland'" in str(one)
        assert "and text at 'va'" in str(one)


def test_other_classes():
    words = {**ROWS["va"], "disease": ["ill" if ill else "well" for ill in ROWS["va"]["disease"]]}
    told = refused(plays, va={"rows": words})
    assert "sites have targets of different" in told
    assert "'va'" in told


def test_other_settings_of_tasks():
    told = refused(plays, va={"val_fraction": 0.3})
    assert "sites have different settings: val_fraction=" in told
    assert "0.3 at 'va'" in told


@pytest.mark.parametrize("name", ["Long Beach", "cleveland"])
def test_a_name_unlike_the_certificate(name):
    found = meet(plays, va={"name": name})
    assert f"the certificate of va is given, and its script says {name!r}: write" in str(found.pop("va"))
    assert {str(one) for one in found.values()} == {
        "va has failed with a MismatchError (name); its message stays there"
    }


def test_unknown_listeners():
    told = refused(plays, va={"listeners": ["cleveland", "Basel"]})
    assert told.startswith("UnknownError: va lets 'Basel' listen, and the sites are") or "va lets Basel listen" in told


def test_samples_are_not_quoted_to_others():
    """What a library says of a site's own samples stays there; the others read which site has failed."""
    secret = "Jane Doe, born 1961"

    def act(here):
        def model(tasks):
            if here.name == "va":
                raise KeyError(secret)
            return small(tasks)

        return plays(here, model=model)

    found = meet(act)
    assert isinstance(found["va"], KeyError)
    for name in ("cleveland", "hungarian", "switzerland"):
        assert secret not in str(found[name])
        assert "va" in str(found[name])
        assert "KeyError" in str(found[name])


def test_a_script_that_fails_before_it_meets_the_others():
    secret = "Jane Doe, born 1961"

    def act(here):
        if here.name == "va":
            raise ValueError(secret)
        return plays(here)

    found = meet(act)
    for name in ("cleveland", "hungarian", "switzerland"):
        assert isinstance(found[name], SiteLostError)
        assert secret not in str(found[name])
        assert "va has failed with a ValueError" in str(found[name])


def test_a_site_that_cannot_write_its_journal_is_named_at_once(tmp_path):
    (tmp_path / "full").write_text("a file, where a folder is to be made")
    hall = Hall(["Basel", "Bern"], poll=0.2)
    with pytest.raises(OSError, match="full"):
        Connection(Door(hall, "Bern"), past=tmp_path / "full" / "told")
    other = Connection(Door(hall, "Basel"))
    with raises("lost", "sites", "Bern", kind=SiteLostError):
        other.tell("values", 1)
    other.finish()


def test_a_script_that_ends_early():
    found = meet(lambda here: None if here.name == "va" else plays(here))
    for name in ("cleveland", "hungarian", "switzerland"):
        assert isinstance(found[name], SiteLostError)
        assert "the script of va has ended" in str(found[name])


def test_a_loss_that_is_not_finite_stops_all():
    told = meet(lambda here: plays(here, method=methods.l2c(lr=1e30)))
    assert all(type(one).__name__ == "NonFiniteLossError" for one in told.values())
    assert all(any(name in str(one) for name in NAMES) for one in told.values())


def test_a_state_that_is_not_alike():
    """Long Beach counts a node as isolated that nobody else does."""

    class Meddles(Callback):
        def __init__(self, name):
            self.name = name

        def on_round(self, data, history):
            data.isolated[0] = self.name == "va"  # a callback must not, and here does

    told = refused(lambda here: plays(here, method=methods.fedavg(), callbacks=[Meddles(here.name)]))
    assert "sites differ in 'isolated' after round 1" in told
    assert "process" not in told
    assert "the same build of PyTorch at all" in told
