"""Secrets of tools: read in the worker, no argument to anybody else, and gone from everything that is said later."""

from pathlib import Path
from typing import Annotated

import pytest

from towpath import DeclarationError, Secret, tool
from towpath.tools.context import ToolContext
from towpath.tools.secrets import SecretMissingError
from towpath_fabric.redaction import REDACTED, redact
from towpath_worker.core.results import encode_result, failure_of


def test_a_secret_is_no_argument_and_is_read_when_a_call_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def pay(amount: int, key: Annotated[str, Secret("env:PAY_WORD")]) -> str:
        """Pay."""
        return f"{amount} {key}"

    assert list(pay.spec.parameters["properties"]) == ["amount"]
    assert pay.spec.system_params == ()
    assert "PAY_WORD" not in pay.spec.model_dump_json()
    monkeypatch.setenv("PAY_WORD", "unit-secret-4711")
    assert pay.bind({"amount": 1}, ToolContext()) == {"amount": 1, "key": "unit-secret-4711"}
    monkeypatch.delenv("PAY_WORD")
    with pytest.raises(SecretMissingError, match="PAY_WORD"):
        pay.bind({"amount": 1}, ToolContext())


def test_a_file_is_read_anew_for_every_call(tmp_path: Path) -> None:
    file = tmp_path / "key"
    secret = Secret(f"file:{file}")
    file.write_text("first-secret-value\n")
    assert secret.read() == "first-secret-value"
    file.write_text("second-secret-value\n")
    assert secret.read() == "second-secret-value"
    file.unlink()
    with pytest.raises(SecretMissingError, match=str(file)):
        secret.read()


def test_what_was_read_stands_in_nothing_that_is_shown_later(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text('quoted "secret" 4711')
    value = Secret(f"file:{file}").read()
    assert redact(f"401 for {value}") == f"401 for {REDACTED}"
    assert failure_of(ValueError(f"no {value}")).message == f"ValueError: no {REDACTED}"
    result = encode_result({"said": [f"it is {value}"], value: 1, "n": 4711})
    assert result.value == {"said": [f"it is {REDACTED}"], REDACTED: 1, "n": 4711}
    assert b"secret" not in result.data


@pytest.mark.parametrize(
    "reference", ["", "PAY", "env:", "env:a b", "file:relative", "vault:x", "env:TOWPATH_NATS_PASSWORD"]
)
def test_a_reference_that_names_no_secret_of_the_workers_is_refused(reference: str) -> None:
    with pytest.raises(DeclarationError):
        Secret(reference)


def test_a_secret_too_short_to_be_kept_out_of_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAY_WORD", "1234")
    with pytest.raises(SecretMissingError, match="characters"):
        Secret("env:PAY_WORD").read()


def test_a_secret_that_is_no_text_is_refused() -> None:
    with pytest.raises(DeclarationError, match="not a str"):

        @tool
        def pay(key: Annotated[int, Secret("env:PAY_WORD")]) -> None:
            """Pay."""


def test_a_secret_has_at_most_64_kib(tmp_path: Path) -> None:
    """A file that was meant to be another one is not read into the memory of a worker."""
    file = tmp_path / "key"
    file.write_bytes(b"s" * 65_536)
    assert Secret(f"file:{file}").read() == "s" * 65_536
    file.write_bytes(b"s" * 65_537)
    with pytest.raises(SecretMissingError, match="larger than 65536 bytes"):
        Secret(f"file:{file}").read()
