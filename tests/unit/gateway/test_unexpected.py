"""A fault of ours, wherever it lies: a problem with a stable code, a page for browsers, and nothing of the fault."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from tests.support.console.own_origin import origin_by_host
from tests.unit.gateway.test_admission import KEY, door

from towpath_console.site import Console
from towpath_gateway.app import console
from towpath_gateway.app.admission import Admission
from towpath_gateway.app.request_log import RequestLog

SECRET = "postgres://user:secret@10.0.0.1"


def failing(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


async def answer(asked_for: str, accept: str, breaks: Callable[[Admission], None]) -> tuple[httpx2.Response, list[Any]]:
    """Return the answer of a gateway that *breaks*, and what its log says."""
    behind, logged = door(), []
    log = SimpleNamespace(error=lambda *words, **fields: logged.append((words, fields)))
    behind._dependencies.log = log  # type: ignore[assignment]
    breaks(behind)
    app = RequestLog(behind, behind._dependencies)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://towpath.example") as client:
        found = await client.get(asked_for, headers={"Accept": accept, "Authorization": f"Bearer {KEY}"})
    return found, logged


def in_front(behind: Admission) -> None:
    behind._dependencies.keys.principal = failing  # type: ignore[method-assign]


@pytest.mark.parametrize("path", ["/v1/me", "/runs", "/"])
async def test_a_fault_in_front_of_the_application_is_a_problem_and_for_browsers_a_page(path: str) -> None:
    found, logged = await answer(path, "application/json", in_front)
    assert (found.status_code, found.headers["content-type"]) == (500, "application/problem+json")
    assert found.json()["code"] == "internal" and "secret" not in found.text and "RuntimeError" not in found.text
    assert found.headers["x-content-type-options"] == "nosniff"
    assert [fields["error"] for _, fields in logged] == ["RuntimeError"], "its log tells"
    page, _ = await answer(path, "text/html", in_front)
    is_page = not path.startswith("/v1")
    assert page.status_code == 500 and page.headers["content-type"].startswith("text/html" if is_page else "app")
    assert "secret" not in page.text and "internal" in page.text


async def test_a_fault_of_the_page_that_would_tell_it_is_a_problem_all_the_same(monkeypatch: Any) -> None:
    monkeypatch.setattr(console.ConsoleRoute, "refusal", failing)
    found, _ = await answer("/runs", "text/html", in_front)
    assert found.json()["code"] == "internal" and "secret" not in found.text


@pytest.mark.parametrize(("path", "accept", "kind"), [
    ("/", "text/html", "text/html; charset=utf-8"),
    ("/", "application/json", "application/problem+json"),
    ("/.json", "text/html", "application/problem+json"),
])  # fmt: skip
async def test_a_fault_of_a_page_of_the_console_is_told_without_what_it_was(
    path: str, accept: str, kind: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(Console, "_made", failing)
    turns = {"drawings": console.drawing_turns(), "large_forms": console.form_turns()}
    site = Console(door(), asyncio.Event(), origin_by_host, **turns).application
    transport = httpx2.ASGITransport(app=site, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://towpath.example") as client:
        found = await client.get(path, headers={"Accept": accept})
    assert (found.status_code, found.headers["content-type"]) == (500, kind)
    assert "internal" in found.text and "secret" not in found.text
    assert "default-src 'none'" in found.headers["content-security-policy"]
