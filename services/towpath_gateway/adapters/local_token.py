"""The token of an embedded platform: who can read its file is the person whose platform this is.

The file holds one line, `Authorization: Bearer …`, as curl takes it (`--header @FILE`). A browser gets in by a link
that counts once, and then by a cookie; neither holds the token. What the files say is read once, at the start, when who
may change them was looked at: later another folder may lie where they were.
"""

import hashlib
import hmac
import os
from pathlib import Path

from towpath_fabric.file_owners import ROOT, read_trusted
from towpath_gateway.core.headers import sent_cookie


class LocalToken:
    """The token in *file*; raises OSError where there is none, or others may change it.

    *port* keeps the cookies of two platforms apart. *sign_in_file* holds the code of the link while it was not used:
    whoever removes the file has used it. A file that is put there later lets nobody in.
    """

    def __init__(self, file: Path, sign_in_file: Path | None, port: int) -> None:
        self._sign_in = sign_in_file
        self._token = read_trusted(file, {os.geteuid(), ROOT}).rpartition(" ")[2].strip()
        self._code_hash = _hash_in(sign_in_file)
        self._cookie = hmac.new(self._token.encode(), b"browser", hashlib.sha256).hexdigest()
        self._cookie_name = f"towpath_{port}"

    def is_shown(self, credential: str | None, cookies: str | None) -> bool:
        """Return whether a request shows the token, or without any credential the cookie of a browser."""
        if credential is not None:
            return hmac.compare_digest(credential.encode("utf-8", "replace"), self._token.encode())
        shown = sent_cookie(cookies, self._cookie_name)
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._cookie.encode())

    def sign_in(self, code: str) -> str | None:
        """Use the link up; return the `Set-Cookie` header, or None where *code* is not that of a link that counts."""
        if self._sign_in is None or self._code_hash is None:
            return None
        if not hmac.compare_digest(self._code_hash, _hash(code)):
            return None
        self._code_hash = None
        try:
            self._sign_in.unlink()  # of two gateways at once one removes it
        except FileNotFoundError:
            return None
        return f"{self._cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()


def _hash_in(file: Path | None) -> bytes | None:
    """Return the hash of the code in *file*; None where there is none that counts."""
    try:
        return None if file is None else _hash(read_trusted(file, {os.geteuid(), ROOT}))
    except (OSError, ValueError):
        return None
