"""`http.request` against a server on this machine: what it sends, what it gives back, and what it refuses."""

from collections.abc import Iterator

import pytest
from tests.support.gateway.web import Asked, response, web
from tests.support.tas.tas_peer import TasPeer
from tests.support.worker.running_worker import serving

from towpath import ToolContext, ToolError
from towpath.tools import builtin
from towpath.tools.egress import EgressClient
from towpath.tools.egress_rules import EgressRules
from towpath_embedded.servers.nats import Nats

LOCAL = EgressClient(EgressRules(allowed=("localhost",), allowed_private=("localhost",)), max_bytes=100)


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TOWPATH_HTTP_ALLOW", "localhost")
    monkeypatch.setenv("TOWPATH_HTTP_ALLOW_PRIVATE", "localhost")
    builtin._egress.cache_clear()
    yield
    builtin._egress.cache_clear()


async def code_of(egress: EgressClient, url: str, **options: object) -> str:
    with pytest.raises(ToolError) as caught:
        await egress.fetch("GET", url, headers={}, body=None, timeout_s=float(str(options.get("timeout_s", 5))))
    return caught.value.code


async def test_a_request_is_sent_as_asked_and_its_answer_comes_back() -> None:
    async with web(lambda _: response(201, b'{"ok": true}', content_type="application/json", set_cookie="s=1")) as site:
        context = ToolContext()
        answer = await builtin.http_request(
            site.url("/a?b=c"), ctx=context, method="POST", headers={"X-One": "1", "Host": "evil"}, body="hello"
        )
        assert (answer.status, answer.text, answer.bytes, answer.truncated) == (201, '{"ok": true}', 12, False)
        assert answer.headers["content-type"] == "application/json"
        assert "set-cookie" not in answer.headers
        (asked,) = site.asked
        assert (asked.method, asked.path, asked.body) == ("POST", "/a?b=c", b"hello")
        assert asked.headers["x-one"] == "1"
        assert asked.headers["host"] == f"localhost:{site.port}"
        assert asked.headers["idempotency-key"] == context.idempotency_key


async def test_a_read_carries_no_idempotency_key() -> None:
    async with web(lambda _: response(200, b"fine")) as site:
        assert (await builtin.http_request(site.url(), ctx=ToolContext())).text == "fine"
        assert "idempotency-key" not in site.asked[0].headers


async def test_an_answer_that_is_no_text_has_none() -> None:
    async with web(lambda _: response(200, b"\xff\xd8\x00")) as site:
        answer = await builtin.http_request(site.url(), ctx=ToolContext())
        assert (answer.text, answer.bytes) == ("", 3)


async def test_a_long_answer_is_cut() -> None:
    async with web(lambda _: response(200, b"x" * 10_000)) as site:
        fetched = await LOCAL.fetch("GET", site.url(), headers={}, body=None, timeout_s=5)
        assert (len(fetched.data), fetched.truncated) == (100, True)


async def test_a_redirect_is_followed_only_where_the_first_request_could_go() -> None:
    def answer(asked: Asked) -> bytes:
        match asked.path:
            case "/same":
                return response(302, location="/end")
            case "/end":
                return response(200, b"arrived")
            case "/private":
                return response(302, location=f"http://127.0.0.1:{site.port}/end")
            case "/metadata":
                return response(302, location="http://169.254.169.254/latest/meta-data/")
            case "/file":
                return response(302, location="file:///etc/passwd")
            case _:
                return response(302, location=asked.path)

    async with web(answer) as site:
        fetched = await LOCAL.fetch("GET", site.url("/same"), headers={}, body=None, timeout_s=5)
        assert fetched.data == b"arrived"
        wide = EgressClient(EgressRules(allowed=("*",), allowed_private=("localhost",)))
        assert await code_of(LOCAL, site.url("/private")) == "http_host_not_allowed"
        assert await code_of(wide, site.url("/private")) == "http_address_not_allowed"
        assert await code_of(wide, site.url("/metadata")) == "http_address_not_allowed"
        assert await code_of(wide, site.url("/file")) == "http_url_invalid"
        assert await code_of(LOCAL, site.url("/round")) == "http_too_many_redirects"


async def test_secrets_do_not_follow_a_redirect_to_another_place() -> None:
    async with (
        web(lambda _: response(200, b"other")) as other,
        web(lambda _: response(307, location=other.url("/there"))) as site,
    ):
        headers = {"Authorization": "Bearer secret", "X-One": "1"}
        await LOCAL.fetch("POST", site.url(), headers=headers, body=None, timeout_s=5)
        assert site.asked[0].headers["authorization"] == "Bearer secret"
        assert "authorization" not in other.asked[0].headers
        assert other.asked[0].method == "POST"
        with pytest.raises(ToolError, match="another origin") as caught:
            await LOCAL.fetch("POST", site.url(), headers=headers, body=b"token=secret", timeout_s=5)
        assert caught.value.code == "http_redirect_with_body"
        assert len(other.asked) == 1


async def test_a_body_is_sent_again_within_one_origin() -> None:
    async with web(lambda asked: response(308, location="/end") if asked.path == "/" else response(200)) as site:
        await LOCAL.fetch("POST", site.url(), headers={}, body=b"again", timeout_s=5)
        assert [(asked.method, asked.body) for asked in site.asked] == [("POST", b"again"), ("POST", b"again")]


async def test_a_post_that_is_sent_elsewhere_becomes_a_read() -> None:
    async with web(lambda asked: response(303, location="/end") if asked.path == "/" else response(200)) as site:
        await LOCAL.fetch("POST", site.url(), headers={}, body=b"once", timeout_s=5)
        assert [(asked.method, asked.body) for asked in site.asked] == [("POST", b"once"), ("GET", b"")]


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async with web(lambda _: b"") as site:
        assert await code_of(LOCAL, site.url(), timeout_s=0.3) == "http_timeout"
    assert await code_of(LOCAL, site.url()) == "http_failed"


async def test_a_worker_serves_it_like_any_other_tool(nats_server: Nats) -> None:
    tools = [builtin.echo, builtin.clock_now, builtin.http_request]
    async with (
        web(lambda _: response(200, b"fine")) as site,
        TasPeer(nats_server.url()) as tas,
        serving(nats_server.url(), tools=tools),
    ):
        fine = await tas.call("http.request", {"url": site.url()}, toolset="builtin", effect_class="irreversible")
        assert fine.result["text"] == "fine"
        assert len(tas.claims) == 1
        private = {"url": f"http://127.0.0.1:{site.port}/"}
        refused = await tas.call("http.request", private, toolset="builtin", effect_class="irreversible")
        assert refused.failure is not None
        assert refused.failure.code == "http_host_not_allowed"
        assert len(site.asked) == 1
