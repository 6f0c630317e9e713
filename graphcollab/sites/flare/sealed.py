"""`only_sealed`: nothing is taken from another site that the server in between could have written."""

from __future__ import annotations

from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC, StreamHeaderKey

__all__ = ["only_sealed"]


def only_sealed(fl_ctx: Any) -> bool:
    """Refuse what other sites send unencrypted, and return whether there are certificates to encrypt for.

    What is encrypted is also signed with the sender's key. What is not, the operator of the server could send in a
    site's name: a published function is not told how a message came, so it is looked at here, before it is decrypted.

    Args:
        fl_ctx: FLARE's context of the job.
    """
    core = fl_ctx.get_engine().get_cell().core_cell
    if not core.supports_secure_messages():
        return False

    def refuse(message: Any) -> Message | None:
        said = message.get_header
        to_here = said(StreamHeaderKey.CHANNEL) == "collab" and said(MessageHeaderKey.DESTINATION) == core.my_info.fqcn
        if not to_here or str(said(MessageHeaderKey.ORIGIN)).split(".")[0] == "server":
            return None
        return None if said(MessageHeaderKey.SECURE) and said(MessageHeaderKey.ENCRYPTED) else Message()

    core.add_incoming_filter(STREAM_CHANNEL, STREAM_DATA_TOPIC, refuse)
    return True
