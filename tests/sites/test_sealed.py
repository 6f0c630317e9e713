"""What goes from site to site is sealed: FLARE's own connections, with the server in between as the attacker."""

from __future__ import annotations

import copy
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from graphcollab.sites import job
from tests.sites.deployment import SERVER, deployment, free_port, provision
from tests.sites.hospitals import scripts, write_files

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'graphcollab[nvflare]'")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.cell_cipher import SimpleCellCipher
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey, MessageType, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.byte_receiver import RxTask
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC, StreamDataType, StreamHeaderKey
from nvflare.fuel.f3.streaming.stream_types import StreamError

from graphcollab.sites.flare import only_sealed

SENDER, READER = "Cleveland", "Hungary"
MODEL = torch.arange(300_000).sqrt().numpy().tobytes()  # more than FLARE sends in one piece
NUMBERS = itertools.count(10**6)


def of_kit(kit: Path) -> dict[str, str]:
    """The files with a site's key and certificates."""
    files = {"ca_cert": "rootCA.pem", "client_cert": "client.crt", "client_key": "client.key"}
    return {what: str(kit / "startup" / name) for what, name in files.items()}


class Line:
    """Two sites, each with its certificate, and the server between them, in this process and without sockets.

    Attributes:
        taken: What the reader has taken in, with the name of its sender.
        relayed: Pieces of messages from site to site, as the server gets them to pass on.
    """

    def __init__(self, kits: Path):
        self.kits, self.taken, self.relayed = kits, list[tuple[str, bytes]](), list[Message]()
        self._threads = ThreadPoolExecutor(8)  # a site may ask back before it goes on
        self.cells = {
            name: Cell(fqcn=name, root_url=f"tcp://{SERVER}:1", secure=True, credentials=of_kit(kits / name))
            for name in (SENDER, READER)
        }
        CoreCell.ALL_CELLS.clear()  # else they would find each other
        CoreCell.ALL_CELLS["server"] = self
        for cell in self.cells.values():
            cell.core_cell.running = True
        self.sender, self.reader = self.cells[SENDER], self.cells[READER]
        self.reader.register_request_cb(channel="collab", topic="call", cb=self._take)
        engine = SimpleNamespace(get_cell=lambda: self.reader)
        assert only_sealed(SimpleNamespace(get_engine=lambda: engine))

    def process_message(self, endpoint: Endpoint, connection: None, app_id: int, message: Message) -> None:
        """Pass a message on, as the server does."""
        to, kind = message.get_header(MessageHeaderKey.DESTINATION), message.get_header(StreamHeaderKey.DATA_TYPE)
        parts = message.payload if isinstance(message.payload, list) else [message.payload or b""]
        passed = Message(copy.deepcopy(message.headers), b"".join(parts))
        if to == READER and kind in (StreamDataType.CHUNK, StreamDataType.FINAL):
            self.relayed.append(copy.deepcopy(passed))
        core = self.cells[to].core_cell
        self._threads.submit(core.process_message, Endpoint("server"), None, app_id, passed)

    def _take(self, request: Message) -> Message:
        self.taken.append((request.get_header(MessageHeaderKey.ORIGIN), bytes(request.payload)))
        return make_reply(ReturnCode.OK)

    def send(self, content: bytes, secure: bool, seconds: float = 30.0) -> str:
        """Send something from site to site, and return what became of it."""
        asked = {"channel": "collab", "topic": "call", "target": READER, "request": Message(None, content)}
        return self.sender.send_request(**asked, timeout=seconds, secure=secure).get_header(
            MessageHeaderKey.RETURN_CODE
        )

    def deliver(self, payload: object, **headers: object) -> None:
        """Let the reader get something from the server, whatever the server says that it is."""
        usual = {
            MessageHeaderKey.MSG_TYPE: MessageType.REQ,
            MessageHeaderKey.ORIGIN: SENDER,
            MessageHeaderKey.FROM_CELL: "server",
            MessageHeaderKey.DESTINATION: READER,
            MessageHeaderKey.CHANNEL: STREAM_CHANNEL,
            MessageHeaderKey.TOPIC: STREAM_DATA_TOPIC,
        }
        message = Message({**usual, **headers}, payload)
        self.reader.core_cell.process_message(Endpoint("server"), None, CoreCell.APP_ID, message)

    def settle(self) -> list[tuple[str, bytes]]:
        """Wait until what was delivered would have been taken in, and return what was."""
        time.sleep(0.3)
        return self.taken

    def close(self) -> None:
        """End FLARE's threads: also those that wait for pieces that do not come, for five minutes otherwise."""
        CoreCell.ALL_CELLS.clear()
        for begun in [*RxTask.rx_task_map.values()]:
            begun.stop(StreamError("the test is over"), notify=False)
        self.reader.core_cell.asked_to_stop = True
        self._threads.shutdown()


