"""Which pages are this gateway's own: by scheme, host and port, and by the cookie that a session began with."""

from typing import Any

import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers
from tests.unit.gateway.test_browser_sessions import KEY, NOW, SEAL

from towpath_gateway.app.session_cookies import SessionCookies
from towpath_gateway.core.own_site import OwnSite
from towpath_gateway.settings import GatewaySettings, origin_at

VALUE, SESSION = SEAL.issue(KEY, NOW)
WITH_TLS, WITHOUT = SEAL.cookie_names
SITE = "https://towpath.example"


def cookies(site: OwnSite) -> SessionCookies:
    return SessionCookies(SEAL, None, site)  # type: ignore[arg-type]  # no key is looked up


def shown(site: OwnSite, *names: str) -> bool | None:
    """Return whether the session that is read of the cookies *names* began with TLS; None where none is read."""
    found = cookies(site).shown(Headers({"cookie": "; ".join(f"{name}={VALUE}" for name in names)}))
    return None if found is None else found.has_tls


@pytest.mark.parametrize(
    ("method", "headers", "let_in"),
    [
        ("GET", {}, True),
        ("GET", {"origin": "https://towpath.example"}, True),
        ("GET", {"origin": "https://evil.example"}, False),
        ("GET", {"origin": "http://towpath.example"}, False),
        ("GET", {"sec-fetch-site": "same-origin"}, True),
        ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, True),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, True),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, False),
        ("POST", {"origin": "https://towpath.example"}, True),
        ("POST", {"origin": "HTTPS://TOWPATH.example"}, True),
        ("POST", {"origin": "http://towpath.example"}, False),
        ("POST", {"origin": "ws://towpath.example"}, False),
        ("POST", {"origin": "//towpath.example"}, False),
        ("POST", {"origin": "https://towpath.example/"}, False),
        ("POST", {}, False),
        ("DELETE", {}, False),
        ("PUT", {"sec-fetch-site": "same-origin"}, False),
        ("POST", {"origin": "null"}, False),
        ("POST", {"origin": "null", "host": ""}, False),
        ("POST", {"origin": ""}, False),
        ("POST", {"origin": "https://towpath.example:8443"}, False),
        ("POST", {"origin": "https://towpath.example.evil.example"}, False),
        ("POST", {"origin": "https://x@towpath.example"}, False),
    ],
)
def test_a_session_is_used_by_pages_of_its_own_gateway_alone(
    method: str, headers: dict[str, str], let_in: bool
) -> None:
    sent = {"host": "towpath.example", **headers}
    for site in (OwnSite(), OwnSite("https://towpath.example")):
        known = sent if site == OwnSite() else {**sent, "host": "gateway-1:8787"}
        assert (site.refused_session(method, known, has_tls=True) is None) == let_in, site


@pytest.mark.parametrize(("has_tls", "own"), [(True, SITE), (False, "http://towpath.example")])
def test_a_session_that_began_with_tls_is_used_by_no_page_without_and_the_other_way_round(
    has_tls: bool, own: str
) -> None:
    for origin in (SITE, "http://towpath.example"):
        headers = {"host": "towpath.example", "origin": origin}
        why = OwnSite().refused_session("POST", headers, has_tls=has_tls)
        assert why == (None if origin == own else f"the Origin {origin!r} is another site than {own!r}")


def test_where_a_session_begins_the_scheme_is_compared_once_it_is_set() -> None:
    for origin in (SITE, "http://towpath.example"):
        headers = {"host": "towpath.example", "origin": origin}
        assert OwnSite().refused_session("POST", headers, has_tls=None) is None
        assert (OwnSite(SITE).refused_session("POST", headers, has_tls=None) is None) == (origin == SITE)


