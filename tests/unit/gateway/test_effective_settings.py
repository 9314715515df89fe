"""What a gateway says it runs with: where each value came from, and never a secret."""

from pathlib import Path

import pytest

from towpath_gateway.core.effective_settings import HIDDEN, effective_settings, shown_value
from towpath_gateway.settings import GatewaySettings


def told(settings: GatewaySettings) -> dict[str, tuple[str | None, str, bool]]:
    return {one.name: (one.value, one.origin, one.secret) for one in effective_settings(settings)}


def test_no_secret_is_told_however_it_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("postgresql://towpath:hunter2@db/towpath")
    monkeypatch.setenv("TOWPATH_DATABASE_URL_FILE", str(tmp_path / "dsn"))
    monkeypatch.setenv("TOWPATH_NATS_PASSWORD", "hunter2")
    monkeypatch.setenv("TOWPATH_NATS_URL", "nats://gateway:hunter2@broker:4222/hunter2?token=hunter2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://key:hunter2@traces.example/hunter2")
    found = told(GatewaySettings.load())
    assert "hunter2" not in str(found)
    assert found["TOWPATH_DATABASE_URL"] == (HIDDEN, "file", True)
    assert found["TOWPATH_DATABASE_URL_FILE"] == (str(tmp_path / "dsn"), "set", False)
    assert found["TOWPATH_NATS_PASSWORD"] == (HIDDEN, "set", True)
    assert found["TOWPATH_NATS_URL"] == ("nats://broker:4222", "set", False)
    assert found["OTEL_EXPORTER_OTLP_ENDPOINT"] == ("https://traces.example", "set", False)


def test_a_value_that_nobody_gave_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_MAX_STREAMS", "7")
    found = told(GatewaySettings.load())
    assert found["TOWPATH_MAX_STREAMS"] == ("7", "set", False)
    assert found["TOWPATH_LOG_LEVEL"] == ("info", "default", False)
    assert found["TOWPATH_MAX_REQUESTS_PER_KEY"] == ("1000", "default", False), "a number is no secret"
    assert found["TOWPATH_NATS_PASSWORD"][0] is None, "and where there is none, none is hidden"
    assert [name for name in GatewaySettings.model_fields if name != "otel"] == [
        name for name in GatewaySettings.model_fields if f"TOWPATH_{name.upper()}" in found
    ]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("nats://a:pw@one:4222,nats://b:pw@two:4222", "nats://one:4222, nats://two:4222"),
        ("http://[::1]:4318/secret", "http://[::1]:4318"),
        ("http://host:notaport/", HIDDEN),
        ("pw@host://x", HIDDEN),
        (True, "true"),
    ],
)
def test_of_an_address_only_scheme_and_host_are_told(given: object, shown: str) -> None:
    assert shown_value(given) == shown
