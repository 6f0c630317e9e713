"""What docs/deploying.md tells administrators works, word for word."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graphcollab.sites import allow
from tests.sites import page
from tests.sites.deployment import ADMIN, SERVER, Deployment, deployment, free_port, provision, wait_for
from tests.sites.hospitals import write_files
from tests.sites.participant import Participant

SITES = ("Cleveland", "Hungary")
LATER = "LongBeach"
ROUNDS = 100  # as many as leave time to abort a job between its first checkpoint and its end

needs_flare = pytest.mark.skipif(
    importlib.util.find_spec("nvflare") is None, reason="needs NVIDIA FLARE: pip install 'graphcollab[nvflare]'"
)


def run_words(words: list[str], folder: Path) -> str:
    """Type one of the page's commands in a folder; what it prints."""
    words = [sys.executable, "-m", "nvflare.cli", *words[1:]] if words[0] == "nvflare" else words
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def type_(deployed: Deployment, words: list[str]) -> str:
    """Let the admin type one of the page's commands; what it prints."""
    words = [f"{deployed.admin.kit}" if word == f"kits/{ADMIN}" else word for word in words]
    process = deployed.admin.launch(shlex.join(words), stdout=subprocess.PIPE, text=True)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0, said + deployed.admin.output.read_text()[-2000:]
    return said


def test_the_unit_is_one_that_systemd_takes(tmp_path):
    unit = tmp_path / "flare.service"
    unit.write_text(page.block("ini", "[Service]"))
    assert page.unit()["ExecStart"] == "/bin/bash startup/sub_start.sh --once"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "flare.service" not in done.stderr


@needs_flare
def test_certificates_are_as_the_page_says(tmp_path):
    """A site that is added leaves those of the others as they are, and only another folder renews them."""
    first, again, anew = page.commands("nvflare provision")
    kits = provision(tmp_path, SITES, free_port())
    assert first == ["nvflare", "provision", "-p", "project.yml", "-w", "made"]
    allow(kits / "Hungary")
    said = run_words(page.command("openssl"), kits / "Hungary")
    ends = datetime.strptime(said.strip(), "notAfter=%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
    assert abs(ends - datetime.now(UTC) - timedelta(days=360)) < timedelta(hours=1)
    project = page.project(SERVER, 8002, [*SITES, LATER])
    (tmp_path / "project.yml").write_text(json.dumps(project))

    run_words(again, tmp_path)
    added = kits.with_name("prod_01")
    for file in ("client.crt", "client.key", "rootCA.pem"):
        assert (added / "Hungary" / "startup" / file).read_bytes() == (kits / "Hungary" / "startup" / file).read_bytes()
    assert (added / LATER / "startup" / "client.crt").exists()

    run_words(anew, tmp_path)
    new = tmp_path / "made-anew" / "hearts" / "prod_00"
    for file in ("client.crt", "client.key", "rootCA.pem"):
        assert (new / "Hungary" / "startup" / file).read_bytes() != (kits / "Hungary" / "startup" / file).read_bytes()


def numbers(said: str) -> list[str]:
    """The numbers of jobs in what a command prints."""
    return re.findall(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", said)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_as_the_page_tells(tmp_path):
    patients = write_files(tmp_path)
    files = {name: {"patients.csv": patients[name], "site.py": page.script(name, ROUNDS)} for name in SITES}
    with deployment(SITES, files=files, environment={"GRAPHCOLLAB_SITE": "{private}/site.py"}) as deployed:
        hungary = deployed.sites["Hungary"]
        told = {name: page.command(f"nvflare {name}") for name in ("system status", "job submit", "job list")}
        told |= {name: page.command(f"nvflare {name} JOB_ID") for name in ("job wait", "job abort")}
        assert sorted(map(" ".join, page.commands("nvflare job") + page.commands("nvflare system"))) == sorted(
            map(" ".join, told.values())
        )
        listed = re.findall(r"(\w+) +\w+ +[\d-]+ [\d:]+", type_(deployed, told["system status"]))
        assert sorted(listed) == [*SITES]

        [made] = [words for words in page.commands("python -c") if "job(" in words[-1]]
        type_(deployed, [*made[:-1], made[-1].replace("at_least=3", "at_least=2")])
        [first] = numbers(type_(deployed, told["job submit"]))
        kept = hungary.private / "checkpoints"
        wait_for(lambda: [*kept.glob("round-*")], 120, "checkpoints")
        type_(deployed, [first if word == "JOB_ID" else word for word in told["job abort"]])
        wait_for(lambda: "FINISHED:ABORTED" in type_(deployed, told["job list"]), 60, "the job is over", every=1)
        assert not (hungary.private / "history.json").exists()

        [second] = numbers(type_(deployed, told["job submit"]))
        said = type_(deployed, [second if word == "JOB_ID" else word for word in told["job wait"]])
        assert "FINISHED:COMPLETED" in said
        assert json.loads((hungary.private / "history.json").read_text())["rounds"] == [*range(1, ROUNDS + 1)]
        assert (hungary.private / "models" / "models.safetensors").exists()

        project = page.project(SERVER, deployed.port, [*SITES, LATER])
        (deployed.folder / "project.yml").write_text(json.dumps(project))
        run_words(page.commands("nvflare provision")[1], deployed.folder)
        kit = deployed.folder / LATER
        shutil.move(deployed.folder / "made" / "hearts" / "prod_01" / LATER, kit)
        later = Participant(LATER, kit, hungary.user + 50, {}, hungary.view)
        deployed.everyone[LATER] = later
        allow(kit)
        later.own()
        later.start()
        deployed.connected([*SITES, LATER])
