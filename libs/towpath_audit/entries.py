"""What a leaf of the log is the hash of: the fields of an entry, and a commitment to what may be erased.

Every field is covered, each with its length, so that no two entries have the same bytes. Whatever may hold
personal data lies in the payload; the entry holds only its salted commitment, which tells nothing once salt and payload
are gone.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from towpath_audit.merkle import leaf_hash

FORMAT = "towpath-audit-1"
SALT_BYTES = 16


class EntryError(Exception):
    """An entry or a payload is not one; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One entry as the log covers it. `at` is written by `notes.write_time`, `commitment` is hex."""

    entry_id: int
    at: str
    project: str
    run_id: str | None
    execution_id: str | None
    phase: str
    verdict: str
    tool: str
    operation: str
    network: str
    agent_key: str
    caller: str
    actor: str
    rule: str | None
    policy_version: int
    commitment: str

    def leaf_bytes(self) -> bytes:
        """Return what the leaf hashes. The SQL function tas.audit_leaf_hash makes the same bytes."""
        return (FORMAT + "\n" + "".join(_field(getattr(self, name)) for name in _FIELD_NAMES)).encode()

    def leaf_hash(self) -> bytes:
        """Return the hash of this entry's leaf."""
        return leaf_hash(self.leaf_bytes())

    def as_json(self) -> dict[str, Any]:
        """Return the entry as a bundle writes it."""
        return asdict(self)

    @classmethod
    def read(cls, said: Any) -> "LogEntry":
        """Read what `as_json` wrote, exactly that; raises EntryError."""
        if not isinstance(said, Mapping) or set(said) != set(_FIELD_NAMES):
            raise EntryError("an entry has other fields")
        for name in _FIELD_NAMES:
            if not _has_type(name, said[name]):
                raise EntryError(f"the field {name} of the entry is of another kind")
        _check_encodable(said.values())
        return cls(**said)


_FIELD_NAMES = tuple(field.name for field in fields(LogEntry))
_NUMBERS = frozenset({"entry_id", "policy_version"})
_OPTIONAL = frozenset({"run_id", "execution_id", "rule"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPayload:
    """What can be erased: the digest of the arguments and the details, under a salt of 16 random bytes."""

    salt: bytes
    args_digest: str
    detail: str

    def commitment(self) -> str:
        """Return the commitment, in hex. The SQL function tas.audit_commitment makes the same."""
        return hashlib.sha256(self.salt + f"{self.args_digest}\n{self.detail}".encode()).hexdigest()

    def as_json(self) -> dict[str, str]:
        """Return the payload as a bundle writes it."""
        return {"salt": self.salt.hex(), "args_digest": self.args_digest, "detail": self.detail}

    @classmethod
    def read(cls, said: Any) -> "EntryPayload":
        """Read what `as_json` wrote; raises EntryError."""
        if not isinstance(said, Mapping) or set(said) != {"salt", "args_digest", "detail"}:
            raise EntryError("a payload has other fields")
        if not all(isinstance(value, str) for value in said.values()) or "\n" in said["args_digest"]:
            raise EntryError("a field of the payload is of another kind")
        _check_encodable(said.values())
        try:
            salt = bytes.fromhex(said["salt"])
        except ValueError as error:
            raise EntryError("the salt is not hex") from error
        if len(salt) != SALT_BYTES or salt.hex() != said["salt"]:
            raise EntryError(f"a salt has {SALT_BYTES} bytes, written in small letters")
        return cls(salt=salt, args_digest=said["args_digest"], detail=said["detail"])


def _check_encodable(values: Iterable[object]) -> None:
    """JSON can spell half a character, which has no bytes and which Postgres would never have stored."""
    try:
        "".join(value for value in values if isinstance(value, str)).encode()
    except UnicodeEncodeError as error:
        raise EntryError("a field is no text") from error


def _field(value: str | int | None) -> str:
    if value is None:
        return "-\n"
    text = str(value)
    return f"{len(text.encode())}:{text}\n"


def _has_type(name: str, value: Any) -> bool:
    if name in _NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) or (value is None and name in _OPTIONAL)
