"""A run that was killed or interrupted at any moment and resumed equals an uninterrupted one bit for bit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.forked import interpret
from tests.train.killed_runs import CASES, ROUNDS, WAYS


@pytest.mark.parametrize(
    "case", [case if case == "l2c" else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_resumed_equals_uninterrupted(case):
    done = interpret(Path(__file__).with_name("killed_runs.py"), case, timeout=280)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report.keys() == {way.__name__ for way, cases in WAYS.items() if case in cases}
    for way, told in report.items():
        assert told["kills"] >= (1 if way == "by_delays" else 2)  # a fast machine may be done before the second delay
        assert told["differs"] == [], way
        assert told["rounds"] == ROUNDS or (case == "patience" and told["rounds"] < ROUNDS)
        # killed before older checkpoints were removed, and with no other to write, a run leaves one more; nothing else
        assert len(told["files"]) in (2, 3), way
        assert all(re.fullmatch(r"round-\d{6}", file) for file in told["files"])
