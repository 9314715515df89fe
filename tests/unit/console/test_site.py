"""What comes to the console over HTTP: forms up to a size, and what the API answers in its own process."""

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp
from tests.support.console.own_origin import origin_by_host

from towpath_console.api import VERIFIED_COOKIE, VIEWS_COOKIE, Api, ApiRefusalError, OwnOrigin
from towpath_console.pages import ACTIONS as PAGE_ACTIONS
from towpath_console.site import Console
from towpath_gateway.app.console import FORMS, FORMS_WAITING, drawing_turns, form_turns

MIB = 1024 * 1024
NOWHERE = httpx2.MockTransport(lambda _: pytest.fail("asked"))


async def compared(request: Request) -> Response:
    del request
    return JSONResponse({"version": 3, "calls": 0, "groups": [], "left_out": {}, "next_after": None, "last": 0})


async def policy(request: Request) -> Response:
    del request
    return JSONResponse({"version": 3, "text": "rules: []"})


async def somebody(request: Request) -> Response:
    del request
    return JSONResponse({"caller": "mia", "project": "shop", "scopes": ["policy:write", "keys:admin"], "roles": []})


API = Starlette(
    routes=[
        Route("/v1/me", somebody),
        Route("/v1/policy", policy),
        Route("/v1/policy/diff", compared, methods=["POST"]),
    ]
)


def console(api: ASGIApp = API, own_origin: OwnOrigin = origin_by_host) -> Console:
    return Console(api, asyncio.Event(), own_origin, drawings=drawing_turns(), large_forms=form_turns())


