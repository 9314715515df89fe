"""The token of an embedded platform: who can read its file is the person whose platform this is.

The file holds one line, `Authorization: Bearer …`, as curl takes it (`--header @FILE`). A browser gets in by a link
that counts once, and then by a cookie; neither holds the token.
"""

import hashlib
import hmac
from pathlib import Path


class LocalToken:
    """The token in *file*; raises OSError where there is none. *port* keeps the cookies of two platforms apart.

    *sign_in_file* holds the code of the link while it was not used: whoever removes the file has used it.
    """

    def __init__(self, file: Path, sign_in_file: Path | None, port: int) -> None:
        self._sign_in = sign_in_file
        self._token = file.read_text("ascii").rpartition(" ")[2].strip()
        self._cookie = hmac.new(self._token.encode(), b"browser", hashlib.sha256).hexdigest()
        self._cookie_name = f"towpath_{port}"

    def is_shown(self, credential: str | None, cookies: str | None) -> bool:
        """Return whether a request shows the token, or without any credential the cookie of a browser."""
        if credential is not None:
            return hmac.compare_digest(credential.encode("utf-8", "replace"), self._token.encode())
        return hmac.compare_digest(self._sent_cookie(cookies).encode("utf-8", "replace"), self._cookie.encode())

    def sign_in(self, code: str) -> str | None:
        """Use the link up; return the `Set-Cookie` header, or None where *code* is not that of a link that counts."""
        if self._sign_in is None:
            return None
        try:
            wanted = self._sign_in.read_text("ascii")
            if not hmac.compare_digest(wanted.encode(), code.encode("utf-8", "replace")):
                return None
            self._sign_in.unlink()  # of two at once one removes it
        except FileNotFoundError:
            return None
        return f"{self._cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def _sent_cookie(self, cookies: str | None) -> str:
        """Return the value of our cookie, which is not quoted: some versions of Python take very long to unquote."""
        pairs = (pair.strip().partition("=") for pair in (cookies or "").split(";"))
        return next((value for name, _, value in pairs if name == self._cookie_name), "")