def piece(size: int, sequence: int = 0, last: bool = True, channel: str = "collab") -> dict[str, object]:
    """The headers of a piece of a message of so many bytes."""
    return {
        StreamHeaderKey.STREAM_ID: next(NUMBERS),
        StreamHeaderKey.SEQUENCE: sequence,
        StreamHeaderKey.DATA_TYPE: StreamDataType.FINAL if last else StreamDataType.CHUNK,
        StreamHeaderKey.CHANNEL: channel,
        StreamHeaderKey.TOPIC: "call",
        StreamHeaderKey.PAYLOAD_ENCODING: "bytes",
        StreamHeaderKey.SIZE: size,
        StreamHeaderKey.STREAM_REQ_ID: "",
    }


SEAL = {MessageHeaderKey.SECURE: True, MessageHeaderKey.ENCRYPTED: True}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    line = Line(provision(tmp_path_factory.mktemp("project"), [SENDER, READER], free_port()))
    yield line
    line.close()


@pytest.fixture
def fresh_network(opened):
    opened.taken.clear()
    opened.relayed.clear()
    return opened


def sealed_by(kit: Path, content: bytes, to: Cell) -> bytes:
    """What is encrypted for a site, and signed with the key of a kit."""
    startup = kit / "startup"
    [what] = {path.stem for path in startup.glob("*.key")}
    root = x509.load_pem_x509_certificate((startup / "rootCA.pem").read_bytes())
    key = load_pem_private_key((startup / f"{what}.key").read_bytes(), None)
    cipher = SimpleCellCipher(root, key, x509.load_pem_x509_certificate((startup / f"{what}.crt").read_bytes()))
    cipher._validate_cert_chain = lambda chain: chain[0]  # it encrypts for anybody
    return cipher.encrypt(content, to.core_cell.credential_manager.get_local_cert_chain())


def test_what_is_sealed_comes_and_the_relay_cannot_read_it(fresh_network):
    assert fresh_network.send(b"short", secure=True) == ReturnCode.OK
    assert fresh_network.send(MODEL, secure=True) == ReturnCode.OK
    assert fresh_network.taken == [(SENDER, b"short"), (SENDER, MODEL)]
    passed = b"".join(message.payload for message in fresh_network.relayed)
    assert len(passed) > len(MODEL)
    assert not [at for at in range(0, len(MODEL), 4096) if MODEL[at : at + 32] in passed]
    assert b"short" not in passed


def test_the_relay_would_be_seen_to_read(fresh_network):
    """What the test above looks at holds a model that is not sealed; it is not taken in."""
    fresh_network.send(MODEL, secure=False, seconds=1.0)
    assert MODEL[:1000] in b"".join(message.payload for message in fresh_network.relayed)
    assert fresh_network.settle() == []


@pytest.mark.parametrize("said", [{}, {MessageHeaderKey.SECURE: True}, {MessageHeaderKey.ENCRYPTED: True}, SEAL])
def test_what_the_relay_writes_in_a_sites_name_is_refused(fresh_network, said):
    fresh_network.deliver(b"forged", **piece(6), **said)
    assert fresh_network.settle() == []


