"""Hands one notice over: to a webhook, to a channel of a chat, to a mail server. Says whether it was taken.

No redirect is followed, no answer is read, and no error repeats an address or what a server said: both may be secrets.
"""

from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING, NamedTuple

from towpath_contracts.canonical import canonical_json
from towpath_fabric.clock import NS, wall_ns
from towpath_orchestrator.adapters.notice_targets import ChatChannel, Mailbox
from towpath_orchestrator.adapters.webhooks import signed_headers
from towpath_orchestrator.core.notice_text import NoticeText, chat_message, mail_body
from towpath_orchestrator.core.webhook_notices import GONE, Webhook

if TYPE_CHECKING:
    import httpx2

PERMANENT = 500
"""A mail server's refusals from here on are for good."""


class Handover(NamedTuple):
    """What became of one try: `gone` where no other will do better, `obsolete` where there is nothing to tell."""

    taken: bool
    gone: bool = False
    error: str = ""
    obsolete: bool = False


async def post_webhook(http: "httpx2.AsyncClient", webhook: Webhook, message_id: str, body: bytes) -> Handover:
    """Post a signed notice."""
    return await _post(http, webhook.url, body, signed_headers(webhook, message_id, wall_ns() // NS, body))


async def post_chat(http: "httpx2.AsyncClient", channel: ChatChannel, text: NoticeText) -> Handover:
    """Post a message to a channel."""
    body = canonical_json(chat_message(text)).encode()
    return await _post(http, channel.url, body, {"content-type": "application/json"})


async def _post(http: "httpx2.AsyncClient", url: str, body: bytes, headers: dict[str, str]) -> Handover:
    import httpx2  # noqa: PLC0415 - only a platform with receivers sends requests

    try:
        async with http.stream("POST", url, content=body, headers=headers) as answer:
            if answer.is_success:
                return Handover(True)
            return Handover(False, answer.status_code == GONE, f"it answered {answer.status_code}")
    except (httpx2.HTTPError, httpx2.InvalidURL) as failure:
        return Handover(False, error=type(failure).__name__)


def mail(mailbox: Mailbox, message_id: str, text: NoticeText, at: datetime) -> EmailMessage:
    """Return the e-mail; its id is the same at every try, so that a mailbox may drop a repetition."""
    message = EmailMessage(policy=SMTP)
    message["From"] = mailbox.server.sender
    message["To"] = mailbox.address
    message["Subject"] = text.subject
    message["Date"] = format_datetime(at)
    message["Message-ID"] = f"<{message_id}@{mailbox.server.sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail_body(text), charset="utf-8")
    return message


async def send_mail(mailbox: Mailbox, message_id: str, text: NoticeText, try_s: float) -> Handover:
    """Hand an e-mail to the mail server."""
    import aiosmtplib  # noqa: PLC0415 - only a platform that sends e-mails needs it

    server = mailbox.server
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        use_tls=server.tls == "tls",
        start_tls=server.tls == "starttls",
        local_hostname="towpath",
        timeout=try_s,
    )
    try:
        message = mail(mailbox, message_id, text, datetime.fromtimestamp(wall_ns() // NS, UTC))
        await client.connect()
        await client.send_message(message, sender=server.sender, recipients=[mailbox.address])
    except aiosmtplib.SMTPRecipientsRefused as refusal:
        codes = [one.code for one in refusal.recipients]
        return Handover(False, min(codes) >= PERMANENT, f"the address was refused with {max(codes)}")
    except aiosmtplib.SMTPResponseException as failure:
        return Handover(False, error=f"it answered {failure.code}")
    except (aiosmtplib.SMTPException, OSError, ValueError) as failure:
        return Handover(False, error=type(failure).__name__)
    finally:
        # Without a QUIT: a server that does not answer that would hold up a stop, and an e-mail that it has taken would
        # pass for one that it has not, and be sent again.
        client.close()
    return Handover(True)
