from __future__ import annotations

from tests import messages


def test_wording_is_as_written_down():
    written = messages.WRITTEN.read_text(encoding="utf-8")
    assert messages.snapshot().splitlines() == written.splitlines(), "run `make messages`, and read the difference"
