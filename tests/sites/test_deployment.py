"""A deployment of the tests is what it says: users that cannot read each other's files, certificates that count."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sites import deployment as module
from tests.sites.deployment import Deployment, deployment, lacking, wait_for
from tests.sites.job import write_job
from tests.sites.simulator import simulate

SITES = ("Cleveland", "Hungary", "Switzerland")
PARTS = {
    "files": {name: {"own.txt": f"of {name}"} for name in SITES},
    "environment": {"PRIVATE": "{private}"},
    "allowed": ["tests.sites.parts."],
}


def submit_question(deployed: Deployment, folder: Path, question: str, seconds: float = 0.0) -> str:
    """Submit a job whose server asks every site for a file, again and again."""
    parts = "tests.sites.parts."
    job = write_job(folder, parts + "Server", parts + "Site", question=question, seconds=seconds)
    return deployed.submit(job)


def heard(deployed: Deployment, job: str) -> list[dict]:
    """What the server heard, each time."""
    return [json.loads(line) for line in (deployed.result(job) / "heard.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_site_reads_its_own_files_only_and_nothing_is_left(tmp_path):
    with deployment(SITES, **PARTS, line=True) as deployed:
        folder, users = deployed.folder, {str(one.user) for one in deployed.everyone.values()}
        deployed.throttle(100, 10)
        own = submit_question(deployed, tmp_path / "own", "own.txt")
        assert deployed.wait(own) == "FINISHED:COMPLETED", deployed.server.log()
        others = submit_question(deployed, tmp_path / "others", str(deployed.sites["Hungary"].private / "own.txt"))
        assert deployed.wait(others) == "FINISHED:COMPLETED", deployed.server.log()
        said = [{name: answer["text"] for name, answer in heard(deployed, job)[-1].items()} for job in (own, others)]
        played_by = {answer["user"] for answer in heard(deployed, own)[-1].values()}
    assert said[0] == {name: f"of {name}" for name in SITES}
    assert said[1] == {"Cleveland": "PermissionError", "Hungary": "of Hungary", "Switzerland": "PermissionError"}
    assert len(played_by - {os.getuid()}) == len(SITES)
    assert not folder.exists()
    running = subprocess.run(["ps", "-eo", "uid="], capture_output=True, text=True, check=True).stdout.split()
    assert not users & set(running)


@pytest.mark.slow
def test_a_site_of_another_project_is_not_connected():
    with (
        deployment(SITES[:1], **PARTS) as deployed,
        deployment(SITES[1:2], start=False, port=deployed.port) as other,
    ):
        stranger = other.sites["Hungary"]
        stranger.start()
        wait_for(lambda: "CERTIFICATE_VERIFY_FAILED" in stranger.log(), 60, "the stranger is refused")
        assert deployed.ask("clients") == ["Cleveland"]


@pytest.mark.slow
def test_a_job_that_brings_code_is_refused(tmp_path):
    """Python would run this file in every process of the job, whichever classes it names."""
    with deployment(SITES[:1], **PARTS) as deployed:
        parts = "tests.sites.parts."
        folder = write_job(tmp_path / "own", parts + "Server", parts + "Site", question="own.txt", seconds=0.0)
        (folder / "app" / "custom").mkdir()
        (folder / "app" / "custom" / "sitecustomize.py").write_text("open('ran', 'w').close()")
        try:
            status = deployed.wait(deployed.submit(folder))
        except RuntimeError as error:
            status = str(error)
        ran = [name for name, one in deployed.everyone.items() if [*one.kit.rglob("ran")]]
    assert ran == []
    assert "COMPLETED" not in status, status


@pytest.mark.slow
def test_a_job_that_names_other_classes_of_flare_is_refused(tmp_path):
    """FLARE's own list has this one, which writes files."""
    with deployment(SITES[:1], **PARTS) as deployed:
        parts = "tests.sites.parts."
        folder = write_job(tmp_path / "own", parts + "Server", parts + "Site", question="own.txt", seconds=0.0)
        config = folder / "app" / "config" / "config_fed_client.json"
        told = json.loads(config.read_text())
        told["components"].append({"id": "more", "path": "nvflare.app_common.np.np_trainer.NPTrainer"})
        config.write_text(json.dumps(told))
        status = deployed.wait(deployed.submit(folder))
        site = deployed.sites[SITES[0]]
        assert "COMPLETED" not in status
        assert re.search("NPTrainer.* is not in allow_list", site.log())


@pytest.mark.slow
def test_a_site_under_the_name_of_another_is_not_connected():
    with deployment(SITES[:2], start=False, **PARTS) as deployed:
        impostor, own = (deployed.sites[name].kit / "startup" for name in SITES[:2])
        for file in ("client.crt", "client.key"):
            shutil.copy(own / file, impostor / file)
        deployed.sites[SITES[0]].own()
        deployed.server.start()
        deployed.sites[SITES[0]].start()
        said = "authenticated as 'Hungary' but claimed endpoint 'Cleveland' requires identity 'Cleveland'"
        wait_for(lambda: said in deployed.server.log(), 60, "the impostor is refused")
        assert "New client" not in deployed.server.log()


@pytest.mark.slow
def test_calls_to_a_site_that_is_killed_fail_and_the_job_goes_on(tmp_path):
    with deployment(SITES[:2], **PARTS) as deployed:
        site = deployed.sites["Hungary"]
        job = submit_question(deployed, tmp_path / "own", "own.txt", seconds=300)
        run = deployed.server.kit / job / "heard.jsonl"
        wait_for(lambda: run.exists() and run.read_text(), 60, "the job works")
        site.kill()
        assert not site.processes()
        wait_for(lambda: "error" in json.loads(run.read_text().splitlines()[-1])["Hungary"], 30, "calls fail")
        site.start()
        deployed.connected(["Cleveland", "Hungary"])
        assert deployed.status(job) == "RUNNING"


@pytest.mark.slow
def test_a_job_plays_in_the_simulator(tmp_path):
    (tmp_path / "own.txt").write_text("of all")
    parts = "tests.sites.parts."
    job = write_job(tmp_path / "job", parts + "Server", parts + "Site", question="own.txt", seconds=0.0)
    done = simulate(job, SITES[:2], tmp_path / "simulated", {"PRIVATE": str(tmp_path)}, allowed=[parts])
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    (written,) = (tmp_path / "simulated").rglob("heard.jsonl")
    said = json.loads(written.read_text().splitlines()[-1])
    assert {name: answer["text"] for name, answer in said.items()} == dict.fromkeys(SITES[:2], "of all")


def test_what_a_deployment_lacks_is_said(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: object())
    assert lacking() == "needs root: every site runs as a user of its own"
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert "graphcollab[nvflare]" in lacking()
    with pytest.raises(pytest.skip.Exception, match="NVIDIA FLARE"), deployment(SITES):
        pass
