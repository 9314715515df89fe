"""Tickets: what the tool-access service signs so that a worker may run one call.

A ticket names one call by everything that matters (execution, attempt, run, tool, arguments' digest) and is
invalid for any other. Its form is `base64url(json).base64url(signature)`, unpadded; the signature (Ed25519) covers
the JSON bytes as they travel, so no canonical form is needed. The expiry limits how late a call may *start*; it is
not the replay guard, which is the claim.
"""

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ValidationError

from towpath_contracts.canonical import digest_text
from towpath_contracts.tools.tickets import TicketClaims

MAX_TICKET_CHARS = 8_192
"""A ticket has about 700 characters; a much longer text is refused without decoding."""


class TicketFault(StrEnum):
    """Why a ticket is refused."""

    MISSING = "missing"
    FORGED = "forged"
    EXPIRED = "expired"
    MISMATCH = "mismatch"
    OUTDATED = "outdated"


class TicketRefusedError(Exception):
    """The call must not run. For EXPIRED and OUTDATED the worker answers `ticket_expired`, and TAS authorises again."""

    def __init__(self, reason: TicketFault, detail: str) -> None:
        super().__init__(f"ticket refused ({reason}): {detail}")
        self.reason = reason


def public_key_text(key: Ed25519PublicKey) -> str:
    """Return the 32 raw bytes of *key* in standard base64, the form of `ToolsRegistered.ticket_keys`."""
    return base64.b64encode(key.public_bytes_raw()).decode()


def key_id_of(key: Ed25519PublicKey) -> str:
    """Return the id of *key*: the first 16 hex digits of its SHA-256, so that replicas with one key agree on it."""
    return digest_text(key.public_bytes_raw()).removeprefix("sha256:")[:16]


class TicketSigner:
    """Signs tickets with one private key."""

    def __init__(self, private_key: Ed25519PrivateKey, key_id: str | None = None) -> None:
        """Use *private_key*; without *key_id* the id is derived from the public key."""
        self._private_key = private_key
        self.key_id = key_id if key_id is not None else key_id_of(private_key.public_key())

    def public_keys(self) -> dict[str, str]:
        """Return what a verifier needs: key id to public key in base64."""
        return {self.key_id: public_key_text(self._private_key.public_key())}

    def sign(self, claims: TicketClaims) -> str:
        """Return the ticket for *claims*; raises ValueError where they name another key than this one."""
        if claims.key_id != self.key_id:
            msg = f"the claims name key {claims.key_id}, this signer has {self.key_id}"
            raise ValueError(msg)
        body = claims.model_dump_json().encode()
        return f"{_encode(body)}.{_encode(self._private_key.sign(body))}"


class TicketVerifier:
    """Checks tickets against known public keys; an unknown key id is a forgery."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        """Take key ids with public keys in base64; raises ValueError for one that is not an Ed25519 key."""
        self._keys: dict[str, Ed25519PublicKey] = {}
        self.learn(keys)

    def learn(self, keys: Mapping[str, str]) -> None:
        """Add *keys*, so that tickets of a rotated key are accepted beside those of the old one."""
        for key_id, text in keys.items():
            self._keys[key_id] = Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))

    def open(self, ticket: str) -> TicketClaims:
        """Return the claims of *ticket* after checking its signature, whatever call it is for and however old it is.

        Raises TicketRefusedError `missing` or `forged`.
        """
        if not ticket:
            raise TicketRefusedError(TicketFault.MISSING, "there is none")
        if len(ticket) > MAX_TICKET_CHARS:
            raise TicketRefusedError(TicketFault.FORGED, "it is far too long")
        head, _, tail = ticket.partition(".")
        try:
            body, signature = _decode(head), _decode(tail)
            claims = TicketClaims.model_validate_json(body)
        except (ValueError, binascii.Error, ValidationError) as error:
            raise TicketRefusedError(TicketFault.FORGED, "it can't be read") from error
        key = self._keys.get(claims.key_id)
        if key is None:
            raise TicketRefusedError(TicketFault.FORGED, f"key {claims.key_id!r} is not known")
        try:
            key.verify(signature, body)
        except InvalidSignature as error:
            raise TicketRefusedError(TicketFault.FORGED, "the signature is wrong") from error
        return claims

    def verify(
        self,
        ticket: str,
        *,
        execution_id: UUID,
        attempt: int,
        run_id: UUID,
        tool: str,
        args_digest: str,
        now: float,
        fence: int = 0,
        run_digest: str = "",
    ) -> TicketClaims:
        """Return the claims of a ticket that is good for exactly this call at *now* (seconds since the epoch).

        *run_digest* is that of what the message says of the call's run; empty where it says nothing.
        Pass *fence* where the run's current fence is known: a ticket from before it is refused as `outdated`.
        Raises TicketRefusedError.
        """
        claims = self.open(ticket)
        claimed = (
            claims.execution_id,
            claims.attempt,
            claims.run_id,
            claims.tool,
            claims.args_digest,
            claims.run_digest,
        )
        wanted = (execution_id, attempt, run_id, tool, args_digest, run_digest)
        names = ("execution_id", "attempt", "run_id", "tool", "args_digest", "run_digest")
        wrong = [name for name, one, other in zip(names, claimed, wanted, strict=True) if one != other]
        if wrong:
            raise TicketRefusedError(TicketFault.MISMATCH, f"it is for another call: {', '.join(wrong)}")
        if claims.fence < fence:
            raise TicketRefusedError(TicketFault.OUTDATED, f"its fence is {claims.fence}, the run is at {fence}")
        if now > claims.expires_at:
            raise TicketRefusedError(TicketFault.EXPIRED, f"it ended {now - claims.expires_at:.0f} s ago")
        return claims


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
