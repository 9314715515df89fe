"""Secrets of this process are removed from error texts."""

import io
import sys

import pytest

from towpath_fabric.redaction import REDACTED, add_secrets, redact_output, replace_secrets, secret_values

ENVIRONMENT = {
    "SHOP_API_TOKEN": "tok-123456789",
    "SHOP_PASSWORD": 'quoted"and\\slashed',
    "SHOP_URL": "postgresql://shop:p%40ssw0rd99@db/shop",
    "SHOP_KEY_FILE": "/run/secrets/key",
    "SHORT_TOKEN": "on",
    "HOME": "/home/someone-long",
    "ODD": "http://[not an address",
}


def test_secrets_are_known_by_name_or_as_passwords_of_addresses() -> None:
    assert secret_values(ENVIRONMENT) == {"tok-123456789", 'quoted"and\\slashed', "p%40ssw0rd99", "p@ssw0rd99"}


def test_a_secret_is_replaced_in_text_and_in_json() -> None:
    secrets = secret_values(ENVIRONMENT)
    assert replace_secrets(secrets, "refused: tok-123456789!") == f"refused: {REDACTED}!"
    assert replace_secrets(secrets, '{"a": "quoted\\"and\\\\slashed"}') == f'{{"a": "{REDACTED}"}}'
    assert replace_secrets(secrets, "password p@ssw0rd99, on") == f"password {REDACTED}, on"


def test_a_longer_secret_is_not_left_half_and_without_secrets_nothing_changes() -> None:
    assert replace_secrets(frozenset({"aaaaaaaa", "aaaaaaaabbbb"}), "aaaaaaaabbbb") == REDACTED
    assert replace_secrets(frozenset(), "anything") == "anything"


def test_what_a_tool_prints_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    add_secrets("printed-secret-1")
    written = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, kept in written.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(kept, "utf-8"))
    redact_output()
    for name in written:
        getattr(sys, name).write("the key is printed-secret-1\n")
    assert [kept.getvalue() for kept in written.values()] == [f"the key is {REDACTED}\n".encode()] * 2
