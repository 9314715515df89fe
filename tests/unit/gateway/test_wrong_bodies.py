"""Bodies that are wrong in very many places: their answer is short, and nothing makes an object of each fault."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.gateway.test_admission import KEY, Keys, door

from towpath_contracts.problems.input_faults import MAX_LISTED
from towpath_gateway.app.routes.runs.threads import ReplyBody
from towpath_gateway.core.api_keys import Principal


class PolicyReaders(Keys):
    """The same key, which may read policies."""

    async def principal(self, prefix: str, secret: str) -> Principal:
        found = await super().principal(prefix, secret)
        return Principal(
            caller=found.caller,
            actor=found.actor,
            project=found.project,
            scopes=frozenset({"policy:read", "runs:write"}),
            roles=frozenset(),
            key_prefix=found.key_prefix,
        )


async def ask(path: str, body: bytes) -> tuple[int, bytes]:
    app = door(auth="on")
    app._dependencies.keys = PolicyReaders()  # type: ignore[assignment]
    headers = [
        (b"host", b"towpath"),
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer " + KEY.encode()),
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


QUESTION = {"network": "desk", "agent_key": "clerk", "tool": "x"}
WRONG = {
    "a list": ("/v1/policy/check", {**QUESTION, "grant": [0] * 40_000}),
    "unknown fields": ("/v1/policy/check", {**QUESTION, **{f"a{place:x}": 0 for place in range(40_000)}}),
    "labels": ("/v1/runs", {"network": "desk", "user_message": "x", "labels": {f"a{i}": 0 for i in range(20_000)}}),
    "mounts": ("/v1/runs", {"network": "desk", "user_message": "x", "mounts": [0] * 40_000}),
    "a few hundred": ("/v1/policy/check", {**QUESTION, "grant": [0] * 300}),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_hundred_faults_of_a_body_are_listed_and_the_others_counted(case: str) -> None:
    path, body = WRONG[case]
    status, text = await ask(path, json.dumps(body).encode())
    found = json.loads(text)
    assert status == 422 and len(text) < 40_000
    assert 0 < len(found["errors"]) <= MAX_LISTED and "not listed" in found["detail"]
    assert all(entry["pointer"].startswith("/body/") for entry in found["errors"])


async def test_more_values_than_a_body_may_have_are_not_looked_at() -> None:
    status, text = await ask("/v1/policy/check", json.dumps({**QUESTION, "grant": [0] * 300_000}).encode())
    assert status == 400 and b"more than 50000 values" in text


async def test_few_faults_of_a_body_are_all_listed() -> None:
    status, text = await ask("/v1/policy/check", json.dumps({**QUESTION, "grant": [0] * 3, "z": 1}).encode())
    assert status == 422 and len(json.loads(text)["errors"]) == 4


def test_a_reply_is_held_against_what_its_task_is_held_against() -> None:
    with pytest.raises(ValidationError, match="use printable characters"):
        ReplyBody(content="And now?", idempotency_key="a\n")
