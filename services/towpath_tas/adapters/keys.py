"""Loads the keys that sign tickets and checkpoints: one file, one key, the same for every replica.

Only the owner may read the file; a key that others can read is refused. A key is created only on request, and never
replaces another: two processes that start at the same time end up with the same key.
"""

import base64
import binascii
import os
import stat
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

RAW_BYTES = 32


class KeyFileError(Exception):
    """The key can't be used; the message says what to do about it."""


def load_key(path: Path, *, create: bool = False, what: str = "ticket key") -> Ed25519PrivateKey:
    """Return the key in *path* (PEM, or 32 raw bytes in base64); with *create*, make one if there is none.

    *what* names the key in messages. Raises KeyFileError.
    """
    if create and not path.exists():
        _make(path)
    try:
        mode = path.stat().st_mode
        text = path.read_bytes().strip()
    except OSError as error:
        msg = f"the {what} {path} can't be read ({error.strerror}); make one: openssl genpkey -algorithm ed25519"
        raise KeyFileError(msg) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        msg = f"others may read the {what} {path}; close it: chmod 600 {path}"
        raise KeyFileError(msg)
    return _parse(text, path)


def _parse(text: bytes, path: Path) -> Ed25519PrivateKey:
    try:
        if text.startswith(b"-----BEGIN"):
            key = load_pem_private_key(text, password=None)
        else:
            key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(text, validate=True))
    except (ValueError, TypeError, binascii.Error) as error:
        msg = f"{path} holds no Ed25519 key (PEM, or {RAW_BYTES} bytes in base64)"
        raise KeyFileError(msg) from error
    if not isinstance(key, Ed25519PrivateKey):
        msg = f"{path} holds a key of another kind; it has to be Ed25519"
        raise KeyFileError(msg)
    return key


def _make(path: Path) -> None:
    """Write a new key to a temporary file and link it: `link` fails if another process was first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()) + b"\n"
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # mkstemp makes it readable by its owner only
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            return
    finally:
        Path(name).unlink()
