"""Who may ask the gateway of a platform on this machine: whoever can read the token in its data folder.

The token is kept between starts, so that a script that holds it goes on. A browser gets in by a link whose code is new
at each start; the gateway removes the code when it is used. All of it is readable by its owner only.
"""

import os
import secrets
import ssl
from pathlib import Path
from urllib.parse import quote

from towpath_fabric.file_owners import write_private

TOKEN_FILE = "authorization"  # noqa: S105 - a name
SIGN_IN_FILE = "sign-in"
SESSION_FILE = "session-secret"
OPEN_TO_ALL = "TOWPATH_AUTH=off: EVERY process of this machine may approve, make keys and change the policy here"
_HEADER = "Authorization: Bearer "

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For HTTP clients of this gateway, which has no TLS: to read the certificates of all authorities takes 20 ms."""


class LocalAccess:
    """The token of the platform on *data*. *auth* is its TOWPATH_AUTH: "on" asks for keys, "off" for nothing.

    Where it asks for keys, its own terminal shows that of the environment, TOWPATH_API_KEY, as other clients here do.
    """

    def __init__(self, data: Path, auth: str) -> None:
        self.file = data / TOKEN_FILE
        self._link = data / SIGN_IN_FILE
        self._session_secret = data / SESSION_FILE
        self.asks_for_keys = auth == "on"
        self.is_open_to_all = auth == "off"
        self._key = os.environ.get("TOWPATH_API_KEY", "") if self.asks_for_keys else ""
        self._asks_for_token = not self.asks_for_keys and not self.is_open_to_all

    def prepare(self) -> None:
        """Make the token and the secret of sessions where there is none, and the code of a new link."""
        if not self._session_secret.exists():
            write_private(self._session_secret, secrets.token_urlsafe(32))
        if not self.file.exists():
            write_private(self.file, f"{_HEADER}{secrets.token_urlsafe(32)}\n")
        write_private(self._link, secrets.token_urlsafe(32))

    def gateway_settings(self) -> dict[str, str]:
        """Return what the gateway is told."""
        return {
            "TOWPATH_LOCAL_TOKEN_FILE": str(self.file),
            "TOWPATH_LOCAL_SIGN_IN_FILE": str(self._link),
            "TOWPATH_SESSION_SECRET_FILE": str(self._session_secret),
        }

    def token(self) -> str:
        """Return the token; raises OSError where none was made."""
        return self.file.read_text("ascii").removeprefix(_HEADER).strip()

    def own_keys(self) -> tuple[str, ...]:
        """Return the token, where one was made: it lets in to this platform, and to no provider."""
        return (self.token(),) if self.file.exists() else ()

    def authorization(self) -> dict[str, str]:
        """Return the header that shows the token, or the key, if one is asked for and there is one."""
        return {"Authorization": f"Bearer {shown}"} if (shown := self._credential()) else {}

    def client_url(self, gateway_url: str) -> str:
        """Return *gateway_url* with the token, or the key, as HTTP clients take it: as with `authorization`."""
        shown = quote(self._credential(), safe="")
        return gateway_url.replace("://", f"://local:{shown}@", 1) if shown else gateway_url

    def _credential(self) -> str:
        return self.token() if self._asks_for_token else self._key

    def sign_in_url(self, gateway_url: str) -> str | None:
        """Return the link that lets one browser in; None where it was used, or no token is asked for."""
        try:
            code = self._link.read_text("ascii")
        except FileNotFoundError:
            return None
        return f"{gateway_url}/sign-in?token={code}" if self._asks_for_token else None
