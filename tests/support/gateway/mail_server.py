"""A real mail server on a free port, which keeps what it is given and answers as a test wants."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

OK = "250 OK"


class MailServer:
    """What it was given, and with what it answers a recipient."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self.answer = OK
        self.answers_goodbye = asyncio.Event()
        self.answers_goodbye.set()

    async def handle_QUIT(self, _server: SMTP, _session: Session, _envelope: Envelope) -> str:  # noqa: N802 - named by aiosmtpd
        await self.answers_goodbye.wait()
        return "221 Bye"

    async def handle_RCPT(  # noqa: N802 - named by aiosmtpd
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self.answer == OK:
            envelope.rcpt_tos.append(address)
        return self.answer

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - so, too
        content = envelope.content
        assert isinstance(content, bytes)
        mail = BytesParser(policy=default).parsebytes(content)
        assert isinstance(mail, EmailMessage)
        self.received.append(mail)
        self.recipients += envelope.rcpt_tos
        return OK

    def login(self, _server: SMTP, _session: Session, _envelope: Envelope, _how: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        self.logins.append((given.login, given.password))
        return AuthResult(success=True)


@asynccontextmanager
async def mail_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[MailServer]:
    """Serve until the block ends; with *tls* only after STARTTLS and a login."""
    served = MailServer()
    demands: dict[str, Any] = (
        {}
        if tls is None
        else {"tls_context": tls, "require_starttls": True, "auth_required": True, "authenticator": served.login}
    )
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(served, hostname="mail.test", loop=loop, **demands), "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        await server.wait_closed()
