"""Signing in with a key in a browser: what a session may do, when it ends, and what does not pass for one."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest
from tests.support.gateway.gateway_process import gateway_process
from tests.support.gateway.keyed_gateway import SESSION_SECRET, Place, Servers, execute, keyed_gateway
from tests.support.gateway.operations import TASK
from tests.support.platform.platform_peer import PlatformPeer

from towpath_contracts import rpc
from towpath_contracts.runs.views import ActionDone, GatePage
from towpath_gateway.adapters.key_store import CACHE_S, MAX_ENDED_SESSIONS
from towpath_gateway.core.api_keys import SCOPES, StoredKey, secret_digest, split_key
from towpath_gateway.core.browser_sessions import SessionSeal

HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def servers(
    postgres_dsn: str, template_database: str, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    with keyed_gateway(postgres_dsn, template_database, nats_url, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
async def place(servers: Servers, nats_url: str) -> AsyncIterator[Place]:
    async with PlatformPeer(nats_url) as peer:
        yield Place(servers.gateway, peer, servers.role)
    await servers.emptied()


def origin(place: Place) -> dict[str, str]:
    return {"Origin": place.gateway.url}


async def sign_in(client: httpx2.AsyncClient, key: str, page: str = "/runs", **headers: str) -> httpx2.Response:
    sent = {"Origin": str(client.base_url).rstrip("/"), **HTML, **headers}
    return await client.post("/sign-in", data={"key": key, "next": page}, headers=sent)


@asynccontextmanager
async def browser(place: Place, key: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with place.gateway.client() as client:
        entered = await sign_in(client, key)
        assert (entered.status_code, entered.headers["location"]) == (303, "/runs"), entered.text
        yield client


async def is_out(client: httpx2.AsyncClient) -> str:
    answer = await client.get("/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), answer.text
    return str(answer.json()["detail"])


async def test_who_signs_in_is_the_holder_of_the_key_in_everything(place: Place) -> None:
    key = await place.key("shop", "mia", ("runs:read", "runs:write"), roles=("approver",))
    async with place.gateway.client() as stranger:
        page = await stranger.get("/runs?status=failed", headers=HTML)
        assert page.status_code == 401 and 'name="next" value="/runs?status=failed"' in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        assert (await stranger.get(style)).headers["content-type"].startswith("text/css"), "the form has its style"
        shown = await stranger.get("/sign-in?next=//evil.example", headers=HTML)
        assert shown.status_code == 200 and 'name="next" value="/"' in shown.text
    async with browser(place, key) as client:
        (cookie,) = client.cookies.jar
        assert key.partition(".")[2] not in str(cookie.value)
        me = (await client.get("/v1/me")).json()
        assert (me["caller"], me["project"], me["roles"], me["key"]) == ("mia", "shop", ["approver"], split_key(key)[0])  # type: ignore[index]
        assert me["signed_in_by"] == "session" and me["scopes"] == ["runs:read", "runs:write"]
        assert key.partition(".")[2] not in str(me)
        left = datetime.fromisoformat(me["session_expires_at"]) - datetime.now(UTC)
        assert 11.9 < left.total_seconds() / 3600 <= 12.01
        page = await client.get("/runs", headers=HTML)
        assert page.status_code == 200 and "mia" in page.text and 'action="/sign-out"' in page.text
        assert (await client.post("/v1/runs", json=TASK, headers=origin(place))).is_success
        assert place.peer.requests("task.submit.mia"), "the run is the caller's of the key"
        refused = await client.get("/v1/audit")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_no_other_site_uses_a_session(place: Place) -> None:
    async with browser(place, await place.key("shop", "mia")) as client:
        origins = ("https://evil.example", "null", place.gateway.url.replace("http:", "https:"))
        for headers in ({}, {"Sec-Fetch-Site": "same-origin"}, *({"Origin": origin} for origin in origins)):
            answer = await client.post("/v1/runs", json=TASK, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused"), headers
            assert (await client.post("/runs", data={"network": "n"}, headers={**HTML, **headers})).status_code == 403
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
            assert (await client.get("/v1/runs", headers=headers)).status_code == 403
        out = await client.post("/sign-out", headers={"Origin": "https://evil.example"})
        assert out.status_code == 403 and (await client.get("/v1/me")).status_code == 200, "nor signs somebody out"
    assert place.peer.requests("task.submit.mia") == []
    async with place.gateway.client() as victim:
        key = await place.key("shop", "eve")
        answer = await sign_in(victim, key, Origin="https://evil.example")
        assert answer.status_code == 403 and not victim.cookies, "nor signs somebody in"


async def test_pages_that_ask_by_post_are_open_to_a_session(place: Place) -> None:
    async with browser(place, await place.key("shop", "mia")) as client:
        for page in ("/runs/bulk?action=label", "/runs/bulk.jsonl"):
            answer = await client.get(page, headers=HTML)
            assert answer.status_code == 200, answer.text
            assert (await client.get(page, headers={**HTML, "Origin": "https://evil.example"})).status_code == 403


async def test_a_wrong_key_begins_nothing_and_is_told_as_ever(place: Place) -> None:
    key = await place.key("shop", "mia")
    prefix = split_key(key)[0]  # type: ignore[index]
    async with place.gateway.client() as client:
        for wrong in ("", "nonsense", f"twp_{prefix}.{'A' * 43}", f"twp_{'a' * 12}.{'A' * 43}", key + "x"):
            answer = await sign_in(client, wrong)
            assert answer.status_code == 401 and 'role="alert"' in answer.text, wrong
            assert not client.cookies and (wrong == "" or wrong not in answer.text)
        plain = await client.post("/sign-in", data={"key": "x"}, headers=origin(place))
        assert (plain.status_code, plain.json()["code"]) == (401, "unauthenticated")
        large = await sign_in(client, "x" * 9_000)
        assert large.status_code == 413
        assert (await client.post("/sign-in", json={"key": key}, headers=origin(place))).status_code == 415
        assert not client.cookies


async def test_a_revoked_key_ends_its_sessions_at_once(place: Place) -> None:
    key = await place.key("shop", "mia")
    async with browser(place, key) as client, await place.client("shop", "root", ["keys:admin"]) as admin:
        assert (await client.get("/v1/me")).status_code == 200
        assert (await admin.delete(f"/v1/keys/{split_key(key)[0]}")).status_code == 204  # type: ignore[index]
        assert await is_out(client) == "the key of this session was revoked"
        page = await client.get("/runs", headers=HTML)
        assert page.status_code == 401 and "was revoked" in page.text and 'name="key"' in page.text


async def test_a_key_that_expires_ends_its_sessions(place: Place) -> None:
    key = await place.key("shop", "mia", expires_in_s=5)
    async with place.gateway.client() as client:
        entered = await sign_in(client, key)
        life = re.search(r"Max-Age=(\d+)", entered.headers["set-cookie"])
        assert life is not None and int(life.group(1)) <= 5
        cookie = entered.headers["set-cookie"].partition(";")[0]
        for _ in range(600):
            answer = await client.get("/v1/me", headers={"Cookie": cookie})
            if answer.status_code == 401:
                break
            await asyncio.sleep(0.1)
        assert answer.json()["detail"] == "this session has expired"


async def test_who_signs_out_has_ended_the_session_whoever_kept_the_cookie(place: Place) -> None:
    key = await place.key("shop", "mia")
    async with browser(place, key) as client, browser(place, key) as elsewhere:
        stolen = dict(client.cookies)
        out = await client.post("/sign-out", headers={**origin(place), **HTML})
        assert (out.status_code, out.headers["location"]) == (303, "/sign-in?said=out")
        assert not client.cookies
        client.cookies.update(stolen)
        assert await is_out(client) == "somebody signed out of this session"
        await asyncio.sleep(CACHE_S + 0.2)
        assert (await elsewhere.get("/v1/me")).status_code == 200, "another session of the key goes on"
        assert "You are signed out" in (await client.get("/sign-in?said=out", headers=HTML)).text
        client.cookies.clear()
        assert (await sign_in(client, key)).status_code == 303
        assert (await client.get("/v1/me")).status_code == 200, "and may come in again"
    async with place.gateway.client(key) as program:
        assert (await program.get("/v1/me")).json()["signed_in_by"] == "key", "the key itself goes on"


async def test_a_key_keeps_the_sessions_that_ended_within_bounds_and_past_them_ends_all(
    place: Place, servers: Servers
) -> None:
    key = await place.key("shop", "mia")
    async with browser(place, key) as client, browser(place, key) as elsewhere:
        numbers = f"ARRAY(SELECT n FROM generate_series(1, {MAX_ENDED_SESSIONS}) n)"
        many = f"UPDATE gateway.api_key SET ended_sessions = {numbers}"
        await execute(servers.owner, many)
        assert (await client.post("/sign-out", headers=origin(place))).status_code == 303
        assert await ended(servers) == 1, "what has ended by itself is not kept"
        recent = "(extract(epoch FROM now()) * 1000000)::bigint"
        await execute(servers.owner, many.replace("SELECT n", f"SELECT {recent} + n"))
        await sign_in(client, key)
        assert (await client.post("/sign-out", headers=origin(place))).status_code == 303
        assert await ended(servers) == 0
        assert await is_out(elsewhere) == "somebody signed out of this session"


async def ended(servers: Servers) -> int:
    connection = await asyncpg.connect(servers.owner)
    try:
        return int(await connection.fetchval("SELECT cardinality(ended_sessions) FROM gateway.api_key"))
    finally:
        await connection.close()


async def test_who_signed_out_at_another_replica_comes_in_again_at_once(place: Place, servers: Servers) -> None:
    key = await place.key("shop", "mia")
    async with browser(place, key) as client:
        await execute(servers.owner, "UPDATE gateway.api_key SET signed_out_at = now()")
        assert (await sign_in(client, key)).status_code == 303
        await asyncio.sleep(CACHE_S + 0.2)
        assert (await client.get("/v1/me")).status_code == 200, "it is later than what ended, by the database's clock"


async def test_a_session_that_was_there_before_is_never_taken_over(place: Place) -> None:
    own, attackers = await place.key("shop", "mia"), await place.key("shop", "eve")
    async with browser(place, attackers) as client:
        before = dict(client.cookies)
        assert (await sign_in(client, own)).status_code == 303
        after = dict(client.cookies)
        assert before.keys() == after.keys() and before != after
        assert (await client.get("/v1/me")).json()["caller"] == "mia"


async def test_forged_cookies_and_those_of_other_gateways_are_nothing(place: Place) -> None:
    key = await place.key("shop", "mia")
    prefix, secret = split_key(key)  # type: ignore[misc]
    stored = StoredKey(
        prefix=prefix, secret_digest=secret_digest(secret), caller="mia", project="shop", scopes=frozenset(SCOPES),
        roles=frozenset(),
    )  # fmt: skip
    ours = SessionSeal(SESSION_SECRET)
    name = ours.cookie_names[1]
    good = ours.issue(stored, datetime.now(UTC))[0]
    async with place.gateway.client() as client:
        assert (await client.get("/v1/me", headers={"Cookie": f"{name}={good}"})).status_code == 200, "a replica's"
        foreign = SessionSeal("the secret of another gateway, as long")
        forged = {
            "another gateway's": foreign.issue(stored, datetime.now(UTC))[0],
            "longer": re.sub(r"\.\d+\.", f".{10**16}.", good, count=1),
            "another key's": "z" * 12 + good[12:],
            "nothing": "",
            "the key": key,
        }
        for why, value in forged.items():
            answer = await client.get("/v1/me", headers={"Cookie": f"{name}={value}"})
            assert answer.status_code == 401, why
        theirs = f"{foreign.cookie_names[1]}={foreign.issue(stored, datetime.now(UTC))[0]}"
        answer = await client.get("/v1/me", headers={"Cookie": theirs})
        assert (answer.status_code, answer.json()["detail"]) == (401, "the request carries no key")


async def test_a_key_in_the_header_wins_over_a_cookie(place: Place) -> None:
    weak = await place.key("shop", "tom", ["runs:read"])
    async with browser(place, await place.key("shop", "mia")) as client:
        both = {"Authorization": f"Bearer {weak}"}
        assert (await client.get("/v1/me", headers=both)).json()["caller"] == "tom"
        assert (await client.post("/v1/runs", json=TASK, headers=both)).status_code == 403
        wrong = await client.get("/v1/me", headers={"Authorization": "Bearer nonsense"})
        assert wrong.status_code == 401, "a credential that is shown has to be right"


async def test_with_tls_the_cookie_is_of_this_host_alone_and_never_sent_without(place: Place) -> None:
    key = await place.key("shop", "mia")
    async with place.gateway.client() as client:
        host = client.base_url.netloc.decode()
        entered = await sign_in(client, key, Origin=f"https://{host}")
        cookie = entered.headers["set-cookie"]
        assert cookie.startswith("__Host-towpath_session_") and "; Secure" in cookie and "Domain" not in cookie
        shown = {"Cookie": cookie.partition(";")[0]}
        assert (await client.get("/v1/me", headers=shown)).json()["caller"] == "mia"
        sent = await client.post("/v1/runs", json=TASK, headers={**shown, "Origin": f"https://{host}"})
        assert sent.is_success
        page = await client.get("/runs/bulk?action=label", headers={**HTML, **shown})
        assert page.status_code == 200, "a page that asks by POST asks as a page with TLS"
        without = await client.post("/v1/runs", json=TASK, headers={**shown, "Origin": f"http://{host}"})
        assert (without.status_code, without.json()["code"]) == (403, "origin_refused")
        planted = {"Cookie": shown["Cookie"].removeprefix("__Host-"), "Origin": f"https://{host}"}
        assert (await client.post("/v1/runs", json=TASK, headers=planted)).json()["code"] == "origin_refused"


async def test_a_page_says_which_role_may_press_a_button(place: Place) -> None:
    gate: dict[str, Any] = {
        "gate_id": "b8176244-5c21-5539-9bae-2275585647f8", "run_id": "01a21826-750f-7b51-adac-0b09758c40f8",
        "project": "shop", "gate_type": "permission", "status": "pending", "reason": "refund over 100",
        "approval_id": "b8176244-5c21-5539-9bae-2275585647f9", "detail": {"tool": "orders.refund"},
        "opened_at": "2026-11-26T14:00:00Z", "expires_at": "2099-11-26T14:00:00Z",
    }  # fmt: skip
    place.peer.answers[rpc.LIST_GATES.subject] = GatePage.model_validate({"gates": [gate]})
    place.peer.answers[rpc.RESOLVE_APPROVAL.subject] = ActionDone(detail="approved")
    for role, may in (("viewer", False), ("operator", False), ("approver", True)):
        key = await place.key("shop", role, (), roles=(role,))
        async with browser(place, key) as client:
            page = (await client.get("/approvals", headers=HTML)).text
            button = re.search(r'<button class="good"[^>]*>', page)
            assert button is not None and ("disabled" in button.group()) is not may, role
            assert ("the role approver" in page) is not may
            path = f"/approvals/{gate['gate_id']}/approve"
            pressed = await client.post(path, data={"reason": "x"}, headers={**origin(place), **HTML})
            assert (pressed.status_code == 403) == (role == "viewer"), "the scope is the gateway's to look at"
    async with browser(place, await place.key("shop", "only", ["runs:write"])) as client:
        page = await client.get("/runs", headers=HTML)
        assert page.status_code == 403 and 'href="/approvals"' not in page.text, "the menu shows what may be read"


async def test_a_hash_that_is_changed_in_the_table_ends_sessions(place: Place, servers: Servers) -> None:
    key = await place.key("shop", "mia")
    async with browser(place, key) as client:
        assert (await client.get("/v1/me")).status_code == 200
        await execute(servers.owner, "UPDATE gateway.api_key SET secret_digest = sha256('other')")
        for _ in range(600):
            if (await client.get("/v1/me")).status_code == 401:
                break
            await asyncio.sleep(0.1)
        assert await is_out(client) == "the key of this session is no longer what it was"


async def test_without_a_secret_nobody_signs_in(place: Place, nats_url: str, tmp_path: Path) -> None:
    with gateway_process(tmp_path, nats_url, database_url=place.dsn) as gateway:
        await gateway.wait_ready()
        key = await place.key("shop", "mia")
        async with gateway.client() as client:
            page = await client.get("/sign-in", headers=HTML)
            assert page.status_code == 200 and "Nobody can sign in yet" in page.text and "<form" not in page.text
            refused = await sign_in(client, key)
            assert refused.status_code == 503 and not client.cookies
            assert (await client.get("/v1/me", headers={"Authorization": f"Bearer {key}"})).status_code == 200
