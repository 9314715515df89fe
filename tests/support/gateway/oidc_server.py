"""A small OpenID Connect provider on this machine: it knows one person, and says of them what a test wants."""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.gateway.web import Asked, Web, response

KEY = ec.generate_private_key(ec.SECP256R1())
"""Of every provider of this process: a gateway keeps keys for an hour."""

CLIENT_ID = "towpath console"
CLIENT_SECRET = "a secret: of the client"


class OidcServer:
    """The provider at *port*. `said` are claims beside the usual ones, `signed` how the next tokens are signed."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.key = KEY
        self.said: dict[str, Any] = {}
        self.signed: dict[str, Any] = {}
        self.is_away = False
        self._codes: dict[str, dict[str, str]] = {}

    def consent(self, address: str) -> str:
        """Return where the person is sent back to, who was sent here by *address* and agrees."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(8)
        self._codes[code] = asked
        sent = {"code": code, "state": asked["state"], "iss": self.issuer, "session_state": "x"}
        return f"{asked['redirect_uri']}?{urlencode(sent)}"

    def answer(self, asked: Asked) -> bytes:
        """Answer one request of a gateway."""
        if self.is_away:
            return response(502)
        match asked.method, asked.path:
            case "GET", "/.well-known/openid-configuration":
                return self._json(
                    issuer=self.issuer,
                    authorization_endpoint=f"{self.issuer}/authorize",
                    token_endpoint=f"{self.issuer}/token",
                    jwks_uri=f"{self.issuer}/keys",
                )
            case "GET", "/keys":
                key = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
                return self._json(keys=[{**key, "kid": "one", "use": "sig", "alg": "ES256"}])
            case "POST", "/token":
                return self._token(asked)
        return response(404)

    def _token(self, asked: Asked) -> bytes:
        login = base64.b64encode(b"towpath+console:a+secret%3A+of+the+client").decode()
        form = dict(parse_qsl(asked.body.decode()))
        found = self._codes.pop(form.get("code", ""), None)
        if asked.headers.get("authorization") != f"Basic {login}" or found is None:
            return response(400, b'{"error":"invalid_grant"}', content_type="application/json")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == found["code_challenge"]
        assert form["redirect_uri"] == found["redirect_uri"]
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": "4711", "aud": CLIENT_ID, "iat": now, "exp": now + 60,
            "nonce": found["nonce"], "preferred_username": "mia@shop", "groups": ["refund-approvers", "everybody"],
            **self.said,
        }  # fmt: skip
        kept = {name: value for name, value in claims.items() if value is not None}
        if self.signed.get("algorithm") == "HS256":  # which the library refuses to make with a public key
            return self._json(id_token=hmac_token(kept, self.signed["key"]))
        signed = {"key": self.key, "algorithm": "ES256", "headers": {"kid": "one"}, **self.signed}
        return self._json(id_token=jwt.encode(kept, **signed), access_token="x", token_type="Bearer")

    @staticmethod
    def _json(**members: Any) -> bytes:
        return response(200, json.dumps(members).encode(), content_type="application/json")


def hmac_token(claims: dict[str, Any], key: bytes) -> str:
    """Return a token that is signed with *key* as a secret."""
    parts = ({"alg": "HS256", "kid": "one"}, claims)
    said = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    code = hmac.new(key, said.encode(), hashlib.sha256).digest()
    return f"{said}.{base64.urlsafe_b64encode(code).rstrip(b'=').decode()}"


@asynccontextmanager
async def oidc_server(port: int) -> AsyncIterator[OidcServer]:
    """Serve at *port* until the block ends."""
    provider = OidcServer(port)
    server = await asyncio.start_server(Web(provider.answer).serve, "127.0.0.1", port)
    try:
        yield provider
    finally:
        server.close()
        await server.wait_closed()
