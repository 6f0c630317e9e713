"""What differs between processes is refused, before training and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked import launch
from tests.processes.differing import CASES

MESSAGES = {
    "placement twice": "MismatchError: placement must be the same in all processes",
    "placement nobody": "MismatchError: placement must be the same in all processes",
    "placement idle": "MismatchError: placement must give nodes to each of the processes 0 to 1",
    "placement unknown": "MismatchError: placement must give nodes to each of the processes 0 to 1",
    "placement short": "MismatchError: placement must be the same in all processes, and of 6 nodes",
    "placement wide": "MismatchError: placement must be the same in all processes, and of 6 nodes",
    "tasks": "MismatchError: processes differ in samples per node in split 'train' (",
    "clusters": "MismatchError: processes differ in true clusters (",
    "isolate": "MismatchError: processes differ in on_nonfinite (stop, isolate): all must play the same run",
    "graph": "MismatchError: processes differ in edges (",
    "models": "MismatchError: processes differ in shapes of the models[0]",
    "initial models": "MismatchError: processes differ in initial models of architecture 0 (",
    "base": "MismatchError: processes differ in frozen weights of architecture 0 (",
    "meddled": "StateError: processes differ in 'node_id' after round 1, which all should have computed alike",
    "version": "MismatchError: processes differ in version of graphcollab (9.0, 9.1): all must play the same run",
    "capability": "MismatchError: processes differ in instructions of the CPU (AVX2, AVX512)",
    "kernels": "MismatchError: processes differ in kernels for mixing (dense, dense, compiled)",
}


@pytest.mark.slow
def test_what_differs_between_processes_is_refused():
    done = launch(2, Path(__file__).with_name("differing.py"), timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    for name in CASES:
        said = [line.removeprefix(f"{name}: ") for line in lines if line.startswith(f"{name}: ")]
        assert len(said) == 2, name
        assert said[0] == said[1], name
        assert said[0].startswith(MESSAGES.get(name, f"MismatchError: processes differ in {name}")), said[0]
