"""Attacks by schemas and arguments whose check takes long: it shall hold up nobody."""

import json
from typing import Any

import nats
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.corpus.availability import held_up, longest_answer
from tests.attacks.target import Target

NODE = {"$ref": "#/$defs/n"}
BOMB = {"$defs": {"n": {"type": "object", "properties": {"x": {"allOf": [NODE, NODE]}}}}, "$ref": "#/$defs/n"}


@attack(Position.KEY_HOLDER, timed=True)
async def many_objects_that_must_be_unique(target: Target) -> str:
    """Have 1,500 objects checked for a parameter whose items must be unique, while another project asks."""
    call = {
        "network": "desk",
        "agent_key": "clerk",
        "tool": "desk.label",
        "args": {"ids": [{"a": place} for place in range(1_500)]},
    }

    async def ask() -> None:
        answer = await client.post("/v1/policy/check", json=call)
        if answer.json().get("violation_type") != "invalid_arguments" and "invalid_arguments" not in answer.text:
            raise ValueError(f"the arguments were not checked: {answer.text[:200]}")

    async with target.client(scopes=["policy:read"]) as client:
        longest = await longest_answer(target, ask())
    return held_up(longest)


@attack(Position.WORKER)
async def a_schema_that_refers_to_itself_twice(target: Target) -> str:
    """Register a tool whose schema doubles the work with every level of a value."""
    spec = {"name": "desk.bomb", "toolset": "desk", "effect_class": "pure", "parameters": BOMB}
    answer = await register(target, spec)
    faults = answer.get("problem", answer).get("errors", [])
    if [fault["code"] for fault in faults] != ["schema_too_costly"]:
        raise AttackWorkedError(f"the registration was answered {answer}")
    return f"refused: {faults[0]['detail']}"


async def register(target: Target, spec: dict[str, Any]) -> dict[str, Any]:
    """Register one tool with the credential of the target's worker, and return what is answered."""
    connection = await nats.connect(
        target.platform.nats_url_of("tools_1"), inbox_prefix=b"_INBOX_worker", allow_reconnect=False
    )
    try:
        body = {"project": "default", "toolset": spec["toolset"], "worker": "w", "owner": "o", "tools": [spec]}
        subject = f"svc.tas.register_tools.default.{spec['toolset']}"
        answer = await connection.request(subject, json.dumps(body).encode(), timeout=60)
        found: dict[str, Any] = json.loads(answer.data)
        return found
    finally:
        await connection.close()
