"""Restart of a site's killed job; it relies on undocumented parts of FLARE, and so on FLARE 2.9 only.

FLARE fails a job for all sites when the process of one is killed, and deploys a job only to the sites present at its
start. `Launcher`, in a site's own ``local/resources.json``, restarts the process instead; `Executor`, in the job,
reconnects it with the others. Both keep their state in the job's folder at the site.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReservedKey
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobReturnCode
from nvflare.apis.shareable import Shareable
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.collab.runtime.defs import SETUP_TASK_NAME, SyncKey
from nvflare.collab.runtime.executor import CollabExecutor

from graphcollab._base.errors import MissingFileError
from graphcollab.sites.flare import the_script

RUNNING = "running"  # marker file in a job's folder: the job had not ended when the client did
SETUP = "setup.json"  # what the server sent at the start
RESTARTS = 5  # per process of the client; a job that needs more is broken


class Launcher(ClientProcessJobLauncher):
    """Starts jobs at a site, and restarts killed ones, whether killed alone or together with the client."""

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: Any) -> JobHandleSpec:
        launch = super().launch_job
        running = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_run_dir(job_meta["job_id"])) / RUNNING
        running.touch()
        return _Again(lambda: launch(job_meta, fl_ctx), lambda: running.unlink(missing_ok=True))

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """At the client's start, log a missing script and restart unfinished jobs; FLARE ends those that are over."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.SYSTEM_START:
            try:
                the_script()
            except MissingFileError as error:
                self.logger.error(str(error))
            workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
            for running in sorted(Path(workspace.get_root_dir()).glob(f"*/{RUNNING}")):
                job = running.parent.name
                meta = json.loads(Path(workspace.get_job_meta_path(job)).read_text())
                said = fl_ctx.get_engine().start_app(job, meta)
                self.logger.info(f"job {job} had not ended here: {said}")


class _Again(JobHandleSpec):
    """The process of a job, restarted if a signal has ended it."""

    def __init__(self, launch: Callable[[], Any], ended: Callable[[], None]) -> None:
        super().__init__()
        self._launch, self._ended = launch, ended
        self._left, self._stopped, self._lock = RESTARTS, False, threading.Lock()
        self._now = launch()

    def terminate(self) -> None:
        with self._lock:
            self._stopped = True
            self._now.terminate()

    def poll(self) -> Any:
        return self._now.poll() if self._over() else JobReturnCode.UNKNOWN

    def wait(self) -> None:
        while not self._over():
            self._now.wait()

    def _over(self) -> bool:
        with self._lock:
            code = self._now.adapter.poll()
            if code is None:
                return False
            if code >= 0 or self._stopped or not self._left:  # a signal's code is negative
                self._ended()
                return True
            self._left -= 1
            self._now = self._launch()
            return False


class Executor(CollabExecutor):
    """Connects a site's object with the others, and reconnects it if its process was restarted."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: Any, abort_signal: Any) -> Shareable:
        """Execute a task of the server, and store the content of the setup task."""
        if task_name == SETUP_TASK_NAME:
            names = (SyncKey.COLLAB_INTERFACE, SyncKey.CLIENT_INTERFACES, SyncKey.SERVER_FQCN)
            noted = self._noted(fl_ctx)
            part = noted.with_suffix(".part")
            part.write_text(json.dumps({name: shareable[name] for name in names}))
            part.replace(noted)
        return super().execute(task_name, shareable, fl_ctx, abort_signal)

    def _handle_start_run(self, event_type: str, fl_ctx: Any) -> None:
        super()._handle_start_run(event_type, fl_ctx)
        noted = self._noted(fl_ctx)
        if noted.exists():
            told = Shareable(json.loads(noted.read_text()))
            reply = super().execute(SETUP_TASK_NAME, told, fl_ctx, fl_ctx.get_prop(ReservedKey.RUN_ABORT_SIGNAL))
            self.log_info(fl_ctx, f"connected again: {reply.get_return_code()}")

    @staticmethod
    def _noted(fl_ctx: Any) -> Path:
        return Path(fl_ctx.get_workspace().get_run_dir(fl_ctx.get_job_id())) / SETUP