def test_what_the_server_says_for_itself_comes(fresh_network):
    """And so would what is forged, if nothing looked at it: the messages of these tests are as they should be."""
    fresh_network.deliver(b"from the server", **piece(15), **{MessageHeaderKey.ORIGIN: "server"})
    assert fresh_network.settle() == [("server", b"from the server")]


def test_many_messages_in_one_are_refused(fresh_network):
    """FLARE takes them apart past its filters of what comes in."""
    headers = {**piece(6), MessageHeaderKey.ORIGIN: SENDER}
    inside = {"target": READER, "channel": STREAM_CHANNEL, "topic": STREAM_DATA_TOPIC}
    bulk = [{**inside, "message": {"headers": headers, "payload": b"forged"}}]
    said = {MessageHeaderKey.CHANNEL: CellChannel.CELLNET, MessageHeaderKey.TOPIC: "bulk"}
    fresh_network.deliver(bulk, **said)
    time.sleep(1.0)  # it looks for such messages twice a second
    assert fresh_network.settle() == []


def test_a_piece_of_another_channel_is_no_way_in(fresh_network):
    """A sealed piece is sent once more, then others as if they belonged to something else."""
    assert fresh_network.send(b"true", secure=True) == ReturnCode.OK
    [first] = fresh_network.relayed
    fresh_network.taken.clear()
    begun = piece(len(b"true, forged"), last=False)
    fresh_network.deliver(first.payload, **begun, **SEAL, **{MessageHeaderKey.CLEAR_PAYLOAD_LEN: 4})
    rest = piece(0, sequence=1, channel=CellChannel.RETURN_ONLY)
    fresh_network.deliver(b", forged", **{**rest, StreamHeaderKey.STREAM_ID: begun[StreamHeaderKey.STREAM_ID]})
    assert fresh_network.settle() == []


def test_a_sealed_message_in_another_sites_name_is_refused(fresh_network, tmp_path, monkeypatch):
    """By the server's certificate, which is of the same project, and by one of another project in the site's name."""
    assert fresh_network.send(b"so the reader has the certificate of the sender", secure=True) == ReturnCode.OK
    fresh_network.taken.clear()
    content = b"forged"
    said = {**SEAL, MessageHeaderKey.CLEAR_PAYLOAD_LEN: len(content)}
    fresh_network.deliver(sealed_by(fresh_network.kits / SERVER, content, fresh_network.reader), **piece(6), **said)
    assert fresh_network.settle() == []
    fresh_network.deliver(sealed_by(fresh_network.kits / SENDER, content, fresh_network.reader), **piece(6), **said)
    assert fresh_network.settle() == [(SENDER, content)]  # as it would be done with the site's own key
    fresh_network.taken.clear()
    other = provision(tmp_path, [SENDER], free_port())
    known = fresh_network.reader.core_cell.credential_manager.cert_cache
    monkeypatch.setitem(known, SENDER, (other / SENDER / "startup" / "client.crt").read_bytes())  # the server's answer
    fresh_network.deliver(sealed_by(other / SENDER, content, fresh_network.reader), **piece(6), **said)
    assert fresh_network.settle() == []


def test_a_certificate_in_another_name_is_not_taken(fresh_network):
    """The relay answers that its own certificate is the site's."""
    manager = fresh_network.reader.core_cell.credential_manager
    own = (fresh_network.kits / SERVER / "startup" / "server.crt").read_bytes()
    answer = Message({MessageHeaderKey.ORIGIN: "LongBeach"}, {"cert_content": own})
    with pytest.raises(RuntimeError, match="LongBeach"):
        manager.process_response(answer)


