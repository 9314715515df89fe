"""Who is let in: nothing of a body is read without a key and its scope, and nobody has more than a share."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.local_access import LocalAccess
from towpath_gateway.adapters.local_token import LocalToken
from towpath_gateway.app.admission import Admission
from towpath_gateway.app.application import create_app, public_paths
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.stream_pace import StreamPace
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.headers import without_escapes
from towpath_gateway.core.own_site import OwnSite
from towpath_gateway.core.shares import ShareLimits, Shares
from towpath_gateway.metrics import GatewayMetrics
from towpath_gateway.settings import GatewaySettings

KEY = "twp_abcdefghijkl." + "s" * 43


def principal(key: str | None, project: str = "shop") -> Principal:
    return Principal(
        caller="mia", actor="mia", project=project, scopes=frozenset({"runs:read"}), roles=frozenset(), key_prefix=key
    )


def shares(total: int = 9, project: int = 9, key: int = 9) -> Shares:
    return Shares("requests", ShareLimits(total, project, key), 3)


class Keys:
    """The table of keys: one key, which may read runs."""

    def has_seen(self, prefix: str) -> bool:
        return KEY.startswith(f"twp_{prefix}.")

    async def principal(self, prefix: str, _secret: str) -> Principal:
        if not self.has_seen(prefix):
            raise ProblemError(problem("unauthenticated", "the key is not known"))
        return principal(prefix)


def door(**settings: Any) -> Admission:
    """The application of a gateway behind its door; without a broker, which none of these requests gets to."""
    dependencies = GatewayDependencies(
        settings=GatewaySettings(**settings),
        log=None,  # type: ignore[arg-type]
        keys=Keys(),  # type: ignore[arg-type]
        platform=None,  # type: ignore[arg-type]
        metrics=GatewayMetrics(CollectorRegistry()),
        stopping=asyncio.Event(),
        request_shares=shares(),
        stream_shares=shares(),
        stream_pace=StreamPace(),
        site=OwnSite(),
    )
    return Admission(create_app(dependencies), dependencies, public_paths())


async def answer(
    app: Admission, method: str, path: str, key: str | None = None, host: str = "towpath", cookie: bytes = b""
) -> tuple[int, bytes]:
    """Ask with a body that never comes; return status and body of the answer."""
    headers = [(b"host", host.encode()), (b"content-length", b"100"), (b"content-type", b"application/json")]
    if cookie:
        headers.append((b"cookie", cookie))
    if key is not None:
        headers.append((b"authorization", f"Bearer {key}".encode()))
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body is not read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("key", [None, "nonsense", "twp_zzzzzzzzzzzz." + "s" * 43])
@pytest.mark.parametrize("path", ["/v1/runs", "/run", "/v1/keys", "/nowhere"])
async def test_who_has_no_key_is_refused_before_the_body(path: str, key: str | None) -> None:
    status, body = await answer(door(), "POST", path, key)
    assert (status, b'"code":"unauthenticated"' in body) == (401, True)


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/keys"])
async def test_who_lacks_the_scope_is_refused_before_the_body(path: str) -> None:
    status, body = await answer(door(), "POST", path, KEY)
    assert (status, b'"code":"forbidden"' in body) == (403, True)


async def test_what_needs_no_key_is_told_without_one() -> None:
    for path in ("/openapi.json", "/problems", "/problems/overloaded"):
        status, _ = await answer(door(), "GET", path)
        assert status == 200, path
    assert not any(public_paths().fullmatch(path) for path in ("/v1/runs", "/run", "/problems/a/b", "/openapi.json/"))


async def test_a_hostile_host_makes_no_path_public() -> None:
    for host in ("x/openapi.json?", "x/console/assets/a/b.css?", "x/sign-in#"):
        status, body = await answer(door(), "GET", "/v1/runs", host=host)
        assert (status, b'"code":"unauthenticated"' in body) == (401, True), host


@pytest.mark.parametrize("path", ["/problems", "/sign-in", "/openapi.json"])
async def test_no_cookie_takes_long_to_be_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unquoted: list[str] = []

    def unquote(value: str) -> str:
        unquoted.append(value)
        return value

    monkeypatch.setattr("http.cookies._unquote", unquote)
    await answer(door(), "GET", path, cookie=b'a=1; x="' + b"\\" * 30_000 + b'"; b=2')
    assert not any("\\" in value for value in unquoted), "some versions of Python take seconds"


def test_cookies_without_a_backslash_are_left_as_they_are() -> None:
    kept = [(b"host", b"a\\b"), (b"cookie", b'a=1; b="2"'), (b"cookie", b"c=3")]
    assert without_escapes(kept) == kept
    assert without_escapes([(b"cookie", b'a=1; x="\\"; b=2'), (b"cookie", b"\\")]) == [
        (b"cookie", b"a=1; b=2"),
        (b"cookie", b""),
    ]


async def test_who_has_no_known_key_has_a_small_share() -> None:
    app = door(max_requests_without_key=1)
    unknown = "twp_zzzzzzzzzzzz." + "s" * 43
    with app._stranger("page"):
        assert (await answer(app, "GET", "/problems"))[0] == 429
        assert (await answer(app, "POST", "/v1/runs", unknown))[0] == 401, (
            "who holds the pages holds up no look-up of keys"
        )
    with app._stranger("key"):
        status, body = await answer(app, "POST", "/v1/runs", unknown)
        assert (status, b'"code":"keyless_share_full"' in body, b'"retry_after_s":1' in body) == (429, True, True)
        assert (await answer(app, "GET", "/problems"))[0] == 200
        assert (await answer(app, "POST", "/v1/runs", KEY))[0] == 403, "a key that was seen is not held up"
    assert (await answer(app, "GET", "/problems"))[0] == 200


async def test_the_token_of_a_local_platform_is_no_stranger(tmp_path: Path) -> None:
    LocalAccess(tmp_path, "auto").prepare()
    app = door(max_requests_without_key=1, embedded=True)
    app._dependencies.local_token = LocalToken(tmp_path / "authorization", None, 8787)
    with app._stranger("key"):
        status, _ = await answer(app, "POST", "/v1/runs", LocalAccess(tmp_path, "auto").token())
    assert status != 429


async def test_a_wrong_key_is_told_where_the_right_one_stands_and_no_key_how_a_browser_gets_in(tmp_path: Path) -> None:
    LocalAccess(tmp_path, "auto").prepare()
    app = door(embedded=True)
    app._dependencies.local_token = LocalToken(tmp_path / "authorization", None, 8787)
    remedies = [json.loads((await answer(app, "POST", "/v1/runs", key))[1])["remedy"] for key in (None, "tp_wrong")]
    assert ["In a browser" in one for one in remedies] == [True, False]
    assert all("curl --header @.towpath/authorization" in one and "TOWPATH_API_KEY" in one for one in remedies)
    assert len(remedies[1]) < len(remedies[0]) / 2


@pytest.mark.parametrize("key", [None, "sk-of-another"])
async def test_who_asks_as_a_client_of_openai_is_told_where_its_key_goes(tmp_path: Path, key: str | None) -> None:
    LocalAccess(tmp_path, "auto").prepare()
    local, keyed = door(embedded=True), door()
    local._dependencies.local_token = LocalToken(tmp_path / "authorization", None, 8787)
    remedies = (
        (local, b"behind Bearer in .towpath/authorization into OPENAI_API_KEY"),
        (keyed, b"towpath keys create"),
    )
    for app, remedy in remedies:
        for path in ("/v1/chat/completions", "/v1/responses"):
            status, body = await answer(app, "POST", path, key)
            error = json.loads(body)["error"]["message"].encode()
            assert (status, remedy in error, b"OPENAI_API_KEY" in error) == (401, True, True)
            assert b"browser" not in body
        assert b"OPENAI" not in (await answer(app, "POST", "/v1/runs", key))[1]


def refusal(of: Shares, who: Principal) -> str:
    with pytest.raises(ProblemError) as raised, of.held(who):
        raise AssertionError("let in")
    assert raised.value.problem.retry_after_s == 3
    return raised.value.problem.code


def test_what_is_full_is_named_and_others_are_let_in() -> None:
    of = shares(total=4, project=3, key=2)
    with of.held(principal("k1")), of.held(principal("k1")):
        assert refusal(of, principal("k1")) == "key_share_full"
        with of.held(principal("k2")):
            assert refusal(of, principal("k2")) == "project_share_full"
            with of.held(principal("k3", "bank")):
                assert refusal(of, principal("k4", "farm")) == "overloaded"
    with of.held(principal("k1")):
        assert sum(of._held.values()) == 3
    assert not of._held


def test_who_needs_no_key_has_all_of_the_process() -> None:
    of = shares(total=2, project=1, key=1)
    with of.held(principal(None)), of.held(principal(None)):
        assert refusal(of, principal(None)) == "overloaded"
