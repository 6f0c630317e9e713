"""What stays in a process, and how often rows of others come."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.forked import launch
from tests.processes.private import SENTINEL


@pytest.mark.slow
def test_samples_are_in_the_process_of_their_node_only(tmp_path):
    done = launch(2, Path(__file__).with_name("private.py"), tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    for when in ("in round 1", "in round 2", "afterwards"):
        first, second = (re.findall(rf"process {p} has it {when} in (\[.*\])", done.stdout) for p in range(2))
        assert first == ["[]"]
        assert second != ["[]"], "the test does not find what is there"
    content = {path.name: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}
    assert {"state.safetensors", "rows-00000.safetensors", "rows-00001.safetensors"} <= set(content)
    assert not [name for name, data in content.items() if struct.pack("<d", SENTINEL) in data]


ROWS = """
import sys, torch
from graphcollab import methods, run
from graphcollab.comm import is_main_process
from graphcollab.testing import Scene
from graphcollab.train import Compute
scene = Scene.small()
edges = torch.tensor([[0, 0, 0, 3, 1, 2, 5, 1], [1, 2, 5, 1, 0, 0, 0, 3]])  # who hears whom beyond the own process
rounds, placed = 3, Compute(placement=[0, 1, 1, 0, 0, 1])
result = run(methods.dpsgd(), scene.tasks, scene.modules, edges, rounds=rounds, compute=placed)
transport = result.env.plane.transport
# to process 1 come the rows of nodes 0 and 3, to process 0 those of nodes 1, 2 and 5, however many nodes hear them
print(f"process {transport.process}: {transport.rows_moved} rows in {rounds} rounds")
for node in ("node 0", "node 5"):
    try:
        said = type(result.model(node)).__name__
    except Exception as error:
        said = error
    sys.stdout.write(f"\\nmodel of {node} in process {transport.process}: {said}\\n")
"""


@pytest.mark.slow
def test_a_row_is_sent_once_to_a_process_and_a_model_is_where_its_node_is(tmp_path):
    script = tmp_path / "rows.py"
    script.write_text(ROWS)
    done = launch(2, script)
    assert done.returncode == 0, done.stderr[-3000:]
    told = sorted(re.findall(r"process \d: \d+ rows in 3 rounds", done.stdout))  # lines of two may be one
    assert told == ["process 0: 9 rows in 3 rounds", "process 1: 6 rows in 3 rounds"]
    models = re.findall(r"^model of (node \d) in process (\d): (.*)$", done.stdout, re.MULTILINE)
    kinds = {(node, int(process)): said for node, process, said in models}
    assert kinds["node 0", 0] == kinds["node 5", 1] == "MLP"
    assert "process 0 of 2" in kinds["node 0", 1]
    assert "process 1 of 2" in kinds["node 5", 0]
