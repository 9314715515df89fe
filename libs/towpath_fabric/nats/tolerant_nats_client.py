"""Keeps a NATS connection alive whatever bytes other clients put into subjects, reply subjects and headers.

The broker forwards any bytes, and nats-py decodes them as text: one undecodable message ends its read loop for good,
and the connection looks healthy for 15 s more. Here an undecodable subject is escaped, so that its message can be set
aside; undecodable headers and reply subjects are dropped. A reply goes to an inbox and nowhere else: otherwise the
caller would choose on which subject a service publishes. Ending it takes no broker. Only clients given to
`make_tolerant` are changed.
"""

import re
from types import FunctionType

import nats.protocol.parser as nats_parser
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, ConnectionReconnectingError

from towpath_fabric.nats.cancellable_nats_client import CancellableNatsClient

_CONTROL = re.compile("[\x00-\x20\x7f-\x9f]")
_REPLY = re.compile(rb"(?:_INBOX|_R_\.|\$JS\.(?:ACK|FC)\.)[!-)+-=?-~]*")
"""Inboxes, inboxes of other accounts (the broker names them `_R_.`), and the broker's own subjects; no wildcards."""

# The broker splits a line at blanks and tabs; Python's `\s` also matches other control characters.
_MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+([0-9]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?([0-9]+)\r\n")
_HMSG_RE = re.compile(rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+([0-9]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?([0-9]+)[ \t]+([0-9]+)\r\n")


def readable_subject(subject: bytes) -> str:
    """Return *subject* as text that can be logged and stored; bytes that are no text are escaped."""
    text = subject.decode(errors="backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def usable_reply(reply: bytes) -> str:
    """Return *reply* where it is an inbox or a subject of the broker, else an empty string: no answer is sent then."""
    return reply.decode() if _REPLY.fullmatch(reply) else ""


class TolerantNatsClient(CancellableNatsClient):
    """A client that survives every message. It overrides two private methods of nats-py, which has no hook for them."""

    async def drain(self) -> None:
        """Drain the connection; where the broker is away there is nothing to drain, and it is closed.

        A service that stops after its broker did has come to its end as well: FastStream drains then, and the error
        of nats-py would look like a crash.
        """
        try:
            await super().drain()
        except (ConnectionReconnectingError, ConnectionClosedError):
            await self.close()

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            found: dict[str, str] | None = await super()._process_headers(headers)
        except (ValueError, IndexError):  # not text, or truncated
            return None
        return found

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        return self.msg_class(
            subject=readable_subject(subject),
            reply=usable_reply(reply),
            data=data,
            headers=headers,
            _client=self,
            _sid=sid,
        )


class TolerantNatsParser(nats_parser.Parser):
    """nats-py's parser with stricter patterns for the header lines of messages."""

    parse = FunctionType(
        nats_parser.Parser.parse.__code__, {**vars(nats_parser), "MSG_RE": _MSG_RE, "HMSG_RE": _HMSG_RE}
    )


def make_tolerant(client: Client) -> TolerantNatsClient:
    """Change the class of a connected *client*, before its first subscription: FastStream creates the client itself."""
    client.__class__ = TolerantNatsClient
    client._ps.__class__ = TolerantNatsParser
    assert isinstance(client, TolerantNatsClient)
    return client