def test_a_sealed_message_that_is_changed_is_refused(fresh_network):
    assert fresh_network.send(b"true", secure=True) == ReturnCode.OK
    [true] = fresh_network.relayed
    fresh_network.taken.clear()
    said = {**SEAL, MessageHeaderKey.CLEAR_PAYLOAD_LEN: 4}
    for at in (0, 5, 100, 400, len(true.payload) - 1):
        changed = bytearray(true.payload)
        changed[at] ^= 1
        fresh_network.deliver(bytes(changed), **piece(4), **said)
    assert fresh_network.settle() == []
    fresh_network.deliver(true.payload, **piece(4), **said)
    assert fresh_network.settle() == [(SENDER, b"true")]  # again, as it was: what is late is for the mailbox to drop


def test_without_certificates_nothing_is_sealed():
    """As in FLARE's simulator."""
    bare = SimpleNamespace(core_cell=SimpleNamespace(supports_secure_messages=lambda: False))
    engine = SimpleNamespace(get_cell=lambda: bare)
    assert not only_sealed(SimpleNamespace(get_engine=lambda: engine))


SEES = '''
"""Read by every Python process of the server: it keeps all that FLARE hands it, as it comes off the line."""
import os
from nvflare.fuel.f3.cellnet.core_cell import CoreCell

inner = CoreCell.process_message


def process_message(self, endpoint, connection, app_id, message):
    with open(f"{os.environ['SEEN']}/seen-{os.getpid()}", "ab") as file:
        file.write(bytes(message.payload or b"") + b"|")
    return inner(self, endpoint, connection, app_id, message)


CoreCell.process_message = process_message
'''

NOTES = """
from graphcollab.sites.connection import Connection

swap, tell = Connection.swap, Connection.tell


def note(name, tensors):
    with open(private / name, "ab") as file:
        for one in tensors:
            file.write(one.detach().contiguous().numpy().tobytes() + b"|end|")


def noted_swap(self, what, give, take):
    note("given", [one for some in give.values() for one in some])
    return swap(self, what, give, take)


def noted_tell(self, what, value=None, tensors=(), add=False, **said):
    if add:
        note("added", tensors)
    return tell(self, what, value, tensors, add, **said)


Connection.swap, Connection.tell = noted_swap, noted_tell
model = lambda tasks: graphcollab.build_model("mlp", tasks.input_shape, 2, hidden=16)
for method in (graphcollab.methods.l2c(), graphcollab.methods.fedavg()):
    hospital.run(method, model, rounds=3)
"""


def windows(file: Path) -> list[bytes]:
    """Pieces of what a site has noted, 64 bytes each, that hold more than zeros."""
    noted = file.read_bytes().split(b"|end|")
    pieces = [one[at : at + 64] for one in noted for at in range(0, len(one) - 63, 64)]
    return [piece for piece in pieces if len({*piece}) > 16]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_server_of_a_deployment_reads_sums_and_no_models_that_go_along_edges(tmp_path):
    patients, texts = write_files(tmp_path), scripts(NOTES)
    files = {name: {"own.csv": patients[name], "own.py": texts[name]} for name in (SENDER, READER)}
    files[SERVER] = {"sitecustomize.py": SEES}
    variables = {"GRAPHCOLLAB_SITE": "{private}/own.py"}
    with deployment((SENDER, READER), start=False, files=files, environment=variables) as deployed:
        own = deployed.server
        own.environment |= {"SEEN": str(own.private), "PYTHONPATH": f"{own.private}:{own.environment['PYTHONPATH']}"}
        deployed.start()
        status = deployed.wait(deployed.submit(job(tmp_path / "job")), 240)
        assert status == "FINISHED:COMPLETED", deployed.sites[READER].output.read_text()[-3000:]
        seen = b"".join(path.read_bytes() for path in own.private.glob("seen-*"))
        for site in deployed.sites.values():
            added, given = windows(site.private / "added"), windows(site.private / "given")
            assert len(given) > 50
            assert len(added) > 50
            assert all(piece in seen for piece in added)
            assert not [piece for piece in given if piece in seen]
