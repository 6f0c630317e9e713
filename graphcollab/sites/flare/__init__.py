"""Sites over NVIDIA FLARE's Collab API: the coordinator at its server, and a site's own script at each of its clients.

A job names these two classes and brings no code: what runs at a site is this package as it is installed there, and the
file that the variable GRAPHCOLLAB_SITE names in the environment of the site's own FLARE client (docs/deploying.md).

What an error says may quote a sample, and FLARE's logs may travel: what has gone wrong in a script is written to the
standard error output of the site's own FLARE client, and nowhere else.
"""

from __future__ import annotations

import logging
import runpy
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from nvflare.collab import CollabCallError, collab
from nvflare.collab.api.exceptions import RunAborted

from graphcollab.errors import LostError, MissingFileError
from graphcollab.sites.connection import Connection
from graphcollab.sites.coordinator import Coordinator
from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.flare.script import SCRIPT, the_script
from graphcollab.sites.flare.sealed import only_sealed
from graphcollab.sites.gathering import connected
from graphcollab.sites.mailbox import Mailbox
from graphcollab.tasks._sites import in_order

__all__ = ["Client", "Server"]

LOG = logging.getLogger(__name__)
PAST = "graphcollab-told"  # what was told before the first round, in the job's folder at the site
SPARE = 20.0  # seconds that a call may take beyond those for which the coordinator lets it wait
ENDED = "FLARE has ended the job, and the server's log says why: submitted again, runs go on from their checkpoints"
NOT_YET = b""  # what a coordinator says that is not there yet: no frame, so it is asked again
TALKATIVE = (
    "nvflare.collab.runtime.cell_dispatcher.CellDispatcher",
    "nvflare.private.fed.client.communicator.Communicator",
    "nvflare.private.fed.client.fed_client.FederatedClient",
)  # FLARE's loggers that write lines for every call


class Server:
    """What FLARE's server does in a job: it lets the sites meet, as a ``Coordinator`` with these settings."""

    def __init__(self, deadline: float = 60.0, at_least: int = 1) -> None:
        self.deadline, self.at_least = deadline, at_least
        self._coordinator: Coordinator | None = None

    @collab.publish
    def ask(self, content: bytes) -> bytes:
        """Answer a site, whose name FLARE has read off its certificate."""
        if self._coordinator is None:
            return NOT_YET
        try:
            return self._coordinator.answer(collab.caller, content)
        except Exception:  # which FLARE would send to the site, traceback and all
            LOG.exception("the coordinator has failed")
            return NOT_YET

    @collab.main
    def play(self) -> None:
        """Watch over the sites until they have come to the end."""
        _quieten()
        self._coordinator = coordinator = Coordinator(_names(collab.clients), self.deadline, self.at_least)
        while not (coordinator.over or collab.is_aborted):
            coordinator.watch()
            time.sleep(0.2)
        time.sleep(2.0)  # in which the sites read the last answers
        if coordinator.failed:
            raise LostError("run", coordinator.failed)


class Client:
    """What FLARE's client does in a job: it runs the site's own script, with ten signs of life in every ``deadline``.

    What goes from site to site is encrypted for the other site, past the server that relays it, wherever sites have
    certificates (FLARE's simulator has none), and nothing else is taken from other sites then.
    """

    def __init__(self, deadline: float = 60.0) -> None:
        self.deadline = deadline
        self.sealed = True
        self._mailbox: Mailbox | None = None
        self._connection: Connection | None = None
        self._acting: threading.Thread | None = None

    @collab.init
    def begin(self) -> None:
        """Start the script, which goes on beside FLARE's own work."""
        _quieten()
        self.sealed = only_sealed(collab.fl_ctx)
        folder = collab.context.app.workspace.get_run_dir(collab.fl_ctx.get_job_id())
        arguments = _Link(self, collab.context.app), Path(folder) / PAST
        self._acting = threading.Thread(target=self._act, args=arguments, name="graphcollab-site", daemon=True)
        self._acting.start()

    @collab.publish
    def push(self, content: bytes) -> str:
        """Take a message of another site in, whose name FLARE has read off its certificate."""
        return "not yet" if self._mailbox is None else self._mailbox.put(collab.caller, content)

    @collab.final
    def end(self) -> None:
        """Let the script end, which has done so unless the job was aborted."""
        if self._acting is not None:
            if self._connection is not None:
                self._connection.delivery.close(ENDED)
            self._acting.join(10.0)

    def _act(self, link: _Link, past: Path) -> None:
        try:
            self._connection = connection = Connection(link, beat=self.deadline / 10, past=past)
        except SiteLostError as error:
            return LOG.error("the script was not begun: %s", error)
        except OSError:
            traceback.print_exc()
            return LOG.error("the script was not begun: nothing can be written to %s", past.parent)
        try:
            path = the_script()
        except MissingFileError as error:
            LOG.error("%s", error)
            return connection.leave(f"has no script to run, as its client's log says ({SCRIPT})")
        connection.folder = Path(path).parent
        try:
            with connected(connection):
                runpy.run_path(path, run_name="__main__")
        except BaseException as error:
            LOG.error("%s has failed with a %s; standard error says why", path, type(error).__name__)
            traceback.print_exception(error)
            connection.leave(error)
        else:
            connection.finish()


class _Link:
    """FLARE's calls as a `Link`."""

    def __init__(self, client: Client, app: Any) -> None:
        self.client, self.app = client, app
        self.name: str = app.name
        self.sites = _names(app.client_proxies)
        self._others = {one.name: one for one in app.client_proxies}

    def open(self, mailbox: Mailbox) -> None:
        self.client._mailbox = mailbox

    def ask(self, content: bytes) -> bytes:
        reply: bytes = _call(self.app.server_proxy(timeout=Coordinator.POLL + SPARE).ask, content)
        return reply

    def push(self, to: str, content: bytes) -> str:
        reply: str = _call(self._others[to](timeout=60.0, secure=self.client.sealed).push, content)
        return reply


def _call(function: Any, content: bytes) -> Any:
    try:
        return function(content)
    except RunAborted:
        raise SiteLostError("job", ENDED) from None
    except (CollabCallError, RuntimeError) as error:  # RuntimeError: the job is ending
        raise ConnectionError(str(error)) from error


def _names(clients: Any) -> tuple[str, ...]:
    names = [one.name for one in clients]
    return tuple(names[k] for k in in_order(names))


def _quieten() -> None:
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)
