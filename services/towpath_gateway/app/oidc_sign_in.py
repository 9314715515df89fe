"""Signs people in whom an OpenID Connect provider knows: each time with a new key of this gateway that nobody holds.

What a person may do is that key's, as for any other key: it is listed, ends, can be revoked, and records name it.
"""

import json
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.clock import wall
from towpath_gateway.adapters.key_store import CreateKeyBody, KeyStore
from towpath_gateway.app.session_cookies import SessionCookies
from towpath_gateway.core.browser_sessions import SESSION_LIFE
from towpath_gateway.core.headers import sent_cookie
from towpath_gateway.core.oidc import FLOW_LIFE_S, OidcFlow, OidcFlowSeal, OidcGrant, caller_named, granted

if TYPE_CHECKING:
    from towpath_gateway.adapters.oidc_provider import OidcProvider

ACTOR = "oidc"


class OidcSignIn:
    """Sign-ins at *provider*: *grants* says what each value of *claim* gives, *name_claim* how people are called."""

    def __init__(
        self,
        provider: "OidcProvider",
        seal: OidcFlowSeal,
        keys: KeyStore,
        sessions: SessionCookies,
        *,
        claim: str,
        name_claim: str,
        grants: Mapping[str, OidcGrant],
        secure: bool,
    ) -> None:
        self._provider = provider
        self._seal = seal
        self._keys = keys
        self._sessions = sessions
        self._claim = claim
        self._name_claim = name_claim
        self._grants = grants
        self._secure = secure

    async def begin(self, page: str) -> tuple[str, str]:
        """Return where the browser goes, and the `Set-Cookie` header by which it is known when it comes back."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        flow = OidcFlow(state, nonce, verifier, page, int(wall().timestamp()) + FLOW_LIFE_S)
        return await self._provider.way_out(flow), self._cookie(self._seal.written(flow), FLOW_LIFE_S)

    async def end(self, headers: Headers, query: Mapping[str, str]) -> tuple[str, list[str]]:
        """Return the page that a sign-in leads to, and the cookies of its session; raises ProblemError."""
        shown = sent_cookie(headers.get("cookie"), self._name)
        flow = self._seal.read(shown, query.get("state", ""), wall().timestamp())
        if query.get("iss", self._provider.issuer) != self._provider.issuer:  # RFC 9207
            raise ProblemError(problem("unauthenticated", "another provider sent this browser back"))
        if not query.get("code"):
            raise ProblemError(problem("unauthenticated", "the provider did not let you in"))
        claims = await self._provider.claims(flow, query["code"])
        grant = granted(claims, self._claim, self._grants)
        new = CreateKeyBody(
            caller=caller_named(claims, self._name_claim),
            roles=grant.roles,
            expires_in_s=int(SESSION_LIFE.total_seconds()),
            note=f"signed in at {self._provider.issuer}"[:256],
        )
        made = await self._keys.create(new, project=grant.project, maker=None, by=ACTOR)
        cookie = await self._sessions.begin_for(made.prefix, secure=self._secure)
        return flow.page, [cookie, self._cookie("", 0)]

    @property
    def _name(self) -> str:
        return f"__Host-{self._seal.cookie_name}" if self._secure else self._seal.cookie_name

    def _cookie(self, value: str, life_s: int) -> str:
        """Return a cookie that comes along when the provider sends the browser back, which `Strict` ones do not."""
        attributes = f"Path=/; Max-Age={life_s}; HttpOnly; SameSite=Lax{'; Secure' if self._secure else ''}"
        return f"{self._name}={value}; {attributes}"


def read_grants(text: str) -> dict[str, OidcGrant]:
    """Return the grants of TOWPATH_OIDC_GRANTS; raises ProblemError `request_invalid` for what is none."""
    try:
        return {str(value): OidcGrant.model_validate(grant) for value, grant in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        detail = 'TOWPATH_OIDC_GRANTS is JSON: {"VALUE": {"project": "shop", "roles": ["approver"]}}'
        raise ProblemError(problem("request_invalid", detail)) from error
