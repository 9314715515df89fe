"""Sessions of browsers: which cookies let somebody in, and which requests may use them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.types import Message

from towpath_contracts.problems.registry import ProblemError
from towpath_gateway.app.routes.sign_in import FORM, MAX_FORM_BYTES, NextPage, _form
from towpath_gateway.core.api_keys import StoredKey
from towpath_gateway.core.browser_sessions import SESSION_LIFE, SessionSeal, set_cookie
from towpath_gateway.core.headers import local_path, sent_cookie
from towpath_gateway.core.oidc import OidcFlow, OidcFlowSeal
from towpath_gateway.settings import GatewaySettings

NOW = datetime(2026, 11, 26, 14, 0, 0, 123_457, tzinfo=UTC)
KEY = StoredKey(
    prefix="abcdefghijkl", secret_digest=b"d" * 32, caller="mia", project="shop", scopes=frozenset(), roles=frozenset()
)
SEAL = SessionSeal("s" * 32)
TICK = timedelta(microseconds=1)


def refusal(value: str, stored: StoredKey | None = KEY, now: datetime = NOW) -> str | None:
    session = SEAL.opened(value)
    assert session is not None
    return SEAL.refusal(session, stored, now)


def test_a_session_lets_in_for_twelve_hours_and_never_longer_than_its_key() -> None:
    value, session = SEAL.issue(KEY, NOW)
    assert SEAL.opened(value) == session
    assert session.expires_at == NOW + SESSION_LIFE == NOW + timedelta(hours=12)
    assert refusal(value, now=session.expires_at - TICK) is None
    assert refusal(value, now=session.expires_at) == "this session has expired"
    short = replace(KEY, expires_at=NOW + timedelta(minutes=5))
    value, session = SEAL.issue(short, NOW)
    assert session.expires_at == short.expires_at
    assert refusal(value, short, session.expires_at) == "this session has expired"
    sooner = replace(KEY, expires_at=NOW + timedelta(minutes=1))
    assert refusal(value, sooner, NOW + timedelta(minutes=1)) == "this session has expired"


def test_a_session_ends_with_its_key_and_when_somebody_signs_out() -> None:
    value, _ = SEAL.issue(KEY, NOW)
    assert refusal(value, None) == "the key of this session is no longer what it was"
    assert refusal(value, replace(KEY, secret_digest=b"e" * 32)) == "the key of this session is no longer what it was"
    assert refusal(value, replace(KEY, revoked_at=NOW + TICK)) == "the key of this session was revoked"
    assert refusal(value, replace(KEY, signed_out_at=NOW)) == "somebody signed out of this session"
    assert refusal(value, replace(KEY, signed_out_at=NOW - TICK)) is None, "one that was begun later goes on"


def test_who_signs_out_ends_one_session_and_no_other_of_the_key() -> None:
    (value, session), (other, _) = SEAL.issue(KEY, NOW), SEAL.issue(KEY, NOW + TICK)
    out = replace(KEY, ended_sessions=frozenset({session.issued_us}))
    assert refusal(value, out) == "somebody signed out of this session"
    assert refusal(other, out) is None
    at_the_time, session = SEAL.issue(KEY, NOW)
    earlier, before = SEAL.issue(KEY, NOW - SESSION_LIFE)
    assert before.issued_us <= session.oldest_us, "what is forgotten then has ended by itself"
    assert refusal(earlier) == "this session has expired" and refusal(at_the_time) is None


def test_nothing_of_a_cookie_can_be_changed() -> None:
    value, _ = SEAL.issue(KEY, NOW)
    for place, old in enumerate(value):
        for new in {"0", "1", "f", ".", "z"} - {old}:
            assert SEAL.opened(value[:place] + new + value[place + 1 :]) is None, (place, new)
    hostile = (
        "",
        ".",
        value + "0",
        value[:-1],
        f" {value}",
        value.upper(),
        value.replace(".", ".0", 1),
        "\u0661" * 150,
    )
    assert [text for text in hostile if SEAL.opened(text) is not None] == []


def test_a_cookie_holds_nothing_of_the_secret_and_is_of_one_gateway_alone() -> None:
    value, _ = SEAL.issue(KEY, NOW)
    assert KEY.secret_digest.hex() not in value
    other = SessionSeal("t" * 32)
    assert other.opened(value) is None
    assert set(other.cookie_names).isdisjoint(SEAL.cookie_names), "a browser keeps the cookies of both"
    assert SessionSeal("s" * 32).opened(value) is not None, "a replica knows it"
    with pytest.raises(ValueError, match="at least 32"):
        SessionSeal("short")
    with pytest.raises(ValueError, match="session_secret"):
        GatewaySettings(session_secret="short")  # type: ignore[arg-type]


def test_no_script_reads_a_cookie_and_no_other_site_sends_it() -> None:
    kept = set_cookie("a", "b", 60, secure=False)
    assert kept == "a=b; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"
    assert set_cookie("a", "", 0, secure=True).endswith("; Secure")
    assert SEAL.cookie_names[0].startswith("__Host-"), "with TLS no other host of the domain can plant one"


def test_nobody_is_led_to_another_site() -> None:
    for own in ("/", "/runs?status=failed&label=a%3Db", "/approvals/x/y", "/-", "/runs/a//b"):
        assert local_path(own) == own
    for other in (
        "",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/a\\b",
        "/a\nb",
        "/a b",
        "runs",
        "/é",
    ):
        assert local_path(other) == "/"
    for said in ("/runs?message=Safe", "/runs?%6dessage=Safe&message", "/runs?message=a&message=b", "/runs?"):
        assert local_path(said) == "/runs", "nor is a page made to say anything by who wrote the link"
    assert local_path("/runs?a=1&message=Safe&b=message") == "/runs?a=1&b=message"


def test_the_longest_page_that_a_sign_in_leads_to_fits_its_form_and_a_cookie() -> None:
    """A browser drops a cookie of more than 4096 bytes with its name and attributes (RFC 6265 section 6.1)."""
    page = "/" + "%" * 2_047
    assert local_path(page) == TypeAdapter(NextPage).validate_python(page) == page
    assert local_path(page + "%") == "/"
    with pytest.raises(ValidationError, match="at most 2048"):
        TypeAdapter(NextPage).validate_python(page + "%")
    form = urlencode({"key": "é" * 200, "name": "Towpath", "next": page})
    assert len(form) < MAX_FORM_BYTES
    random = "r" * 43
    flow = OidcFlow(random, random, random, page, 2_000_000_000)
    assert len(OidcFlowSeal("s" * 32).written(flow)) < 4_096 - 200


@pytest.mark.parametrize(("size", "read"), [(8_192, True), (8_193, False)])
async def test_the_form_of_a_sign_in_is_read_up_to_a_bound(size: int, read: bool) -> None:
    body = f"next=/runs&key={'k' * (size - 15)}".encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    request = Request({"type": "http", "method": "POST", "headers": [(b"content-type", FORM.encode())]}, receive)
    if read:
        assert (await _form(request, 1.0))["next"] == "/runs"
        return
    with pytest.raises(ProblemError) as refused:
        await _form(request, 1.0)
    assert refused.value.problem.code == "request_too_large"


def test_a_cookie_is_found_among_others() -> None:
    assert sent_cookie("a=1; b=2;c=3", "b") == "2"
    assert sent_cookie("ab=1", "b") == sent_cookie(None, "b") == sent_cookie("b", "b") == ""