@pytest.mark.parametrize(("size", "status", "says"), [(MIB, 200, "Compare"), (MIB + 1, 413, "The form is too large")])
async def test_a_form_is_taken_up_to_a_mebibyte_and_a_larger_one_is_refused(size: int, status: int, says: str) -> None:
    transport = httpx2.ASGITransport(app=console().application)
    headers = {"origin": "http://here", "content-type": "application/x-www-form-urlencoded"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as browser:
        form = b"text=".ljust(size, b"x")
        answer = await browser.post("/policy/compare", content=form, headers=headers)
    assert answer.status_code == status and says in answer.text


@pytest.mark.parametrize(
    ("came_from", "is_said"), [(None, True), ("same-origin", True), ("cross-site", False), ("none", False)]
)
async def test_a_link_of_somebody_else_makes_no_page_say_anything(came_from: str | None, is_said: bool) -> None:
    transport = httpx2.ASGITransport(app=console().application)
    headers = {} if came_from is None else {"sec-fetch-site": came_from}
    async with httpx2.AsyncClient(transport=transport, base_url="http://here", headers=headers) as browser:
        answer = await browser.get("/policy/edit?message=Checked+by+security")
    assert answer.status_code == 200 and ("Checked by security" in answer.text) == is_said


@pytest.mark.parametrize(
    ("referer", "leads"),
    [
        ("http://here/settings/keys?caller=ann&message=done", "/settings/keys?caller=ann"),
        ("http://here/settings/keys/aaaa/revoke", "/"),
        ("http://elsewhere/settings/keys", "/"),
        ("", "/"),
    ],
)
async def test_a_refused_form_leads_back_to_the_page_with_it(referer: str, leads: str) -> None:
    transport = httpx2.ASGITransport(app=console().application)
    headers = {"origin": "http://here", "referer": referer}
    async with httpx2.AsyncClient(transport=transport, base_url="http://here", headers=headers) as browser:
        answer = await browser.post("/settings/keys/aaaa/revoke")
    assert answer.status_code == 422 and f'<a class="button" href="{leads}">' in answer.text


@pytest.mark.parametrize(("fields", "status"), [(2_000, 200), (2_001, 413), (500_000, 413)])
async def test_a_form_of_too_many_fields_is_refused_before_it_is_read(fields: int, status: int) -> None:
    transport = httpx2.ASGITransport(app=console().application)
    headers = {"origin": "http://here", "content-type": "application/x-www-form-urlencoded"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as browser:
        answer = await browser.post("/policy/compare", content=b"&".join([b"a"] * fields), headers=headers)
    assert answer.status_code == status and ("A form may have 2,000 fields" in answer.text) == (status == 413)


async def test_a_large_form_is_read_beside_the_loop() -> None:
    answer = asyncio.create_task(console()._form(_api(200, b'{"caller": "mia"}'), b"a=" + b"%41" * 340_000))
    turns = 0
    while not answer.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await answer)["a"] == "A" * 340_000 and turns > 2


async def test_large_forms_of_one_sender_leave_a_place_for_those_of_others() -> None:
    turns = form_turns()
    site = Console(API, asyncio.Event(), origin_by_host, drawings=drawing_turns(), large_forms=turns)
    large = b"a=" + b"x" * (64 * 1024)
    mine, theirs = (_api(200, json.dumps({"project": "p", "caller": name}).encode()) for name in ("mia", "tom"))
    async with turns.held("p/mia"):
        waiting = [asyncio.create_task(site._form(mine, large)) for _ in range(FORMS_WAITING)]
        await asyncio.sleep(0.01)
        assert (await site._form(theirs, large)).keys() == {"a"}, "of somebody else it is read meanwhile"
        with pytest.raises(ApiRefusalError) as refused:
            await site._form(mine, large)
        assert (refused.value.status, refused.value.problem["code"]) == (429, "overloaded")
        assert (await site._form(mine, large[: 64 * 1024])).keys() == {"a"}, "one of 64 KiB needs no place"
    assert len(await asyncio.gather(*waiting)) == FORMS_WAITING == 8
    with pytest.raises(ApiRefusalError) as refused:
        await site._form(_api(401, b'{"code": "unauthenticated"}'), large)
    assert refused.value.status == 401, "of nobody it is not read"


async def test_two_large_forms_are_read_at_once() -> None:
    turns, inside = form_turns(), 0
    async with AsyncExitStack() as held:
        for number in range(3):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await held.enter_async_context(turns.held(f"{number}"))
                    inside += 1
    assert inside == FORMS == 2


async def test_a_page_whose_browser_keeps_something_for_it_alone_is_drawn_once_for_itself_and_its_stream() -> None:
    asked = []

    async def runs(request: Request) -> Response:
        asked.append(request.url.path)
        return JSONResponse({"runs": [], "next_before": None, "total": 0})

    api = Starlette(routes=[*API.routes, Route("/v1/runs", runs), Route("/{path:path}", runs)])
    site = console(api)
    session = "towpath_session_1=mia"
    transport = httpx2.ASGITransport(app=site.application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as browser:
        kept = {"cookie": f"{VIEWS_COOKIE}=e30=; {session}; {VERIFIED_COOKIE}=x"}
        page = await browser.get("/runs", headers=kept)
        assert page.status_code == 200
    assert [dict(key[0])["cookie"] for key in site._live._views] == [session], "as its stream sends it"
    for view in site._live._views.values():
        view.task.cancel()


def test_only_what_the_console_keeps_for_itself_makes_no_other_caller() -> None:
    def identity(cookie: str) -> object:
        return Api(NOWHERE, {"cookie": cookie}).identity

    assert identity(f"a=1; {VIEWS_COOKIE}=2;b=3") == identity("a=1;b=3") == identity(f"a=1;b=3; {VERIFIED_COOKIE}=4")
    assert identity(f"{VIEWS_COOKIE}=2") == identity("") == Api(NOWHERE, {}).identity
    assert len({identity("a=1"), identity("a=2"), identity(f"x{VIEWS_COOKIE}=1"), identity("")}) == 4


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/approvals/", "/approvals"),
        ("/runs/?status=failed&q=a%26b", "/runs?status=failed&q=a%26b"),
        ("/policy/edit//", "/policy/edit"),
        ("/runs/a%20b/", "/runs/a%20b"),
        ("//elsewhere.example/", None),
        ("/approvals/a/b/c/d/", None),
    ],
)
async def test_a_page_is_found_with_a_slash_at_its_end_too(path: str, leads_to: str | None) -> None:
    transport = httpx2.ASGITransport(app=console().application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as browser:
        answer = await browser.get(f"http://here{path}")
    assert answer.headers.get("location") == leads_to and answer.status_code == (307 if leads_to else 404)


@pytest.mark.parametrize("form", [{}, {"text": "kind: Policy"}])
@pytest.mark.parametrize("path", ["/policy/edit", "/runs/bulk", "/runs", "/approvals/batch/none", "/audit/erasures"])
async def test_who_lacks_the_scope_of_an_action_is_told_that_before_anything_else_is_asked(
    path: str, form: dict[str, str]
) -> None:
    asked: list[str] = []

    async def viewer(request: Request) -> Response:
        asked.append(request.url.path)
        return JSONResponse({"caller": "vera", "scopes": ["runs:read"]})

    site = console(Starlette(routes=[Route("/{path:path}", viewer, methods=["GET", "POST"])]))
    transport = httpx2.ASGITransport(app=site.application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as browser:
        answer = await browser.post(path, data=form, headers={"origin": "http://here"})
    needed = next(route.scope for route in PAGE_ACTIONS if compile_path(route.path)[0].fullmatch(path))
    assert answer.status_code == 403 and f"his needs the scope {needed}" in answer.text
    assert set(asked) == {"/v1/me"}


QUESTIONS = ("/v1/runs/bulk/select", "/v1/policy/check", "/v1/policy/diff/permissions", "/v1/networks/a/b/prompt")
ACTIONS = ("/v1/runs", "/v1/runs/bulk", "/v1/policy", "/v1/networks", "/v1/networks/%2e%2e/prompt")


@pytest.mark.parametrize(
    ("path", "origin"), [*((one, "http://here:1") for one in QUESTIONS), *((a, None) for a in ACTIONS)]
)
async def test_questions_alone_are_asked_as_the_console_where_a_browser_names_no_site(
    path: str, origin: str | None
) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> Any:
        asked.append(request)
        return httpx2.Response(200, json={})

    transport = httpx2.MockTransport(answer)
    await Api(transport, {"cookie": "a=b", "host": "here:1"}, own_origin="http://here:1").post(path, {})
    await Api(transport, {"host": "here:1", "origin": "http://evil"}, own_origin="http://here:1").post(path, {})
    assert [request.headers.get("origin") for request in asked] == [origin, "http://evil"]


@pytest.mark.parametrize(
    "path", ["/v1/networks/../keys?/prompt", "/v1/networks/../runs/a/prompt", "/v1/networks/a/../../keys/prompt"]
)
async def test_a_name_that_leads_elsewhere_is_asked_for_nowhere(path: str) -> None:
    api = Api(NOWHERE, {"host": "here:1"})
    with pytest.raises(ApiRefusalError, match="nothing can have this name"):
        await api.post(path, {})


@pytest.mark.parametrize(("status", "content"), [(204, b""), (200, b"{}")])
async def test_an_answer_without_content_is_no_refusal(status: int, content: bytes) -> None:
    assert await _api(status, content).delete("/v1/keys/a") == {}


async def test_whatever_the_api_refuses_is_a_refusal() -> None:
    for status in range(400, 600):
        with pytest.raises(ApiRefusalError) as refused:
            await _api(status, b'{"code": "forbidden"}').get("/v1/me")
        assert (refused.value.status, refused.value.problem) == (status, {"code": "forbidden"})


async def test_what_is_no_answer_of_the_api_is_told_with_its_status() -> None:
    for status, content in ((502, b"<html>"), (200, b"[]")):
        with pytest.raises(ApiRefusalError, match=f"status {status}"):
            await _api(status, content).get("/v1/me")


def _api(status: int, content: bytes) -> Api:
    def answer(request: httpx2.Request) -> Any:
        return httpx2.Response(status, content=content, request=request)

    return Api(httpx2.MockTransport(answer), {})


@pytest.mark.parametrize(
    ("sent_from", "taken"),
    [
        ({"origin": "https://here"}, True),
        ({"origin": "HTTPS://Here"}, True),
        ({"origin": "http://here"}, False),
        ({"origin": "https://there"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({}, False),
    ],
)
async def test_a_form_is_taken_from_pages_of_the_same_scheme_and_host_alone(
    sent_from: dict[str, str], taken: bool
) -> None:
    site = console(own_origin=lambda _: "https://here").application
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=site), base_url="http://here") as browser:
        answer = await browser.post("/runs/views", data={"name": "Shop"}, headers=sent_from)
    assert answer.status_code == (303 if taken else 403)
    nowhere = console(own_origin=lambda _: "").application
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=nowhere), base_url="http://here") as browser:
        assert (await browser.post("/runs/views", data={"name": "Shop"}, headers=sent_from)).status_code == 403


async def test_what_a_browser_keeps_for_the_console_is_kept_for_a_year_and_shown_to_no_script() -> None:
    site = console(own_origin=lambda _: "https://here").application
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url="https://here") as browser:
        form = {"name": "Shop", "status": "failed"}
        answer = await browser.post("/runs/views", data=form, headers={"origin": "https://here"})
    kept = answer.headers["set-cookie"]
    assert answer.status_code == 303 and "Max-Age=31536000" in kept
    assert "HttpOnly" in kept and "Secure" in kept and "SameSite=lax" in kept


@pytest.mark.parametrize(("status", "has_menu"), [(401, False), (403, True)])
def test_who_is_not_let_in_is_shown_no_menu(status: int, has_menu: bool) -> None:
    answer = console().refused(status, {"title": "Refused"}, "/runs")
    assert answer.status_code == status and ('href="/approvals"' in bytes(answer.body).decode()) == has_menu
