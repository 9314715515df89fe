"""Keeps a NATS connection alive whatever other clients put into subjects, replies and headers.

The broker forwards bytes that nats-py takes for text; one message with others ends its reading for good, and the
connection looks well for 15 s more. What can't be read is made readable (subjects, so that it can be set aside) or left
out (headers, replies). An answer goes to an inbox and nowhere else: who asks would choose what a service publishes.
Only the clients that are made careful change: nats-py stays as it is for whatever else runs in the process.
"""

import re
from types import FunctionType

import nats.protocol.parser as nats_parser
from nats.aio.client import Client
from nats.aio.msg import Msg

_CONTROL = re.compile("[\x00-\x20\x7f-\x9f]")
_REPLY = re.compile(rb"(?:_INBOX|_R_\.|\$JS\.(?:ACK|FC)\.)[!-)+-=?-~]*")
"""Inboxes, those of other accounts (`_R_.`: the broker's own names for them), and its own subjects; no wildcards."""

# The broker parts a line at blanks and tabs; for Python's `\s` it also ends at other control characters.
_MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+([0-9]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?([0-9]+)\r\n")
_HMSG_RE = re.compile(rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+([0-9]+)[ \t]+(([^ \t\r\n]+)[ \t]+)?([0-9]+)[ \t]+([0-9]+)\r\n")


def readable_subject(subject: bytes) -> str:
    """Return *subject* as text that can be logged and stored: what is no text in it is escaped."""
    text = subject.decode(errors="backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def usable_reply(reply: bytes) -> str:
    """Return *reply* where it is an inbox or the broker's, else an empty string: then nobody is answered."""
    return reply.decode() if _REPLY.fullmatch(reply) else ""


class CarefulClient(Client):
    """A client that survives every message. Its two methods are nats-py's own; there is no hook for either."""

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            found: dict[str, str] | None = await super()._process_headers(headers)
        except (ValueError, IndexError):  # not text, or cut short
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


class CarefulParser(nats_parser.Parser):
    """nats-py's own parser with other patterns for the lines of messages, for the clients that have it alone."""

    parse = FunctionType(
        nats_parser.Parser.parse.__code__, {**vars(nats_parser), "MSG_RE": _MSG_RE, "HMSG_RE": _HMSG_RE}
    )


def make_careful(client: Client) -> Client:
    """Turn a connected *client* into a careful one, before its first subscription: FastStream makes its own."""
    client.__class__ = CarefulClient
    client._ps.__class__ = CarefulParser
    return client
