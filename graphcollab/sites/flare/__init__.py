"""Sites over NVIDIA FLARE's Collab API: the coordinator at the server, and each site's own script at its client.

A job names these two classes and brings no code: a site runs only this package, as installed there, and the file named
by the variable GRAPHCOLLAB_SITE in the environment of the site's own FLARE client (docs/deploying.md).

An error message may quote a sample, and FLARE's logs may travel: the errors of a script are written to the standard
error output of the site's own FLARE client, and nowhere else.
"""

from __future__ import annotations

import logging
import os
import runpy
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from nvflare.collab import CollabCallError, collab
from nvflare.collab.api.exceptions import RunAborted
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC

from graphcollab._base.errors import LostError, MissingFileError
from graphcollab.data._sites import in_order
from graphcollab.sites.connection import Connection
from graphcollab.sites.coordinator import Coordinator
from graphcollab.sites.delivery import Mailbox
from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.transport import connected

__all__ = ["Client", "Server"]


LOG = logging.getLogger(__name__)
SCRIPT = "GRAPHCOLLAB_SITE"  # the environment variable that names a site's own script
PAST = "graphcollab-told"  # replay log of messages outside of rounds, in the job's folder at the site
SPARE = 20.0  # seconds that a call may take beyond the coordinator's polling time
ENDED = "FLARE has ended the job, and the server's log says why: submitted again, runs go on from their checkpoints"
SEALED = "graphcollab_sealed"  # a property of messages in this process, which is never transmitted
NOT_YET = b""  # the answer before the coordinator exists: no frame, so the site asks again
TALKATIVE = (
    "nvflare.collab.runtime.cell_dispatcher.CellDispatcher",
    "nvflare.private.fed.client.communicator.Communicator",
    "nvflare.private.fed.client.fed_client.FederatedClient",
)  # FLARE's loggers that log every call


class Server:
    """The part of a job at FLARE's server: it runs a ``Coordinator`` with these settings."""

    def __init__(self, deadline: float = 60.0, at_least: int = 1) -> None:
        self.deadline, self.at_least = deadline, at_least
        self._coordinator: Coordinator | None = None

    @collab.publish
    def ask(self, content: bytes) -> bytes:
        """Answer a site, whose name FLARE has read from its certificate."""
        if self._coordinator is None:
            return NOT_YET
        try:
            return self._coordinator.answer(collab.caller, content)
        except Exception:  # FLARE would send it to the site, including the traceback
            LOG.exception("the coordinator has failed")
            return NOT_YET

    @collab.main
    def play(self) -> None:
        """Watch the sites until they have finished."""
        _quieten()
        self._coordinator = coordinator = Coordinator(_names(collab.clients), self.deadline, self.at_least)
        while not (coordinator.over or collab.is_aborted):
            coordinator.watch()
            time.sleep(0.2)
        time.sleep(2.0)  # time for the sites to read the last answers
        if coordinator.failed:
            raise LostError("run", coordinator.failed)


class Client:
    """The part of a job at FLARE's client: it runs the site's own script, with ten heartbeats per ``deadline``."""

    def __init__(self, deadline: float = 60.0) -> None:
        self.deadline = deadline
        self.sealed = True
        self._mailbox: Mailbox | None = None
        self._connection: Connection | None = None
        self._acting: threading.Thread | None = None

    @collab.init
    def begin(self) -> None:
        """Start the script in a thread beside FLARE's own work."""
        _quieten()
        self.sealed = only_sealed(collab.fl_ctx)
        folder = collab.context.app.workspace.get_run_dir(collab.fl_ctx.get_job_id())
        arguments = _Link(self, collab.context.app), Path(folder) / PAST
        self._acting = threading.Thread(target=self._act, args=arguments, name="graphcollab-site", daemon=True)
        self._acting.start()

    @collab.publish
    def push(self, content: bytes) -> str:
        """Accept a message of another site, whose name FLARE has read from its certificate."""
        return "not yet" if self._mailbox is None else self._mailbox.put(collab.caller, content)

    @collab.final
    def end(self) -> None:
        """Let the script end; it has already ended unless the job was aborted."""
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


def only_sealed(fl_ctx: Any) -> bool:
    """Refuse unencrypted messages of other sites, and return whether there are certificates for encryption.

    Encrypted messages are also signed with the sender's key; the operator of the server could send unencrypted ones in
    a site's name. A published function does not learn how a message arrived. One filter therefore records this before
    decryption, and a second one checks it before delivery: for every piece of a message, whatever message it claims to
    belong to, and also for pieces that arrive in a batch, which FLARE unpacks without calling the first filter.
    """
    core = fl_ctx.get_engine().get_cell().core_cell
    if not core.supports_secure_messages():
        return False
    known = {"server", _root(core.my_info.fqcn)}

    def note(message: Any) -> None:
        said = message.get_header
        message.set_prop(SEALED, bool(said(MessageHeaderKey.SECURE) and said(MessageHeaderKey.ENCRYPTED)))

    def refuse(message: Any) -> Message | None:
        sealed = message.get_prop(SEALED) or _root(message.get_header(MessageHeaderKey.ORIGIN)) in known
        return None if sealed else Message()

    core.add_incoming_filter(STREAM_CHANNEL, STREAM_DATA_TOPIC, note)
    core.add_incoming_request_filter(STREAM_CHANNEL, STREAM_DATA_TOPIC, refuse)
    return True


def _root(name: object) -> str:
    """Return the site in the name of a process, such as ``Bern.5``."""
    return str(name).split(".")[0]


def the_script() -> str:
    """Return the path of this site's own script; the error without one says what to do."""
    path = os.environ.get(SCRIPT, "")
    if os.access(path, os.R_OK) and Path(path).is_file():
        return path
    given = f"is {path!r}, which is no file that this user can read" if path else "is not set"
    raise MissingFileError(
        SCRIPT,
        f"{SCRIPT} {given}, so this site cannot take part in jobs: start its client with the absolute path of the "
        f"site's own script, {SCRIPT}=/srv/hearts/site.py bash startup/sub_start.sh --once",
    )
