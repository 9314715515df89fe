"""The token of an embedded platform: who is let in by it, and by the link and the cookie of a browser."""

import base64
import os
import time
from pathlib import Path

import pytest

from towpath_embedded.local_access import LocalAccess
from towpath_gateway.adapters.local_token import LocalToken
from towpath_gateway.core.api_keys import bearer
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import build_service


@pytest.fixture
def token(tmp_path: Path) -> LocalToken:
    LocalAccess(tmp_path, "auto").prepare()
    return LocalToken(tmp_path / "authorization", tmp_path / "sign-in", 8787)


def test_the_token_is_kept_for_its_owner_alone_and_the_link_is_new_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOWPATH_API_KEY", raising=False)
    made = LocalAccess(tmp_path, "auto")
    made.prepare()
    first, link = made.token(), made.sign_in_url("http://127.0.0.1:1")
    made.prepare()
    assert made.token() == first
    assert made.sign_in_url("http://127.0.0.1:1") not in {link, None}
    assert first not in str(link)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    for auth in ("on", "off"):
        other = LocalAccess(tmp_path, auth)
        assert other.client_url("http://127.0.0.1:1") == "http://127.0.0.1:1"
        assert (other.authorization(), other.sign_in_url("http://127.0.0.1:1")) == ({}, None)


def test_a_key_is_shown_where_keys_are_asked_for_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_a/b")
    keyed = LocalAccess(tmp_path, "on")
    assert keyed.authorization() == {"Authorization": "Bearer twp_a/b"}
    assert keyed.client_url("http://127.0.0.1:1") == "http://local:twp_a%2Fb@127.0.0.1:1"
    assert keyed.sign_in_url("http://127.0.0.1:1") is None
    assert LocalAccess(tmp_path, "off").authorization() == {}
    LocalAccess(tmp_path, "auto").prepare()
    assert "twp_a" not in f"{LocalAccess(tmp_path, 'auto').authorization()}"


def test_the_token_lets_in_by_its_header_and_nothing_like_it_does(token: LocalToken, tmp_path: Path) -> None:
    value = LocalAccess(tmp_path, "auto").token()
    header = (tmp_path / "authorization").read_text().strip().partition(": ")[2]
    basic = f"Basic {base64.b64encode(f'local:{value}'.encode()).decode()}"
    assert token.is_shown(bearer(header), None)
    assert token.is_shown(bearer(basic), None)
    for wrong in (None, "Bearer", f"Bearer {value[:-1]}", f"Bearer {value}x", "Bearer é", "Basic !", f"Digest {value}"):
        assert not token.is_shown(bearer(wrong), None)
    assert not token.is_shown(None, f"towpath_8787={value}"), "the cookie is not the token"


def test_a_link_counts_once_and_its_cookie_from_then_on(token: LocalToken, tmp_path: Path) -> None:
    code = (tmp_path / "sign-in").read_text()
    assert token.sign_in(code[:-1]) is None
    cookie = token.sign_in(code)
    assert cookie is not None
    assert token.sign_in(code) is None
    assert not (tmp_path / "sign-in").exists()
    sent = cookie.partition(";")[0]
    assert LocalAccess(tmp_path, "auto").token() not in cookie
    assert token.is_shown(None, f"a=b; {sent}")
    for wrong in (None, "", sent.replace("8787", "8788"), sent[:-1], 'x="'):
        assert not token.is_shown(None, wrong)
    assert not token.is_shown("", sent), "a credential that is shown has to be right"


def test_a_code_that_is_put_there_later_lets_nobody_in(token: LocalToken, tmp_path: Path) -> None:
    """Such as by who may rename the data folder."""
    file = tmp_path / "sign-in"
    code = file.read_text()
    file.unlink()
    file.write_text("planted")
    assert token.sign_in("planted") is None
    assert file.exists()
    assert token.sign_in(code) is not None
    file.write_text(code)
    assert token.sign_in(code) is None, "a code counts once, also where its file is put back"


@pytest.mark.parametrize("planted", ["writable", "link", "pipe", *(["foreign"] if os.geteuid() == 0 else [])])
def test_a_gateway_reads_no_code_and_no_token_that_others_may_have_made(tmp_path: Path, planted: str) -> None:
    LocalAccess(tmp_path, "auto").prepare()
    for name in ("sign-in", "authorization"):
        file = tmp_path / name
        match planted:
            case "writable":
                file.chmod(0o606)
            case "link":
                file.symlink_to(file.rename(tmp_path / f"other-{name}"))
            case "pipe":
                file.unlink()
                os.mkfifo(file, 0o600)
            case _:
                os.chown(file, 4_242, 4_242)
        if name == "sign-in":
            code = (
                (tmp_path / ("other-sign-in" if planted == "link" else name)).read_text() if planted != "pipe" else ""
            )
            assert LocalToken(tmp_path / "authorization", file, 8787).sign_in(code) is None
    with pytest.raises(OSError, match="authorization"):
        LocalToken(tmp_path / "authorization", None, 8787)


def test_an_embedded_gateway_does_not_start_open_by_accident() -> None:
    with pytest.raises(Exception, match="TOWPATH_LOCAL_TOKEN_FILE"):
        build_service(GatewaySettings(embedded=True))
    with pytest.raises(ValueError, match="TOWPATH_AUTH=off"):
        GatewaySettings(auth="off")
    with pytest.raises(ValueError, match="loopback"):
        GatewaySettings(embedded=True, auth="off", gateway_host="0.0.0.0")


def test_a_hostile_cookie_takes_no_time_to_read(token: LocalToken) -> None:
    began = time.thread_time()
    assert not token.is_shown(None, 'towpath_8787="' + "\\x" * 30_000 + '"')
    assert time.thread_time() - began < 1, "some versions of Python unquote it in the square of its length"
