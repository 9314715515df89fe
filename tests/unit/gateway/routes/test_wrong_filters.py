"""A filter of a list that takes a few words refuses others with the one that was meant: no slip gives an empty list."""

import json
from typing import Any

import pytest
from tests.unit.gateway.test_admission import KEY, Keys, door

from towpath_gateway.core.api_keys import Principal

SCOPES = frozenset({"runs:read", "gates:read", "audit:read", "runs:operate"})


class Readers(Keys):
    """The same key, which may read all that is listed."""

    async def principal(self, prefix: str, secret: str) -> Principal:
        found = await super().principal(prefix, secret)
        who = {"caller": found.caller, "actor": found.actor, "project": found.project, "key_prefix": found.key_prefix}
        return Principal(**who, scopes=SCOPES, roles=frozenset({"operator", "policy_admin"}))


async def ask(path: str, query: str) -> tuple[int, dict[str, Any]]:
    app = door(auth="on")
    app._dependencies.keys = Readers()  # type: ignore[assignment]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"towpath"), (b"authorization", b"Bearer " + KEY.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(part.get("body", b"") for part in sent[1:]))


@pytest.mark.parametrize(
    ("path", "wrong", "meant"),
    [
        ("/v1/runs", "wating", "waiting"),
        ("/v1/gates", "pendng", "pending"),
        ("/v1/gates", "al", "all"),
        ("/v1/dead-letters", "ded", "dead"),
    ],
)
async def test_a_misspelt_status_is_refused_with_the_one_that_was_meant(path: str, wrong: str, meant: str) -> None:
    status, refused = await ask(path, f"status={wrong}")
    assert (status, refused["code"]) == (422, "request_invalid")
    (fault,) = refused["errors"]
    assert fault["pointer"] == "/query/status"
    assert fault["detail"].endswith(f"; did you mean '{meant}'?")


async def test_what_is_like_none_of_the_words_is_told_all_of_them_and_is_not_repeated() -> None:
    _, refused = await ask("/v1/runs", "status=%3Cb%3Ezzz")
    (fault,) = refused["errors"]
    assert "'queued', 'running', 'waiting'" in fault["detail"] and "zzz" not in json.dumps(refused)
