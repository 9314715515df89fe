"""Signed notes and checkpoints, as C2SP writes them down (signed-note, tlog-checkpoint), with Ed25519.

A note is text that ends in a newline, an empty line, and one line for each signature. A checkpoint is a note that says
how large a log is and what its root is; ours adds the time as an extension line, because a log that is idle has to say
so now and then.

A note counts only under a key that the reader knows; the name and the key id on a signature only help to find it.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from towpath_audit.merkle import HASH_BYTES

ALGORITHM = b"\x01"
"""Ed25519 in C2SP's registry of signature types."""

MAX_NOTE_CHARS = 65_536
MAX_SIGNATURES = 16
"""On one note: ours, and those of witnesses. Each is tried with a key of its name."""

MAX_KEYS = 64
"""That one file brings."""

MAX_SIZE = 2**63 - 1
"""Of a log: its indexes are counted in eight bytes."""

_DASH = "\u2014 "
_SIGNATURE = re.compile(r"\u2014 (\S+) ([A-Za-z0-9+/]+={0,2})")
_NAME = re.compile(r"[^\s+]{1,128}")
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")
_TIME = "time "


class NoteError(Exception):
    """An invalid note, key or checkpoint; the message says why."""


def write_time(at: datetime) -> str:
    """Return *at* in UTC with microseconds, the one form of a time in this library."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read_time(text: str) -> datetime:
    """Return the time that `write_time` wrote; raises ValueError."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures are verified with, and its name."""

    name: str
    raw: bytes

    @property
    def key_id(self) -> bytes:
        """The four bytes before a signature that identify the key."""
        return hashlib.sha256(self.name.encode() + b"\n" + ALGORITHM + self.raw).digest()[:4]

    @property
    def fingerprint(self) -> str:
        """`sha256:<hex>` of the raw key: what people pin."""
        return "sha256:" + hashlib.sha256(self.raw).hexdigest()

    @property
    def text(self) -> str:
        """The key in C2SP's form: `name+id+key`."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(ALGORITHM + self.raw).decode()}"

    @classmethod
    def read(cls, text: str) -> "PublicKey":
        """Read what `text` wrote; raises NoteError."""
        try:
            name, key_id, encoded = text.strip().split("+", 2)
            data = base64.b64decode(encoded, validate=True)
        except (ValueError, binascii.Error) as error:
            raise NoteError("a public key has the form name+id+key") from error
        _check_encodable(name, "the name of a key")
        key = cls(name, data[1:])
        if data[:1] != ALGORITHM or len(key.raw) != HASH_BYTES or not _NAME.fullmatch(name):
            raise NoteError("this is no Ed25519 key")
        if key.key_id.hex() != key_id:
            raise NoteError(f"the key {name} does not fit its id {key_id}")
        return key

    def holds(self, signature: bytes, data: bytes) -> bool:
        """Return whether *signature* over *data* is valid under this key."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


def read_keys(texts: Sequence[str]) -> list[PublicKey]:
    """Return the keys that a file brings, each once; raises NoteError for what is none, and for too many."""
    if not isinstance(texts, list) or len(texts) > MAX_KEYS:
        raise NoteError(f"a file brings a list of at most {MAX_KEYS} keys")
    return list(dict.fromkeys(PublicKey.read(text) for text in texts))


class Signer:
    """Signs under *name* with one private key."""

    def __init__(self, name: str, key: Ed25519PrivateKey) -> None:
        """Raises NoteError for a name with white space or `+`."""
        if not _NAME.fullmatch(name):
            raise NoteError(f"a key can't be named {name!r}")
        self._key = key
        self.public = PublicKey(name, key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        """Return the signature over *data*."""
        return self._key.sign(data)

    def note(self, text: str) -> str:
        """Return *text*, which ends in a newline, as a signed note."""
        signature = base64.b64encode(self.public.key_id + self.sign(text.encode())).decode()
        return f"{text}\n{_DASH}{self.public.name} {signature}\n"


def open_note(note: str, keys: Sequence[PublicKey]) -> tuple[str, PublicKey]:
    """Return the text of *note* and which of *keys* signed it; raises NoteError where none has."""
    text, mark, tail = note.rpartition("\n\n")
    if not mark or len(note) > MAX_NOTE_CHARS or not tail.endswith("\n"):
        raise NoteError("this is no signed note")
    text += "\n"
    _check_encodable(note, "a note")
    lines = tail.splitlines()
    if len(lines) > MAX_SIGNATURES:
        raise NoteError(f"a note has at most {MAX_SIGNATURES} signatures")
    signatures = [_SIGNATURE.fullmatch(line) for line in lines]
    if not all(signatures):
        raise NoteError("a signature line can't be read")
    for found in filter(None, signatures):
        for key in keys:
            if key.name == found.group(1) and _signs(key, found.group(2), text):
                return text, key
    raise NoteError("no known key has signed it")


def _check_encodable(text: str, what: str) -> None:
    """Raise NoteError for a text that nobody can have signed: JSON may hold half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NoteError(f"{what} has a character that can't be written") from error


def _signs(key: PublicKey, encoded: str, text: str) -> bool:
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return False
    return data[:4] == key.key_id and key.holds(data[4:], text.encode())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How large a log was and what its root was at a time; `at` is None where a foreign checkpoint does not say."""

    origin: str
    size: int
    root: bytes
    at: datetime | None = None

    def text(self) -> str:
        """Return what is signed."""
        head = f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"
        return head if self.at is None else f"{head}{_TIME}{write_time(self.at)}\n"

    @classmethod
    def read(cls, text: str) -> "Checkpoint":
        """Read the text of a note; raises NoteError."""
        lines = text.split("\n")
        if len(lines) < 4 or lines[-1] or not lines[0] or not _SIZE.fullmatch(lines[1]):
            raise NoteError("this is no checkpoint")
        times = [line.removeprefix(_TIME) for line in lines[3:-1] if line.startswith(_TIME)]
        try:
            root = base64.b64decode(lines[2], validate=True)
            at = read_time(times[0]) if times else None
        except (ValueError, binascii.Error) as error:
            raise NoteError("the root or the time of the checkpoint can't be read") from error
        if len(root) != HASH_BYTES or int(lines[1]) > MAX_SIZE:
            raise NoteError("the root or the size of the checkpoint is none")
        return cls(lines[0], int(lines[1]), root, at)


def split_notes(text: str) -> Iterator[str]:
    """Yield the notes of a file that holds one after the other, with empty lines between them or not."""
    lines: list[str] = []
    signed = False
    for line in text.splitlines():
        if signed and not line.startswith(_DASH):
            yield "\n".join(lines) + "\n"
            lines, signed = [], False
        if lines or line:  # an empty line before a note belongs to none
            lines.append(line)
        signed = signed or line.startswith(_DASH)
    if lines and any(lines):
        yield "\n".join(lines) + "\n"
