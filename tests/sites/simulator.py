"""A job in FLARE's simulator: every site is a process of the same user, without certificates."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from graphcollab.sites.deploying import CLASSES
from tests.forked import interpret


def simulate(
    job: Path, sites: Sequence[str], workspace: Path, env: dict[str, str], allowed: Sequence[str] = ()
) -> subprocess.CompletedProcess:
    """Play a job to its end (15 s without training).

    Args:
        job: the job's folder.
        sites: names of the sites.
        workspace: is made; what the job's parts write is in ``server/simulate_job`` and ``<site>/simulate_job``.
        env: variables of the sites' processes beside this one's.
        allowed: as for `Deployment`.
    """
    local = workspace / "local"
    local.mkdir(parents=True)
    resources = {"format_version": 2, "class_allow_list": [*CLASSES, *allowed]}
    (local / "resources.json").write_text(json.dumps(resources))
    return interpret(Path(__file__), job, workspace, ",".join(sites), env=env)


if __name__ == "__main__":
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

    class Runner(SimulatorRunner):
        """The simulator without its 3 s for what others may still be doing in the end."""

        def run_process(self, return_dict):
            status = MainProcessMonitor.run(
                main_func=self.simulator_run_main, run_dir=self.workspace, shutdown_grace_time=0.1, cleanup_grace_time=6
            )
            return_dict["run_status"] = status

    multiprocessing.set_start_method("fork", force=True)  # as in a process that was not forked from a server
    job, workspace, names = sys.argv[1:]
    count = len(names.split(","))
    sys.exit(Runner(job_folder=job, workspace=workspace, clients=names, n_clients=count, threads=count).run())
