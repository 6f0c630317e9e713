from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from graphcollab_command.main import main

Run = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command with words, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *words: runner.invoke(main, [*map(str, words)], prog_name="graphcollab")


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """A table of three hospitals, in which whoever is older than 50 is ill, but for one."""
    drawn, rows = random.Random(0), ["hospital,age,sex,disease"]
    for k in range(90):
        age = drawn.randint(20, 80)
        ill = (age > 50) != (k == 7)
        rows.append(f"{('north', 'south', 'west')[k % 3]},{age},{drawn.choice('fm')},{'ill' if ill else 'well'}")
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def about() -> list[str]:
    """What is said of that table on every line."""
    return ["--node", "hospital", "--target", "disease"]
