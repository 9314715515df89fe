"""What each role sees of the environment that the platform was started in."""

import os

import pytest

from towpath_embedded.processes.role_names import DATABASE_ROLES, START_ORDER
from towpath_embedded.processes.role_process import PASSED_ON, inherited, stop_timeout_s
from towpath_embedded.running_servers import environment_beside_named

SHELL = {
    "PATH": "/usr/bin",
    "SHOP_TOKEN": "of a tool",
    "AWS_SECRET_ACCESS_KEY": "of somebody",
    "GEMINI_API_KEY": "of a provider",
    "OPENAI_API_KEY": "of a provider",
    "OPENAI_ORG_ID": "mine",
    "TOWPATH_API_KEY": "of a person",
    "TOWPATH_DATABASE_URL": "postgresql://owner:secret@db/towpath",
    "TOWPATH_LOCAL_API_KEY": "of a provider",
    "TOWPATH_LOG_LEVEL": "debug",
}
KEYS = {"GEMINI_API_KEY", "OPENAI_API_KEY", "TOWPATH_LOCAL_API_KEY"}
COMMON = {"PATH", "TOWPATH_LOG_LEVEL"}
TOOLS = {"SHOP_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_ORG_ID"}
EXPECTED = {
    "decider": COMMON | KEYS | {"OPENAI_ORG_ID"},
    "worker": COMMON | TOOLS,
    "agent": COMMON | TOOLS | KEYS,
}


@pytest.fixture(autouse=True)
def _shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", dict(SHELL))


def seen(role: str) -> set[str]:
    return set(inherited(role)) - {"PYTEST_CURRENT_TEST"}


@pytest.mark.parametrize("role", START_ORDER)
def test_a_role_sees_what_it_needs(role: str) -> None:
    assert seen(role) == EXPECTED.get(role, COMMON)


def test_a_worker_gets_the_secrets_that_its_operator_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {**SHELL, PASSED_ON: "OPENAI_API_KEY, NOT_THERE"})
    assert seen("worker") == COMMON | TOOLS | {PASSED_ON, "OPENAI_API_KEY"}
    assert "OPENAI_API_KEY" not in seen("tas")


NAMED = {
    "TOWPATH_NATS_URL": "nats://broker",
    "TOWPATH_NATS_USER": "mine",
    "TOWPATH_NATS_PASSWORD": "of the broker",
    "TOWPATH_DATABASE_URL_FILE": "/run/secrets/database",
    "TOWPATH_OIDC_CLIENT_SECRET": "of the sign-in",
    "TOWPATH_SEAL_KEY_FILE": "/run/secrets/seal.key",
}
LOGIN = {"TOWPATH_NATS_URL", "TOWPATH_NATS_USER", "TOWPATH_NATS_PASSWORD"}
DATABASE = {"TOWPATH_DATABASE_URL", "TOWPATH_DATABASE_URL_FILE"}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("worker", TOOLS),
        ("decider", EXPECTED["decider"]),
        ("orchestrator", DATABASE),
        ("gateway", DATABASE | {"TOWPATH_OIDC_CLIENT_SECRET"}),
        ("tas", DATABASE | {"TOWPATH_SEAL_KEY_FILE"}),
        ("watchdog", set()),
    ],
)
def test_beside_servers_that_the_environment_names_a_role_sees_their_secrets_that_it_needs(
    role: str, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {**SHELL, **NAMED})
    assert set(environment_beside_named(role)) - {"PYTEST_CURRENT_TEST"} == COMMON | LOGIN | expected


OF_POSTGRES = {"PGPASSWORD": "of the database", "PGSSLROOTCERT": "/run/secrets/ca.crt", "PGSERVICE": "towpath"}


@pytest.mark.parametrize("role", START_ORDER)
def test_what_clients_of_postgres_read_goes_to_who_has_the_database_alone(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen_of_postgres() -> set[str]:
        return set(environment_beside_named(role)) & set(OF_POSTGRES)

    monkeypatch.setattr("os.environ", {**SHELL, **NAMED, **OF_POSTGRES})
    assert seen_of_postgres() == (set(OF_POSTGRES) if role in DATABASE_ROLES else set())
    monkeypatch.setitem(os.environ, PASSED_ON, "PGPASSWORD")
    if role == "worker":
        assert seen_of_postgres() == {"PGPASSWORD"}, "an operator may let tools have it"
        no_database = {name: value for name, value in os.environ.items() if name not in DATABASE}
        monkeypatch.setattr("os.environ", no_database)
        assert seen_of_postgres() == set(OF_POSTGRES), "without a database of the platform they are the tools' own"


@pytest.mark.parametrize("key", ["twp_0123456789ab.s3cret", " twp_0123456789ab.s3cret", "of a person", "tok-en"])
def test_the_decider_gets_no_key_of_towpath_in_the_place_of_a_providers(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {**SHELL, "OPENAI_API_KEY": key, "TOWPATH_LOCAL_API_KEY": "of a person"})
    assert set(inherited("decider", ("tok-en",))) & KEYS == KEYS - {"OPENAI_API_KEY"}
    assert inherited("agent", ("tok-en",))["OPENAI_API_KEY"] == key, "its code may ask Towpath as OpenAI's clients do"


@pytest.mark.parametrize(("grace", "timeout_s"), [(None, 15), ("1", 15), ("10", 15), ("60", 65), ("soon", 15)], ids=str)
def test_a_role_is_killed_only_after_the_time_that_it_was_told_to_take(grace: str | None, timeout_s: float) -> None:
    environment = {} if grace is None else {"TOWPATH_STOP_GRACE_S": grace}
    assert stop_timeout_s(environment) == timeout_s
