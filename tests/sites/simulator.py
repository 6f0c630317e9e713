"""A job in FLARE's simulator: every site is a process of the same user, without certificates."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from graphcollab.sites.deploying import CLASSES
from tests.sites.participant import ROOT


def simulate(
    job: Path, sites: Sequence[str], workspace: Path, allowed: Sequence[str] = ()
) -> subprocess.CompletedProcess:
    """Play a job to its end (20 s without training); its output is all in `stdout`.

    Args:
        job: the job's folder.
        sites: names of the sites, whose processes have this one's environment.
        workspace: is made; what the job's parts write is in ``server/simulate_job`` and ``<site>/simulate_job``.
        allowed: as for `Deployment`.
    """
    local = workspace / "local"
    local.mkdir(parents=True)
    resources = {"format_version": 2, "class_allow_list": [*CLASSES, *allowed]}
    (local / "resources.json").write_text(json.dumps(resources))
    command = [sys.executable, "-m", "tests.sites.simulator", str(job), str(workspace), ",".join(sites)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


if __name__ == "__main__":
    from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

    job, workspace, names = sys.argv[1:]
    count = len(names.split(","))
    sys.exit(SimulatorRunner(job_folder=job, workspace=workspace, clients=names, n_clients=count, threads=count).run())
