"""The commands of docs/command_line.md run as they stand there, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
RUN = re.compile(r"<!-- run -->\n```sh\n(.*?)```", re.DOTALL)
NEW = """hospital,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,disease
cleveland,63,1,1,145,233,1,2,150,0,2.3,3,0,6,0
va,63,1,4,140,260,0,1,112,1,3,2,,,1
"""


@pytest.mark.slow
def test_every_command_runs(run_command, tmp_path):
    rows = NEW.splitlines()
    (tmp_path / "new.csv").write_text("\n".join([rows[0], *rows[1:] * 10]) + "\n")
    lines = [line for block in RUN.findall(PAGE.read_text(encoding="utf-8")) for line in block.splitlines()]
    assert len(lines) > 7
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "graphcollab"
        done = run_command(*words)
        assert done.exit_code == 0, f"{line}\n{done.output}"
    told = (tmp_path / "predictions.csv").read_text().splitlines()
    assert told[0] == "row,hospital,disease,disease = 0,disease = 1"
    assert [line.split(",")[1] for line in told[1:]] == ["cleveland", "va"] * 10
    assert {path.name for path in (tmp_path / "report").iterdir()} >= {"results.txt", "sites.csv", "models", "run.toml"}
