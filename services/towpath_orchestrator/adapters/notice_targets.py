"""Mailboxes and channels of chats that are told of gates, as the operator's file names them.

Addresses come from that file and from nowhere else. The password of the mail server and the address of a channel, which
is a secret, are named there and never written; neither ever stands in a table, a log or an error.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from towpath_contracts.base import ClientMessage, ClientMessagePart
from towpath_contracts.canonical import digest_text
from towpath_orchestrator.adapters.webhooks import (
    LOOPBACK,
    MAX_URL_CHARS,
    Glob,
    ReceiverName,
    address_faults,
    load_webhooks,
    read_notice_file,
    referenced,
    refuse_file,
)
from towpath_orchestrator.core.notice_text import TextReceiver
from towpath_orchestrator.core.webhook_notices import Webhook

PORTS = {"starttls": 587, "tls": 465, "none": 25}
"""Where a mail server listens, by how it is spoken to."""

NAME_DIGITS = 8
"""Of the digest of an address."""

MAX_TEXT_RECEIVERS = 50
"""Mailboxes and channels in all: each has a loop of its own."""

Address = Annotated[
    str, StringConstraints(pattern=r"^[^\s<>,;:\"()\[\]\\@-][^\s<>,;:\"()\[\]\\@]*@[A-Za-z0-9.-]+$", max_length=254)
]


class SmtpEntry(ClientMessagePart):
    """The mail server. `password` is `env:NAME` or `file:PATH`."""

    host: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.:_-]+$", max_length=253)]
    port: int | None = Field(default=None, ge=1, le=65_535)
    tls: Literal["starttls", "tls", "none"] = "starttls"
    plain_smtp: bool = False
    user: Annotated[str, StringConstraints(min_length=1, max_length=254)] | None = None
    password: str | None = None
    sender: Address = Field(alias="from")


class TargetEntry(ClientMessagePart):
    """Who is told: `email` lists addresses, `chat` names an incoming webhook as `env:NAME` or `file:PATH`."""

    name: ReceiverName
    email: tuple[Address, ...] = Field(default=(), max_length=MAX_TEXT_RECEIVERS)
    chat: str | None = None
    projects: tuple[Glob, ...] = ("*",)
    arguments: bool = True
    plain_http: bool = False


class ApprovalNoticesFile(ClientMessage):
    """The file: `smtp: {…}`, and `targets: […]`."""

    smtp: SmtpEntry | None = None
    targets: tuple[TargetEntry, ...] = Field(default=(), max_length=MAX_TEXT_RECEIVERS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MailServer:
    """Where e-mails are handed over."""

    host: str
    port: int
    tls: str
    user: str | None
    password: str | None
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Mailbox(TextReceiver):
    """One address that is told by e-mail."""

    address: str
    server: MailServer


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ChatChannel(TextReceiver):
    """One channel that is told through its incoming webhook."""

    url: str


Receiver = Webhook | Mailbox | ChatChannel


def address_name(target: str, address: str) -> str:
    """Return the name of one of several addresses of *target*: the same wherever it stands, and not the address."""
    return f"{target}/{digest_text(address.casefold()).removeprefix('sha256:')[:NAME_DIGITS]}"


def load_receivers(
    webhooks: Path | None, notices: Path | None, environment: Mapping[str, str] | None = None
) -> tuple[Receiver, ...]:
    """Read the operator's files; raises ValueError with everything that is wrong with one, without any secret."""
    told: tuple[Receiver, ...] = () if webhooks is None else load_webhooks(webhooks, environment)
    if notices is None:
        return told
    known = os.environ if environment is None else environment  # noqa: TID251 - the file names variables, not settings
    written = read_notice_file(notices, ApprovalNoticesFile)
    problems: list[str] = []
    server = None if written.smtp is None else _server(written.smtp, known, problems)
    found = [one for entry in written.targets for one in _receivers(entry, server, known, problems)]
    if written.smtp is None and any(entry.email for entry in written.targets):
        problems.append("smtp: e-mails need a server")
    names = [entry.name for entry in written.targets] + [webhook.name for webhook in told]
    problems += [f"{name}: named twice" for name in sorted({name for name in names if names.count(name) > 1})]
    if len(found) > MAX_TEXT_RECEIVERS:
        problems.append(f"targets: {len(found)} addresses and channels, and {MAX_TEXT_RECEIVERS} are possible")
    refuse_file(notices, problems)
    return (*told, *found)


def _server(entry: SmtpEntry, environment: Mapping[str, str], problems: list[str]) -> MailServer:
    if entry.tls == "none" and entry.host not in LOOPBACK and not entry.plain_smtp:
        problems.append("smtp: it would be spoken to without TLS; say plain_smtp: true where that is meant")
    if (entry.user is None) != (entry.password is None):
        problems.append("smtp: a user needs a password, and a password a user")
    password = None
    if entry.password is not None:
        try:
            password = referenced(entry.password, environment).strip()
        except ValueError as error:
            problems.append(f"smtp: {error}")
    port = entry.port or PORTS[entry.tls]
    return MailServer(
        host=entry.host, port=port, tls=entry.tls, user=entry.user, password=password, sender=entry.sender
    )


def _receivers(
    entry: TargetEntry, server: MailServer | None, environment: Mapping[str, str], problems: list[str]
) -> Iterator[Receiver]:
    """Yield a receiver for each address: what one mailbox refuses must not be sent to the others again."""
    if bool(entry.email) == (entry.chat is not None):
        problems.append(f"{entry.name}: it needs email or chat, and not both")
    elif entry.chat is not None:
        try:
            url = referenced(entry.chat, environment).strip()
        except ValueError as error:
            problems.append(f"{entry.name}: {error}")
            return
        problems += [f"{entry.name}: {fault}" for fault in address_faults(url, plain_http=entry.plain_http)]
        if len(url) > MAX_URL_CHARS:
            problems.append(f"{entry.name}: the url is too long")
        yield ChatChannel(name=entry.name, projects=entry.projects, shows_arguments=entry.arguments, url=url)
    elif server is not None:
        names = [address_name(entry.name, address) for address in entry.email]
        problems += [f"{entry.name}: an address stands twice" for _ in range(len(names) - len(set(names)))][:1]
        for name, address in zip(names if len(names) > 1 else [entry.name], entry.email, strict=True):
            yield Mailbox(
                name=name, projects=entry.projects, shows_arguments=entry.arguments, address=address, server=server
            )
