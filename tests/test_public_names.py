"""The package shows the names that are recorded in public_names.txt, and no others."""

from __future__ import annotations

from tests.public_names import RECORDED, public_names


def test_public_names_are_those_recorded() -> None:
    found, recorded = public_names().splitlines(), RECORDED.read_text(encoding="utf-8").splitlines()
    assert found == recorded, "python -m tests.public_names records them"
