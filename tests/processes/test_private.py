"""What stays in a process, and how often rows of others come."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from tests.processes.private import SENTINEL
from tests.processes.test_equal import launch


def test_samples_are_in_the_process_of_their_node_only(tmp_path):
    done = launch(2, Path(__file__).with_name("private.py"), tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    for when in ("in round 1", "in round 2", "afterwards"):
        first, second = (re.findall(rf"process {p} has it {when} in (\[.*\])", done.stdout) for p in range(2))
        assert first == ["[]"]
        assert second != ["[]"], "the test does not find what is there"
    content = {path.name: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}
    assert {"part-00000.safetensors", "rows-00000.safetensors", "rows-00001.safetensors"} <= set(content)
    assert not [name for name, data in content.items() if struct.pack("<d", SENTINEL) in data]


ROWS = """
import sys, torch
from graphcollab import methods, run
from graphcollab.distributed import speaks
from graphcollab.testing.scene import Scene
scene = Scene.small()
edges = torch.tensor([[0, 0, 0, 3, 1, 2, 5, 1], [1, 2, 5, 1, 0, 0, 0, 3]])  # who hears whom beyond the own process
rounds = 3
result = run(methods.dpsgd(), scene.tasks, scene.modules, edges, rounds=rounds, owner=[0, 1, 1, 0, 0, 1])
transport = result.env.plane.transport
# to process 1 come the rows of nodes 0 and 3, to process 0 those of nodes 1, 2 and 5, however many nodes hear them
print(f"process {transport.process}: {transport.rows_moved} rows in {rounds} rounds")
"""


def test_a_row_is_sent_once_to_a_process_however_many_of_its_nodes_hear_it(tmp_path):
    script = tmp_path / "rows.py"
    script.write_text(ROWS)
    done = launch(2, script)
    assert done.returncode == 0, done.stderr[-3000:]
    told = sorted(re.findall(r"process \d: \d+ rows in 3 rounds", done.stdout))  # lines of two may be one
    assert told == ["process 0: 9 rows in 3 rounds", "process 1: 6 rows in 3 rounds"]
