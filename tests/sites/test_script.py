"""A client that has not been told its site's script says what to do."""

from __future__ import annotations

import pytest

from graphcollab._base.errors import MissingFileError


@pytest.fixture
def check():
    pytest.importorskip("nvflare")
    from graphcollab.sites.flare import the_script

    def act() -> str:
        try:
            return the_script()
        except MissingFileError as error:
            return f"wrong: {error}"

    return act


def test_the_script_is_found(check, tmp_path, monkeypatch):
    path = tmp_path / "site.py"
    path.touch()
    monkeypatch.setenv("GRAPHCOLLAB_SITE", str(path))
    assert check() == str(path)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "GRAPHCOLLAB_SITE is not set, so"),
        ("/nowhere/site.py", "GRAPHCOLLAB_SITE is '/nowhere/site.py', which is no file that this user can read, so"),
        ("/", "GRAPHCOLLAB_SITE is '/', which is no file that this user can read, so"),
    ],
)
def test_what_is_no_script_is_named_with_the_cure(check, given, why, monkeypatch):
    monkeypatch.delenv("GRAPHCOLLAB_SITE", raising=False)
    if given is not None:
        monkeypatch.setenv("GRAPHCOLLAB_SITE", given)
    told = check()
    assert told.startswith(f"wrong: {why}")
    assert "GRAPHCOLLAB_SITE=/srv/hearts/site.py bash startup/sub_start.sh --once" in told
