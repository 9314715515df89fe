"""Signing in at a provider: what is kept in between, who a person is here, and what a gateway refuses to start with."""

import json

import pytest
from pydantic import ValidationError

from towpath_contracts.problems.registry import ProblemError
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.adapters.oidc_provider import is_safe_address
from towpath_gateway.app.oidc_sign_in import read_grants
from towpath_gateway.core.oidc import OidcFlow, OidcFlowSeal, OidcGrant, caller_named, granted
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import build_service

FLOW = OidcFlow("state", "nonce", "verifier", "/runs?a=b&é=ü", 1_000)
SEAL = OidcFlowSeal("s" * 32)
WHOLE = {
    "oidc_issuer": "https://login.example",
    "oidc_client_id": "towpath",
    "oidc_gateway_url": "https://towpath.example",
    "oidc_grants": '{"a": {"project": "shop", "roles": ["viewer"]}}',
    "session_secret": "s" * 32,
}


def why(value: str, state: str = "state", now_s: float = 999) -> str:
    with pytest.raises(ProblemError) as raised:
        SEAL.read(value, state, now_s)
    return raised.value.problem.detail


def test_a_flow_goes_on_in_its_own_browser_with_its_own_state_and_in_time() -> None:
    value = SEAL.written(FLOW)
    assert SEAL.read(value, "state", 999) == FLOW
    assert "took too long" in why(value, now_s=1_000)
    assert "another sign-in" in why(value, "other") == why(value, "")
    said, _, code = value.partition(".")
    other = OidcFlowSeal("t" * 32).written(FLOW)
    for forged in ("", said, f"{said}.", f"{said}x.{code}", f"{said}.{'0' * 64}", f"{said}.{code}0", other):
        assert "not begun in this browser" in why(forged)


def test_the_challenge_is_that_of_the_standard() -> None:
    flow = FLOW._replace(verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert flow.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "RFC 7636, appendix B"


def test_no_two_people_are_one_caller() -> None:
    claims = {"iss": "https://a.example", "sub": "1", "name": "Mia O'Neil"}
    mia = caller_named(claims, "name")
    assert mia.startswith("Mia-O-Neil-") and len(mia) <= 64
    assert caller_named({**claims, "name": "Mia O'Neil!"}, "name") == mia, "the same person"
    others = ({"sub": "2"}, {"iss": "https://b.example"}, {"iss": "https://a.example1", "sub": ""})
    assert mia not in {caller_named({**claims, **other}, "name") for other in others}
    for odd in (None, 7, "", "...", "日本", "-"):
        assert caller_named({**claims, "name": odd}, "name").startswith("person-")
    assert len(caller_named({**claims, "name": "x" * 10_000}, "name")) <= 64


def test_grants_are_joined_within_one_project_and_nothing_else_gives_any() -> None:
    grants = read_grants('{"a": {"project": "p", "roles": ["x"]}, "b": {"project": "p", "roles": ["y", "x"]}}')
    assert granted({"g": ["a", "b", "c", 1, None]}, "g", grants).roles == ("x", "y")
    assert granted({"g": "a"}, "g", grants).roles == ("x",)
    for odd in ({}, {"g": []}, {"g": "a b"}, {"g": {"a": 1}}, {"g": None}, {"other": ["a"]}):
        with pytest.raises(ProblemError):
            granted(odd, "g", grants)
    for wrong in ("", "[]", "{", '{"a": {}}', '{"a": {"project": "p", "roles": []}}', '{"a": {"project": "a b"}}'):
        with pytest.raises(ProblemError, match="TOWPATH_OIDC_GRANTS"):
            read_grants(wrong)


def test_a_person_has_no_more_roles_than_a_key_may_have() -> None:
    roles = [f"r{number}" for number in range(17)]
    grants = read_grants(
        json.dumps({"a": {"project": "p", "roles": roles[:16]}, "b": {"project": "p", "roles": roles[16:]}})
    )
    assert CreateKeyBody(caller="mia", roles=granted({"g": "a"}, "g", grants).roles).roles == tuple(sorted(roles[:16]))
    with pytest.raises(ProblemError, match="gives 17 roles"):
        granted({"g": ["a", "b"]}, "g", grants)
    for wrong in (CreateKeyBody, OidcGrant):
        with pytest.raises(ValidationError, match="at most 16"):
            wrong(caller="mia", project="p", roles=tuple(roles))  # type: ignore[call-arg]


def test_of_a_claim_without_end_as_many_values_count_as_a_directory_gives() -> None:
    grants = read_grants('{"a": {"project": "p", "roles": ["x"]}}')
    assert granted({"g": ["x"] * 1_999 + ["a"]}, "g", grants).roles == ("x",)
    with pytest.raises(ProblemError, match="gives a role here"):
        granted({"g": ["x"] * 2_000 + ["a"]}, "g", grants)


def test_a_gateway_with_half_a_provider_does_not_start() -> None:
    build_service(GatewaySettings(**WHOLE))  # type: ignore[arg-type]
    for name in WHOLE.keys() - {"oidc_issuer"}:
        with pytest.raises(ValueError, match="TOWPATH_OIDC_ISSUER"):
            GatewaySettings(**{**WHOLE, name: None if name == "session_secret" else ""})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="TOWPATH_OIDC_ISSUER"):
        GatewaySettings(**WHOLE, embedded=True)  # type: ignore[arg-type]
    for name in ("oidc_issuer", "oidc_gateway_url"):
        with pytest.raises(ProblemError, match="https://"):
            build_service(GatewaySettings(**{**WHOLE, name: "http://elsewhere.example"}))  # type: ignore[arg-type]


def test_nothing_is_sent_where_others_could_read_it() -> None:
    assert is_safe_address("https://login.example/x") and is_safe_address("http://127.0.0.1:9/x")
    assert not any(
        is_safe_address(text) for text in ("http://login.example", "http://127.0.0.1.evil.example", "//x", "")
    )
