"""Signing in at an OpenID Connect provider: who gets in as whom, and which tokens and ways back let nobody in."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.docs_site.taken_blocks import settings_of, taken
from tests.support.gateway.keyed_gateway import Place, Servers, execute, keyed_gateway
from tests.support.gateway.oidc_server import CLIENT_ID, CLIENT_SECRET, OidcServer, oidc_server
from tests.support.gateway.operations import TASK
from tests.support.platform.platform_peer import PlatformPeer

from towpath_embedded.processes.ports import free_port

HTML = {"Accept": "text/html"}
TOLD = settings_of(taken("docs/console.md: TOWPATH_OIDC_ISSUER"))
BANKERS = {"bankers": {"project": "bank", "roles": ["viewer"]}}
ISSUER_PORT = free_port()
OUTSIDE = "http://localhost:8080"
"""Where browsers find the gateway, by way of a proxy."""


@pytest.fixture(scope="module")
def servers(
    postgres_dsn: str, template_database: str, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """With the settings of the page, but for addresses and the client, and with one grant more."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "oidc").write_text(f"{CLIENT_SECRET}\n", "utf-8")
    settings = {name.removeprefix("TOWPATH_").lower(): value for name, value in TOLD.items()}
    settings |= {"oidc_issuer": f"http://127.0.0.1:{ISSUER_PORT}", "oidc_client_id": CLIENT_ID, "public_url": OUTSIDE}
    settings["oidc_client_secret_file"] = settings["oidc_client_secret_file"].replace("/run/secrets", str(folder))
    settings["oidc_grants"] = json.dumps(json.loads(settings["oidc_grants"]) | BANKERS)
    with keyed_gateway(postgres_dsn, template_database, nats_url, folder, **settings) as running:
        yield running


@pytest.fixture
async def place(servers: Servers, nats_url: str) -> AsyncIterator[Place]:
    async with PlatformPeer(nats_url) as peer:
        yield Place(servers.gateway, peer, servers.role)
    await servers.emptied()


@pytest.fixture
async def provider() -> AsyncIterator[OidcServer]:
    async with oidc_server(ISSUER_PORT) as running:
        yield running


async def sent_out(client: httpx2.AsyncClient, page: str = "/runs") -> str:
    """Return where a browser is sent that signs in elsewhere."""
    out = await client.get("/sign-in/oidc", params={"next": page})
    assert out.status_code == 303, out.text
    assert "HttpOnly; SameSite=Lax" in out.headers["set-cookie"]
    return str(out.headers["location"])


async def come_back(client: httpx2.AsyncClient, address: str) -> httpx2.Response:
    return await client.get(address.removeprefix(OUTSIDE), headers=HTML)


async def refused(place: Place, provider: OidcServer, status: int = 401) -> str:
    """Sign in in vain; return why that was refused."""
    async with place.gateway.client() as client:
        answer = await come_back(client, provider.consent(await sent_out(client)))
        assert answer.status_code == status, answer.text
        assert not any(name.startswith("towpath_session") for name in client.cookies)
        assert (await client.get("/v1/me")).status_code == 401
        return answer.text.partition('role="alert"')[2].partition("</p>")[0]


async def test_who_signs_in_gets_what_the_claims_give_and_no_more(place: Place, provider: OidcServer) -> None:
    async with place.gateway.client() as client, await place.client("shop", "root") as admin:
        page = await client.get("/runs?status=failed", headers=HTML)
        assert page.status_code == 401 and 'href="/sign-in/oidc?next=/runs%3Fstatus%3Dfailed"' in page.text
        back = await come_back(client, provider.consent(await sent_out(client, "/runs?status=failed")))
        assert (back.status_code, back.headers["refresh"]) == (200, "0; url=/runs?status=failed")
        assert [name for name in client.cookies if "oidc" in name] == [], "a way back counts once"
        me = (await client.get("/v1/me")).json()
        assert me["caller"].startswith("mia-shop-") and (me["project"], me["roles"]) == ("shop", ["approver"])
        assert "gates:resolve" in me["scopes"] and "runs:write" not in me["scopes"]
        sent = await client.post("/v1/runs", json=TASK, headers={"Origin": OUTSIDE})
        assert (sent.status_code, sent.json()["code"]) == (403, "forbidden")
        keys = [key for key in (await admin.get("/v1/keys")).json()["keys"] if key["prefix"] == me["key"]]
        assert keys[0]["created_by"] == "oidc" and provider.issuer in keys[0]["note"]
        made, ends = (datetime.fromisoformat(keys[0][name]) for name in ("created_at", "expires_at"))
        assert ends - made == timedelta(hours=12)
        async with place.gateway.client() as again:
            provider.said = {"preferred_username": "mia, renamed"}
            await come_back(again, provider.consent(await sent_out(again)))
            renamed = (await again.get("/v1/me")).json()
            assert renamed["caller"].rpartition("-")[2] == me["caller"].rpartition("-")[2], "the same person"
        assert (await admin.delete(f"/v1/keys/{me['key']}")).status_code == 204
        assert (await client.get("/v1/me")).status_code == 401