def test_under_tls_a_cookie_counts_that_no_other_host_can_plant_and_no_other() -> None:
    assert (shown(OwnSite(SITE), WITH_TLS), shown(OwnSite(SITE), WITHOUT)) == (True, None)
    without = OwnSite("http://localhost:8080")
    assert (shown(without, WITH_TLS), shown(without, WITHOUT)) == (None, False)
    assert [shown(OwnSite(), name) for name in (WITH_TLS, WITHOUT)] == [True, False], "nobody has said which it is"
    assert shown(OwnSite(), WITHOUT, WITH_TLS) is True, "a planted one does not come first"


@pytest.mark.parametrize(
    ("site", "headers", "own"),
    [
        (OwnSite(SITE), {"host": "gateway-1:8787"}, SITE),
        (OwnSite(), {"host": "Towpath.example"}, "http://towpath.example"),
        (OwnSite(), {"host": "towpath.example", "origin": "https://evil.example"}, SITE),
        (OwnSite(), {"host": "towpath.example", "cookie": f"{WITH_TLS}={VALUE}"}, SITE),
        (
            OwnSite(),
            {"host": "towpath.example", "cookie": f"{WITHOUT}={VALUE}", "origin": SITE},
            "http://towpath.example",
        ),
        (OwnSite(), {"origin": "https://evil.example"}, ""),
    ],
)
def test_pages_know_their_own_origin(site: OwnSite, headers: dict[str, str], own: str) -> None:
    assert cookies(site).own_origin(Headers(headers)) == own


@pytest.mark.parametrize(
    ("host", "origin", "served"),
    [
        ("127.0.0.1:8787", None, True),
        ("localhost:8787", "http://localhost:8787", True),
        ("[::1]:8787", None, True),
        ("[::1]evil", None, False),
        ("localhost:evil", None, False),
        ("LOCALHOST", None, True),
        ("localhost:8787", "http://localhost:9999", False),
        ("localhost:8787", "https://localhost:8787", False),
        ("localhost:8787", "https://evil.example", False),
        ("localhost:8787", "null", False),
        ("evil.example", None, False),
        ("evil.example:8787", "http://evil.example:8787", False),
        ("localhost.evil.example", None, False),
        ("127.0.0.1.evil.example:8787", None, False),
        ("", None, False),
        (None, None, False),
    ],
)
def test_without_keys_only_this_machine_is_trusted(host: str | None, origin: str | None, served: bool) -> None:
    assert (OwnSite().refused_without_key(host, origin) is None) is served


def test_behind_a_proxy_with_tls_on_this_machine_its_pages_are_trusted_where_it_is_set() -> None:
    site = OwnSite("https://localhost:8443")
    assert site.refused_without_key("localhost:8443", "https://localhost:8443") is None
    assert site.refused_without_key("localhost:8443", "http://localhost:8443") is not None
    assert (
        site.refused_without_key("evil.example", "https://localhost:8443")
        == "the Host 'evil.example' is not this machine"
    )


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://towpath.example", SITE),
        ("HTTPS://Towpath.Example:443/", SITE),
        ("http://towpath.example:80", "http://towpath.example"),
        ("http://towpath.example:443", "http://towpath.example:443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_an_origin_is_written_as_browsers_write_it(address: str, origin: str) -> None:
    assert origin_at(address) == origin


@pytest.mark.parametrize(
    "wrong", ["towpath.example", "//towpath.example", "ftp://towpath.example", "https://", "https://a@b"]
)
def test_what_is_no_address_of_a_site_is_refused_at_the_start(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not an address such as"):
        GatewaySettings(public_url=wrong)


def test_where_browsers_find_the_gateway_is_said_once() -> None:
    def known(**given: Any) -> str:
        return GatewaySettings(session_secret=SecretStr("s" * 32), **given).own_origin

    assert known() == ""
    assert known(public_url=f"{SITE}/") == SITE
    assert known(oidc_gateway_url=SITE) == SITE
    assert known(public_url=SITE, oidc_gateway_url=f"{SITE}:443/") == SITE
    with pytest.raises(ValueError, match="the same site"):
        known(public_url=SITE, oidc_gateway_url="http://towpath.example")
