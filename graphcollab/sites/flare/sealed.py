"""`only_sealed`: nothing is taken from another site that the server in between could have written."""

from __future__ import annotations

from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC

SEALED = "graphcollab_sealed"  # a property of messages in this process, which does not travel with them


def only_sealed(fl_ctx: Any) -> bool:
    """Refuse what other sites send unencrypted, and return whether there are certificates to encrypt for.

    What is encrypted is also signed with the sender's key; what is not, the operator of the server could send in a
    site's name. A published function is not told how a message came, so it is noted here before it is decrypted, and
    looked at when it is about to be delivered: for every piece of a message, whatever it says of what it belongs to,
    and also for those that come many in one, which FLARE takes apart without asking the first filter.
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
    """Return the site of a name such as ``Bern.5``, of a process of its."""
    return str(name).split(".")[0]
