"""Signing in with OpenID Connect: what is kept between the way out and the way back, and what a person's claims give.

Between the two a browser keeps the state, the nonce and the verifier of the code (PKCE, RFC 7636) itself, under a code
of the gateway's secret: any replica may answer the way back. What a claim does not give, nobody has.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from towpath_contracts.base import Token
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.core.browser_sessions import derived_key

FLOW_LIFE_S = 600
"""How long somebody has at the provider."""

MAX_ROLES = 16
"""Of one person, as of any key."""

_MOST_VALUES = 2_000
_NO_NAME = re.compile(r"[^a-zA-Z0-9]+")
_COOKIE = re.compile(r"([A-Za-z0-9_-]{1,6000})\.([0-9a-f]{64})")


class OidcGrant(BaseModel):
    """What who has a value of the claim may do: *roles* in *project*."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: Token
    roles: tuple[Token, ...] = Field(min_length=1, max_length=MAX_ROLES)


class OidcFlow(NamedTuple):
    """One sign-in that is under way; `page` is where it leads, `ends_s` its end in seconds since 1970."""

    state: str
    nonce: str
    verifier: str
    page: str
    ends_s: int

    @property
    def challenge(self) -> str:
        """What the provider is told of the verifier (S256)."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


class OidcFlowSeal:
    """Writes and reads the cookie of a flow under *secret*."""

    def __init__(self, secret: str) -> None:
        self._key = derived_key(secret, b"code of an oidc flow")
        self.cookie_name = f"towpath_oidc_{derived_key(secret, b'name of the cookie').hex()[:8]}"

    def written(self, flow: OidcFlow) -> str:
        """Return the value of the cookie."""
        said = base64.urlsafe_b64encode(json.dumps(flow).encode()).rstrip(b"=").decode()
        return f"{said}.{self._code(said)}"

    def read(self, value: str, state: str, now_s: float) -> OidcFlow:
        """Return the flow of a cookie that goes on with *state*; raises ProblemError `unauthenticated`."""
        found = _COOKIE.fullmatch(value)
        if found is None or not hmac.compare_digest(self._code(found.group(1)), found.group(2)):
            raise ProblemError(problem("unauthenticated", "this sign-in was not begun in this browser"))
        said = found.group(1)
        flow = OidcFlow(*json.loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4))))
        if not hmac.compare_digest(flow.state.encode(), state.encode("utf-8", "replace")):
            raise ProblemError(problem("unauthenticated", "this is the way back of another sign-in"))
        if now_s >= flow.ends_s:
            raise ProblemError(problem("unauthenticated", "this sign-in took too long"))
        return flow

    def _code(self, said: str) -> str:
        return hmac.new(self._key, said.encode(), hashlib.sha256).hexdigest()


def caller_named(claims: Mapping[str, Any], name_claim: str) -> str:
    """Return the caller that a person is here: a readable name, and what no other person of any provider has.

    Names at a provider change and are given anew; its `sub` never is.
    """
    name = claims.get(name_claim)
    readable = _NO_NAME.sub("-", name if isinstance(name, str) else "").strip("-")[:40] or "person"
    who = json.dumps([claims["iss"], claims["sub"]])
    return f"{readable}-{hashlib.sha256(who.encode()).hexdigest()[:16]}"


def granted(claims: Mapping[str, Any], claim: str, grants: Mapping[str, OidcGrant]) -> OidcGrant:
    """Return what the values of *claim* give together; raises ProblemError `unauthenticated` where that is nothing.

    A person belongs to one project: values that give roles in several are refused rather than chosen among.
    """
    found = claims.get(claim)
    values = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    given = [grants[value] for value in values[:_MOST_VALUES] if isinstance(value, str) and value in grants]
    projects = sorted({grant.project for grant in given})
    if not projects:
        raise ProblemError(problem("unauthenticated", f"no value of your claim {claim!r} gives a role here"))
    if len(projects) > 1:
        raise ProblemError(problem("unauthenticated", f"your claim {claim!r} gives roles in {projects}, not in one"))
    roles = tuple(sorted({role for grant in given for role in grant.roles}))
    if len(roles) > MAX_ROLES:
        said = f"your claim {claim!r} gives {len(roles)} roles, and nobody has more than {MAX_ROLES}"
        raise ProblemError(problem("unauthenticated", said))
    return OidcGrant(project=projects[0], roles=roles)
