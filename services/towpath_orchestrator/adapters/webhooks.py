"""Webhooks as the operator's file names them, and the signature of what they receive (standardwebhooks.com).

Addresses come from the operator's file and from nowhere else; a secret is named there and never written. Neither
ever stands in a table, a log or an error.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, ValidationError

from towpath_contracts.base import ClientMessage, ClientMessagePart
from towpath_contracts.events.cloud_events import EVENT_TYPE
from towpath_contracts.gate_notices import NoticeKind
from towpath_contracts.problems.input_faults import located_message
from towpath_orchestrator.core.webhook_notices import NoticeFormat, Webhook

MIN_SECRET_BYTES = 24
"""What the specification asks for; less could be guessed."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

MAX_URL_CHARS = 2_000

Glob = Annotated[str, StringConstraints(min_length=1, max_length=64)]
ReceiverName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]

NoticeFile = TypeVar("NoticeFile", bound=ClientMessage)


class WebhookEntry(ClientMessagePart):
    """One entry of the file. `secret` is `env:NAME` or `file:PATH`; with several the first one is the newest."""

    name: ReceiverName
    url: Annotated[str, StringConstraints(max_length=MAX_URL_CHARS)]
    secret: str | tuple[str, ...]
    projects: tuple[Glob, ...] = ("*",)
    kinds: tuple[NoticeKind, ...] = ("gate.opened", "gate.closed")
    plain_http: bool = False
    format: NoticeFormat = "standard"


class WebhookFile(ClientMessage):
    """The file: `webhooks: […]`."""

    webhooks: tuple[WebhookEntry, ...] = Field(default=(), max_length=50)


def load_webhooks(path: Path, environment: Mapping[str, str] | None = None) -> tuple[Webhook, ...]:
    """Read the operator's file; raises ValueError with everything that is wrong with it, without any secret."""
    known = os.environ if environment is None else environment  # noqa: TID251 - the file names variables, not settings
    written = read_notice_file(path, WebhookFile)
    problems: list[str] = []
    found = [_webhook(entry, known, problems) for entry in written.webhooks]
    names = [entry.name for entry in written.webhooks]
    problems += [f"{name}: named twice" for name in sorted({name for name in names if names.count(name) > 1})]
    refuse_file(path, problems)
    return tuple(found)


def read_notice_file(path: Path, kind: type[NoticeFile]) -> NoticeFile:
    """Read a file of the operator's as *kind*; raises ValueError without repeating what was written."""
    import yaml  # noqa: PLC0415 - only for operators who have such a file

    try:
        return kind.model_validate(yaml.safe_load(path.read_text("utf-8")) or {})
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        msg = f"{path} can't be read: {type(error).__name__}"
        raise ValueError(msg) from error
    except ValidationError as error:
        wrong = "; ".join(located_message(one, "the file") for one in error.errors())
        msg = f"{path}: {wrong}"
        raise ValueError(msg) from None  # the cause would repeat what was written


def refuse_file(path: Path, problems: Sequence[str]) -> None:
    """Raise ValueError where something is wrong with what the file at *path* names."""
    if problems:
        msg = f"{path}: {'; '.join(problems)}"
        raise ValueError(msg)


def _webhook(entry: WebhookEntry, environment: Mapping[str, str], problems: list[str]) -> Webhook:
    problems += [f"{entry.name}: {fault}" for fault in address_faults(entry.url, plain_http=entry.plain_http)]
    references = (entry.secret,) if isinstance(entry.secret, str) else entry.secret
    secrets = []
    for reference in references:
        try:
            secrets.append(secret_bytes(referenced(reference, environment)))
        except ValueError as error:
            problems.append(f"{entry.name}: {error}")
    if not references:
        problems.append(f"{entry.name}: it has no secret")
    return Webhook(
        name=entry.name,
        url=entry.url,
        secrets=tuple(secrets),
        projects=entry.projects,
        kinds=tuple(entry.kinds),
        format=entry.format,
    )


def address_faults(url: str, *, plain_http: bool) -> list[str]:
    """Return what is wrong with where a notice would go, without repeating it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return ["the url can't be read"]
    faults = []
    if parts.scheme not in {"http", "https"} or not host:
        faults.append("the url needs https:// and a host")
    if parts.scheme == "http" and host not in LOOPBACK and not plain_http:
        faults.append("the url is not https; say plain_http: true where that is meant")
    if parts.username is not None or parts.password is not None:
        faults.append("a url holds no user and no password")
    return faults


def referenced(reference: str, environment: Mapping[str, str]) -> str:
    """Return what *reference* names; errors never repeat it, for somebody may have written the secret itself."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        if name not in environment:
            msg = "the variable of its secret is not set"
            raise ValueError(msg)
        return environment[name]
    if kind == "file":
        try:
            return Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"the file of its secret can't be read ({type(error).__name__})"
            raise ValueError(msg) from error
    msg = "a secret is named as env:NAME or file:PATH"
    raise ValueError(msg)


def secret_bytes(text: str) -> bytes:
    """Return the key that a secret stands for: `whsec_` and base64, or the text itself; raises ValueError."""
    written = text.strip()
    try:
        key = base64.b64decode(written[6:], validate=True) if written.startswith("whsec_") else written.encode()
    except ValueError:
        msg = "what follows whsec_ in its secret is not base64"
        raise ValueError(msg) from None
    if len(key) < MIN_SECRET_BYTES:
        msg = f"its secret has fewer than {MIN_SECRET_BYTES} bytes"
        raise ValueError(msg)
    return key


def signed_headers(webhook: Webhook, message_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove to the receiver who sent *body*, and when; one signature for every secret."""
    content = f"{message_id}.{at_s}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in webhook.secrets]
    return {
        "content-type": EVENT_TYPE if webhook.format == "cloudevents" else "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
