"""Every fault finds the expression that it replaces, and its tests; ``python -m tests.faults`` plays them."""

from __future__ import annotations

import json

import pytest

from tests.faults.__main__ import FAULTS, ROOT, place


@pytest.mark.parametrize("fault", json.loads(FAULTS.read_text(encoding="utf-8")), ids=lambda one: str(one["id"]))
def test_a_fault_finds_its_expression_and_its_tests(fault):
    assert place(fault, ROOT / "graphcollab") is not None
    for test in fault["tests"]:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text(encoding="utf-8"), test
