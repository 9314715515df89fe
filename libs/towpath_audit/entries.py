"""Audit entries as the leaves of the log hash them: the fields of an entry, and a commitment to its payload.

Every field is covered together with its length, so that no two entries have the same bytes. Anything that may be
personal data is in the payload, which can be erased; the entry has only its salted commitment, which discloses nothing
once salt and payload are gone.

A leaf hashes two digests: one of every field but the project, and a tag of the project salted with it. Both can be
shown of an entry that is not disclosed, and show which projects it is not of. Leaves of form 1 hash all fields at once.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from towpath_audit.merkle import leaf_hash

LEAF_FORM = 2
"""The form of leaves that are written now; 1 is read in bundles and proofs of earlier releases."""

SALT_BYTES = 16

MAX_SHORTENED_CHARS = 50_000
"""Details of a payload of which only the short members are shown; what tables keep is among these."""


class EntryError(Exception):
    """An invalid entry or payload; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogEntry:
    """One entry of the log. `at` is written by `notes.write_time`, `commitment` is hex."""

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

    def leaf_hash(self, form: int = LEAF_FORM) -> bytes:
        """Return the hash of the leaf in the given form."""
        if form == 1:
            return leaf_hash((_prefix(1) + "".join(_field(getattr(self, name)) for name in _FIELD_NAMES)).encode())
        return self.hidden().leaf_hash()

    def hidden(self) -> "HiddenEntry":
        """Return what may be shown of the entry to other projects."""
        fields_digest = hashlib.sha256(
            (_prefix(LEAF_FORM) + "".join(_field(getattr(self, name)) for name in _DIGEST_NAMES)).encode()
        ).digest()
        return HiddenEntry(fields_digest, _project_tag(fields_digest, self.project))

    def as_json(self) -> dict[str, Any]:
        """Return the entry as bundles contain it."""
        return asdict(self)

    @classmethod
    def read(cls, value: Any) -> "AuditLogEntry":
        """Parse exactly what `as_json` returns; raises EntryError."""
        if not isinstance(value, Mapping) or set(value) != set(_FIELD_NAMES):
            raise EntryError("an entry has other fields")
        for name in _FIELD_NAMES:
            if not _has_type(name, value[name]):
                raise EntryError(f"the field {name} of the entry is of another kind")
        _check_encodable(value.values())
        return cls(**value)


class HiddenEntry(NamedTuple):
    """What a leaf hashes: the digest of all fields but the project, and the project's tag.

    The digest discloses nothing, as the commitment among its fields can't be guessed; it is the salt of the tag. The
    SQL functions tas.audit_fields_digest and tas.audit_leaf_hash compute the same.
    """

    fields_digest: bytes
    project_tag: bytes

    def leaf_hash(self) -> bytes:
        return leaf_hash(_prefix(LEAF_FORM).encode() + self.fields_digest + self.project_tag)

    def is_of(self, project: str) -> bool:
        """Return whether the entry is one of *project*."""
        return self.project_tag == _project_tag(self.fields_digest, project)


def _prefix(form: int) -> str:
    return f"towpath-audit-{form}\n"


def _project_tag(fields_digest: bytes, project: str) -> bytes:
    return hashlib.sha256(fields_digest + project.encode("utf-8", "surrogatepass")).digest()


_FIELD_NAMES = tuple(field.name for field in fields(AuditLogEntry))
_DIGEST_NAMES = tuple(name for name in _FIELD_NAMES if name != "project")
_NUMBERS = frozenset({"entry_id", "policy_version"})
_OPTIONAL = frozenset({"run_id", "execution_id", "rule"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasablePayload:
    """What can be erased: the digest of the arguments and the details, under a salt of 16 random bytes."""

    salt: bytes
    args_digest: str
    detail: str

    def commitment(self) -> str:
        """Return the commitment in hex. The SQL function tas.audit_commitment computes the same."""
        return hashlib.sha256(self.salt + f"{self.args_digest}\n{self.detail}".encode()).hexdigest()

    def as_json(self) -> dict[str, str]:
        """Return the payload as bundles contain it."""
        return {"salt": self.salt.hex(), "args_digest": self.args_digest, "detail": self.detail}

    def shortened(self) -> "ErasablePayload":
        """Return the payload without the largest members of its details: what is left is compared with tables.

        It does not fit the commitment any more.
        """
        try:
            members = json.loads(self.detail)
            texts = {name: json.dumps(member) for name, member in members.items()}
        except (ValueError, AttributeError, RecursionError):
            members, texts = {}, {}
        kept, room = {}, MAX_SHORTENED_CHARS
        for name in sorted(texts, key=lambda name: len(texts[name])):
            room -= len(name) + len(texts[name])
            if room < 0:
                break
            kept[name] = members[name]
        return ErasablePayload(salt=self.salt, args_digest=self.args_digest, detail=json.dumps(kept))

    @classmethod
    def read(cls, value: Any) -> "ErasablePayload":
        """Parse what `as_json` returns; raises EntryError."""
        if not isinstance(value, Mapping) or set(value) != {"salt", "args_digest", "detail"}:
            raise EntryError("a payload has other fields")
        if not all(isinstance(field, str) for field in value.values()) or "\n" in value["args_digest"]:
            raise EntryError("a field of the payload is of another kind")
        _check_encodable(value.values())
        try:
            salt = bytes.fromhex(value["salt"])
        except ValueError as error:
            raise EntryError("the salt is not hex") from error
        if len(salt) != SALT_BYTES or salt.hex() != value["salt"]:
            raise EntryError(f"a salt has {SALT_BYTES} bytes, written in small letters")
        return cls(salt=salt, args_digest=value["args_digest"], detail=value["detail"])


def _check_encodable(values: Iterable[object]) -> None:
    """JSON can contain half of a surrogate pair, which has no UTF-8 form and which Postgres never stores."""
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
