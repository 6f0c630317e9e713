"""The tutorials run as they stand there, Python and commands one after the other, and answer what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
RUN = re.compile(r"<!-- run -->\n```(python|sh)\n(.*?)```", re.DOTALL)


def play(page: str, call) -> list[str]:
    """Run a page's marked blocks, and return what its commands print."""
    names, told = {"__name__": "__main__"}, []
    for language, text in RUN.findall((TUTORIALS / page).read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(text, page, "exec", dont_inherit=True), names)
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line)
            assert program == "graphcollab"
            done = call(*words)
            assert done.exit_code == 0, f"{line}\n{done.output}"
            told.append(done.output)
    return told


@pytest.mark.slow
@pytest.mark.timeout(900)  # a benefit of all defaults
def test_from_a_csv_to_a_decision(run_command, tmp_path):
    warned, auc, brier, answer, compared, *_ = play("csv_to_decision.md", run_command)
    assert "'num' tells the target" in warned
    assert "'chol' has 0 in all rows of site 'switzerland'" in warned
    assert "No evidence that collaborating helps." in auc
    assert "Evidence that collaborating by all together helps." in brier
    assert "No evidence that collaborating helps." in answer
    assert "trained past the best" not in compared
    assert (tmp_path / "answer" / "report.html").exists()


@pytest.mark.slow
def test_from_a_pretrained_mixer_to_new_tasks(run_command):
    [told] = play("mixer_to_new_tasks.md", run_command)
    lost = re.search(r"^meta_l2c +−(\d+\.\d+)", told, re.MULTILINE)
    assert lost is not None
    assert float(lost[1]) > 1  # in points
