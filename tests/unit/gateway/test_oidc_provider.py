"""Asking an OpenID Connect provider: how long it is believed, and how much is taken from it, however it answers."""

import asyncio
import functools
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.clock import use_simulated_clock
from towpath_gateway.adapters import oidc_provider
from towpath_gateway.adapters.oidc_provider import OidcProvider
from towpath_gateway.app.oidc_sign_in import OidcSignIn
from towpath_gateway.core.oidc import OidcFlow, OidcFlowSeal

ISSUER = "https://login.example"
FLOW = OidcFlow("state", "nonce", "verifier", "/", 0)
KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("old", "new")}
BEGAN_S = 1_800_000_000


class Login:
    """What lies behind the network: the keys that it has now, and what its next token says."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.keys = ["old"]
        self.signs_with = "old"
        self.said: dict[str, int] = {}
        self.spare = b""
        self.under_way = self.most = 0

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked[request.url.path] += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return httpx2.Response(200, content=json.dumps(self._found(request.url.path)).encode() + self.spare)

    def _found(self, path: str) -> dict[str, Any]:
        if path == "/keys":
            made = ((name, jwt.algorithms.ECAlgorithm.to_jwk(KEYS[name].public_key(), True)) for name in self.keys)
            return {"keys": [{**key, "kid": name, "alg": "ES256"} for name, key in made]}
        if path == "/token":
            now = int(time.time())
            claims = {"iss": ISSUER, "sub": "1", "aud": "c", "iat": now, "exp": now + 60, "nonce": "nonce", **self.said}
            key = KEYS[self.signs_with]
            return {"id_token": jwt.encode(claims, key, "ES256", headers={"kid": self.signs_with})}
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return {"issuer": ISSUER, **{name: f"{ISSUER}/{path}" for name, path in ends.items()}}


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Login:
    behind = Login()
    client = functools.partial(httpx2.AsyncClient, transport=httpx2.MockTransport(behind))
    monkeypatch.setattr(oidc_provider.httpx2, "AsyncClient", client)
    return behind


@pytest.fixture
def provider(login: Login) -> OidcProvider:
    return OidcProvider(ISSUER, "c", None, "https://towpath.example/sign-in/oidc/done", "openid")


@contextmanager
def clock() -> Iterator[SimpleNamespace]:
    """A clock of seconds that stands still until it is set."""
    now = SimpleNamespace(s=0.0)
    with use_simulated_clock(lambda: now.s, BEGAN_S * 10**9):
        yield now


async def is_let_in(provider: OidcProvider) -> bool:
    try:
        return (await provider.claims(FLOW, "code"))["sub"] == "1"
    except ProblemError as error:
        assert "token is not good" in error.problem.detail
        return False


async def test_a_key_that_the_provider_took_back_is_good_for_an_hour_at_most(
    login: Login, provider: OidcProvider
) -> None:
    with clock() as now:
        assert await is_let_in(provider)
        login.keys = []
        now.s = 3_500
        assert await is_let_in(provider)
        assert (login.asked["/keys"], login.asked["/.well-known/openid-configuration"]) == (1, 1)
        now.s = 3_700
        assert not await is_let_in(provider)
        assert login.asked["/.well-known/openid-configuration"] == 2


async def test_a_new_key_counts_at_once_and_unknown_ones_ask_for_keys_twice_a_minute(
    login: Login, provider: OidcProvider
) -> None:
    with clock() as now:
        assert await is_let_in(provider)
        login.signs_with = "new"
        for now.s, asked in ((29, 1), (31, 2), (60, 2), (62, 3)):
            assert not await is_let_in(provider)
            assert login.asked["/keys"] == asked
        login.keys, now.s = ["old", "new"], 93
        assert await is_let_in(provider)


@pytest.mark.parametrize(
    ("off", "let_in"), [({"exp": -20}, True), ({"exp": -40}, False), ({"iat": 20}, True), ({"iat": 40}, False)]
)
async def test_the_clock_of_a_provider_may_be_off_by_half_a_minute(
    login: Login, provider: OidcProvider, off: dict[str, int], let_in: bool
) -> None:
    login.said = {name: int(time.time()) + s for name, s in off.items()}
    assert await is_let_in(provider) == let_in


@pytest.mark.parametrize(("size", "taken"), [(512 * 1024, True), (512 * 1024 + 1, False)])
async def test_an_answer_of_a_provider_is_read_up_to_a_bound(
    login: Login, provider: OidcProvider, size: int, taken: bool
) -> None:
    login.spare = b" " * (size - len(json.dumps(login._found(""))))
    if taken:
        assert await provider.way_out(FLOW)
        return
    with pytest.raises(ProblemError, match="too large"):
        await provider.way_out(FLOW)


async def test_however_many_sign_in_a_provider_is_asked_by_eight_at_a_time(
    login: Login, provider: OidcProvider
) -> None:
    login.said = {"exp": 1}
    assert not any(await asyncio.gather(*(is_let_in(provider) for _ in range(20))))
    assert (login.asked["/token"], login.most) == (20, 8)


async def test_somebody_has_ten_minutes_at_the_provider(provider: OidcProvider) -> None:
    seal = OidcFlowSeal("s" * 32)
    sign_in = OidcSignIn(
        provider,
        seal,
        *(None, None),
        claim="groups",
        name_claim="name",
        grants={},
        secure=True,  # type: ignore[arg-type]
    )
    with clock():
        address, cookie = await sign_in.begin("/runs")
    value, *attributes = cookie.partition("=")[2].split("; ")
    state = httpx2.URL(address).params["state"]
    assert "Max-Age=600" in attributes
    assert seal.read(value, state, BEGAN_S + 599).page == "/runs"
    with pytest.raises(ProblemError, match="took too long"):
        seal.read(value, state, BEGAN_S + 600)
