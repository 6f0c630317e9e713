from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphcollab.cli.app import main


@dataclass
class Done:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


Run = Callable[..., Done]


@pytest.fixture
def run_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command with words, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    return run


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
