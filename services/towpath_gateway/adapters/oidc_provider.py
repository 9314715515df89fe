"""Asks an OpenID Connect provider: its addresses, its keys, and who somebody is that comes back from it.

Nothing but the one issuer that is set is believed: tokens are verified with its keys, by algorithms of the list, and
have to be for this client and this sign-in. Answers are bounded in time and size, and no redirect is followed.
"""

import asyncio
import hmac
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2
import jwt

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.clock import monotonic
from towpath_gateway.core.oidc import OidcFlow

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of signatures with a key pair: a token is never verified with a secret, or not at all."""

TIMEOUT_S = 8.0
MAX_ANSWER_BYTES = 512 * 1024
KEEP_S = 3_600.0
"""How long addresses and keys are believed."""

ASK_AGAIN_S = 30.0
"""The least time between two looks at the keys because of one that is not among them."""

LEEWAY_S = 30
_AT_ONCE = 8
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class OidcProvider:
    """The provider *issuer*, as the client *client_id* whom it sends back to *redirect_url*."""

    def __init__(self, issuer: str, client_id: str, client_secret: str | None, redirect_url: str, scopes: str) -> None:
        self.issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._redirect_url = redirect_url
        self._scopes = scopes
        self._addresses: dict[str, Any] | None = None
        self._keys: jwt.PyJWKSet | None = None
        self._read_at = self._keys_at = 0.0
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def way_out(self, flow: OidcFlow) -> str:
        """Return where a browser is sent to sign in."""
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_url,
            "scope": self._scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        address = await self._address("authorization_endpoint")
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"

    async def claims(self, flow: OidcFlow, code: str) -> Mapping[str, Any]:
        """Return the verified claims of who comes back with *code*; raises ProblemError."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_url,
            "code_verifier": flow.verifier,
        }
        login = None
        if self._client_secret is None:
            form["client_id"] = self._client_id
        else:  # RFC 6749 section 2.3.1: both are written as in a form first
            login = (quote_plus(self._client_id), quote_plus(self._client_secret))
        answer = await self._asked("POST", await self._address("token_endpoint"), data=form, auth=login)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProblemError(problem("unauthenticated", "the provider gave no identity for this code"))
        return await self._verified(token, flow)

    async def _verified(self, token: str, flow: OidcFlow) -> Mapping[str, Any]:
        try:
            key = await self._key(jwt.get_unverified_header(token).get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._client_id,
                issuer=self.issuer,
                leeway=LEEWAY_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.PyJWTError as error:
            said = type(error).__name__.removesuffix("Error")
            raise ProblemError(problem("unauthenticated", f"the provider's token is not good: {said}")) from error
        nonce, presenter = claims.get("nonce"), claims.get("azp", self._client_id)
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), flow.nonce.encode()):
            raise ProblemError(problem("unauthenticated", "the provider's token is of another sign-in"))
        if presenter != self._client_id or (isinstance(claims["aud"], list) and set(claims["aud"]) != {presenter}):
            raise ProblemError(problem("unauthenticated", "the provider's token is for others too"))
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise ProblemError(problem("unauthenticated", "the provider's token names nobody"))
        return claims

    async def _key(self, name: object) -> jwt.PyJWK:
        """Return the key of this name; looked up anew where it is not known, but not for every such token."""
        for most_s in (KEEP_S, ASK_AGAIN_S):
            if self._keys is None or monotonic() - self._keys_at > most_s:
                found = await self._asked("GET", await self._address("jwks_uri"))
                self._keys, self._keys_at = jwt.PyJWKSet.from_dict(found), monotonic()
            signing = [key for key in self._keys.keys if key.public_key_use in {None, "sig"}]
            wanted = [key for key in signing if key.key_id == name] if name is not None else signing
            if len(wanted) == 1:
                return wanted[0]
        raise jwt.InvalidKeyError("there is no such key")

    async def _address(self, name: str) -> str:
        """Return an address of the provider's own description, which has to be this issuer's."""
        if self._addresses is None or monotonic() - self._read_at > KEEP_S:
            found = await self._asked("GET", f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self.issuer:
                raise ProblemError(problem("unavailable", "the provider describes itself as another issuer"))
            self._addresses, self._read_at = found, monotonic()
        address = self._addresses.get(name)
        if not isinstance(address, str) or not is_safe_address(address):
            raise ProblemError(problem("unavailable", f"the provider gives no safe {name}"))
        return address

    async def _asked(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        try:
            async with (
                self._turns,
                asyncio.timeout(TIMEOUT_S),  # httpx2's own timeout restarts with every byte
                httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False) as client,
                client.stream(method, url, headers={"Accept": "application/json"}, **more) as answer,
            ):
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER_BYTES:
                        raise ProblemError(problem("unavailable", "the provider's answer is too large"))
                found = json.loads(body) if body else None
        except (httpx2.HTTPError, TimeoutError, ValueError) as error:
            raise ProblemError(problem("unavailable", "the provider gives no answer", retry_after_s=5)) from error
        if answer.is_client_error and method == "POST":
            raise ProblemError(problem("unauthenticated", "the provider does not take this code: sign in again"))
        if not answer.is_success or not isinstance(found, dict):
            raise ProblemError(problem("unavailable", "the provider gives no answer", retry_after_s=5))
        return found


def is_safe_address(text: str) -> bool:
    """Return whether nobody on the way reads what is sent there: with TLS, or on this machine."""
    parts = urlsplit(text)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