async def test_keys_of_past_sign_ins_go_and_their_roles_are_remembered(
    place: Place, servers: Servers, provider: OidcServer
) -> None:
    async with place.gateway.client() as client, await place.client("shop", "root", roles=()) as admin:
        await come_back(client, provider.consent(await sent_out(client)))
        me = (await client.get("/v1/me")).json()
        key = await place.key("shop", "bob", expires_in_s=1)
        past = (
            "UPDATE gateway.api_key SET expires_at = now() - interval '%s' WHERE created_by = 'oidc' OR caller = 'bob'"
        )
        for age, kept in (("23 hours", True), ("25 hours", False)):
            await execute(servers.owner, past % age)
            await place.key("shop", "ann")
            listed = [one["prefix"] for one in (await admin.get("/v1/keys")).json()["keys"]]
            assert (me["key"] in listed) == kept and key[4:16] in listed, "no other key is ever taken away"
        made = await admin.post("/v1/keys", json={"caller": me["caller"], "scopes": ["runs:read"]})
        assert made.status_code == 403 and "approver" in made.json()["detail"], "nobody speaks in that person's name"


async def test_a_way_back_counts_once_and_in_its_own_browser_alone(place: Place, provider: OidcServer) -> None:
    async with place.gateway.client() as victim, place.gateway.client() as attacker:
        attackers = provider.consent(await sent_out(attacker))
        answer = await come_back(victim, attackers)
        assert answer.status_code == 401 and "not begun in this browser" in answer.text
        await sent_out(victim)
        answer = await come_back(victim, attackers)
        assert answer.status_code == 401 and "another sign-in" in answer.text
        kept = dict(attacker.cookies)
        assert (await come_back(attacker, attackers)).status_code == 200
        attacker.cookies.update(kept)
        answer = await come_back(attacker, attackers)
        assert answer.status_code == 401 and "does not take this code" in answer.text
        own = provider.consent(await sent_out(victim))
        for changed in (own.replace("iss=http", "iss=https"), own.replace("code=", "error=access_denied&x=")):
            assert (await come_back(victim, changed)).status_code == 401
        forged = {name: f"{value[:-1]}{'0' if value[-1] != '0' else '1'}" for name, value in victim.cookies.items()}
        victim.cookies.update(forged)
        assert "not begun in this browser" in (await come_back(victim, own)).text


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"nonce": "another"}, "of another sign-in"),
        ({"nonce": None}, "of another sign-in"),
        ({"aud": "another client"}, "InvalidAudience"),
        ({"aud": [CLIENT_ID, "another client"]}, "for others too"),
        ({"azp": "another client"}, "for others too"),
        ({"iss": "http://127.0.0.1:1"}, "InvalidIssuer"),
        ({"exp": 1}, "ExpiredSignature"),
        ({"exp": None}, "MissingRequiredClaim"),
        ({"sub": None}, "MissingRequiredClaim"),
        ({"sub": ""}, "names nobody"),
        ({"groups": ["everybody"]}, "gives a role here"),
        ({"groups": {"refund-approvers": True}}, "gives a role here"),
        ({"groups": None}, "gives a role here"),
        ({"groups": ["refund-approvers", "bankers"]}, "not in one"),
    ],
)
async def test_a_token_that_is_not_for_this_sign_in_lets_nobody_in(
    place: Place, provider: OidcServer, said: dict[str, Any], why: str
) -> None:
    provider.said = said
    assert why in await refused(place, provider)


async def test_a_token_that_the_provider_did_not_sign_lets_nobody_in(place: Place, provider: OidcServer) -> None:
    public = provider.key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for signed in (
        {"key": ec.generate_private_key(ec.SECP256R1())},
        {"key": None, "algorithm": "none"},
        {"key": public, "algorithm": "HS256"},
        {"headers": {"kid": "unknown"}},
    ):
        provider.signed = signed
        assert "token is not good" in await refused(place, provider), signed


async def test_a_provider_that_is_away_is_told_and_keys_still_let_in(place: Place, provider: OidcServer) -> None:
    async with place.gateway.client() as client:
        address = provider.consent(await sent_out(client))
        provider.is_away = True
        answer = await come_back(client, address)
        assert answer.status_code == 503 and "gives no answer" in answer.text and 'name="key"' in answer.text
    async with await place.client("shop", "root") as program:
        assert (await program.get("/v1/me")).status_code == 200
