"""Attacks by what a task or a body brings along that takes long once it is taken in.

Criteria and answers are evaluated where the facts of all runs are committed, answers also where all decisions are made,
and bodies are parsed where all requests are answered. Runs of another project shall go on meanwhile.
"""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack, require
from tests.attacks.corpus.availability import held_up, longest_answer, publish_quiet, quiet_run
from tests.attacks.target import NETWORK, Target, decision

from towpath_fabric.clock import monotonic

BODIES = 300
GATES = 40
WRONG = 6
"""Tasks at once that are wrong in very many places."""

REFERRING = 40
"""More than the gateway has under way at a time of one project and of such a size."""

GRANTED = 60
"""Tasks at once whose grants are all of other patterns."""

RESPOND = decision("RESPOND", payload={"a": "x"})


async def beside(target: Target, task: dict[str, Any], *, refused: bool) -> str:
    """Submit *task*; return how long the slowest run of another project took until it ended or waits."""
    longest = 0.0
    async with (
        target.client(scopes=["runs:write", "runs:read", "gates:read"]) as client,
        target.client(project="bystander") as other,
    ):
        await publish_quiet(other)
        answer = await client.post("/v1/runs", json=task)
        if refused and answer.is_success:
            await client.post(f"/v1/runs/{answer.json()['run_id']}/cancel", json={})
            raise AttackWorkedError("the task was accepted")
        require(answer.is_success or answer.status_code == httpx2.codes.UNPROCESSABLE_ENTITY, answer.text[:200])
        doing = None if refused else asyncio.ensure_future(target.settled(client, answer.json()["run_id"]))
        while True:
            over, began = doing is None or doing.done(), monotonic()
            await quiet_run(target, other)
            longest = max(longest, monotonic() - began)
            if over:
                break
        if doing is not None:
            await doing
    return held_up(longest, "a run of another project took")


@attack(Position.KEY_HOLDER, timed=True)
async def criteria_whose_patterns_take_long(target: Target) -> str:
    """Submit a goal with 64 criteria, each with a pattern that takes a tenth of a second at each evaluation."""
    wanted = [{"when": rf"claimed == 1 || 'x{place}'.matches(r'\pL{{450}}')"} for place in range(64)]
    goal = {"goal": "go", "acceptance_criteria": wanted}
    return await beside(target, {"network": NETWORK["name"], "goal": goal, "script": [RESPOND] * 3}, refused=True)


@attack(Position.KEY_HOLDER, timed=True)
async def criteria_over_many_values(target: Target) -> str:
    """Submit a goal whose criteria filter 500 files again and again, each time in as many rounds times as many."""
    files = [{"path": f"{place:03d}/{'n' * 60}", "content": "x"} for place in range(500)]
    wanted = [{"when": f"size(workspace.files.filter(f, f != 'z{place}')) < 0"} for place in range(64)]
    task = {"network": NETWORK["name"], "goal": {"goal": "go", "acceptance_criteria": wanted}, "script": [RESPOND] * 3}
    return await beside(target, {**task, "mounts": [{"mount_path": "", "files": files}]}, refused=False)


@attack(Position.KEY_HOLDER, timed=True)
async def an_answer_held_against_a_thousand_patterns(target: Target) -> str:
    """Submit a task whose answer's schema has a thousand patterns that each take a tenth of a second to compile."""
    patterns = [{"pattern": rf"\w{{800}}|x|{place}"} for place in range(1_000)]
    schema = {"type": "object", "properties": {"a": {"allOf": patterns}}}
    task = {"network": NETWORK["name"], "user_message": "go", "script": [RESPOND], "response_schema": schema}
    return await beside(target, task, refused=True)


@attack(Position.KEY_HOLDER, timed=True)
async def evidence_that_takes_long_to_look_for(target: Target) -> str:
    """Have 64 criteria judged by long texts, searched for names of 200 files that all but stand there."""
    async with target.client() as client:
        clerk = {**NETWORK["agents"][0], "equipped_tools": ["workspace_write", "desk.label"]}
        (
            await client.post("/v1/networks", json={"spec": {**NETWORK, "name": "maker", "agents": [clerk]}})
        ).raise_for_status()
    names = [*("." * dots + sign for sign in "abcdefghij" for dots in range(79, 59, -1)), "z9"][1:]
    said = "".join("." * 79 + f"{sign}y " for sign in "abcdefghij")
    said = "." * (3_950 - len(said)) + said + " z9"
    writes = [{"tool_name": "workspace_write", "tool_params": {"path": name, "content": "x"}} for name in names]
    script = [
        *(decision("USE_TOOL", calls=writes[place : place + 10]) for place in range(0, len(writes), 10)),
        decision("USE_TOOL", tool_name="desk.label", tool_params={"ids": ["1"]}),
        decision("RESPOND", payload="done"),
        {
            "kind": "validate",
            "valid": True,
            "criteria": [{"criterion": number, "met": True, "evidence": said} for number in range(64)],
        },
    ]
    goal = {
        "goal": "go",
        "acceptance_criteria": [{"text": f"part {number} is there"} for number in range(64)],
        "settings": {"max_steps": 23, "validate_steps": False},
    }
    return await beside(target, {"network": "maker", "goal": goal, "script": script}, refused=False)


@attack(Position.KEY_HOLDER, timed=True)
async def an_edit_that_multiplies_a_file(target: Target) -> str:
    """Have each of 48,000 letters of a file replaced by 30,000 others."""
    async with target.client() as client:
        clerk = {**NETWORK["agents"][0], "equipped_tools": ["workspace_write", "workspace_edit"]}
        spec = {**NETWORK, "name": "writer", "agents": [clerk]}
        (await client.post("/v1/networks", json={"spec": spec})).raise_for_status()
    script = [
        decision("USE_TOOL", tool_name="workspace_write", tool_params={"path": "a", "content": "a" * 48_000}),
        decision(
            "USE_TOOL",
            tool_name="workspace_edit",
            tool_params={"path": "a", "old": "a", "new": "b" * 30_000, "all": True},
        ),
        decision("RESPOND", payload="done"),
    ]
    return await beside(target, {"network": "writer", "user_message": "go", "script": script}, refused=False)


@attack(Position.KEY_HOLDER, timed=True)
async def large_bodies_that_end_at_the_same_moment(target: Target) -> str:
    """Send 300 bodies of a mebibyte with a viewer's key but for their last bytes, and then these all at once."""
    question = {"network": NETWORK["name"], "agent_key": "clerk", "tool": "desk.mail", "args": {"x": [1] * 49_000}}
    body = json.dumps({**question, "labels": {"a": "a" * 900_000}}).encode()
    key = await target.key("vera", scopes=["policy:read"])
    with connections(target, key, body) as opened:
        doing = asyncio.to_thread(finish, opened, body)
        longest = await longest_answer(target, doing)
    return held_up(longest)


@attack(Position.KEY_HOLDER, timed=True)
async def gates_without_end_on_one_run(target: Target) -> str:
    """Put gate after gate on a run, each of which is a part of its state and has to be closed at its end."""
    async with target.client(scopes=["runs:write", "runs:read", "gates:read"]) as client:
        run = await target.run(client, [("desk.refund", {"order": "8812", "amount": 1})], "refund it")
        path = f"/v1/runs/{run['run_id']}"
        answers = [await client.post(f"{path}/gate", json={"reason": "why?"}) for _ in range(GATES)]
        refused = [answer for answer in answers if answer.status_code == 409]
        await client.post(f"{path}/cancel", json={})
    if len(refused) <= GATES // 2:
        raise AttackWorkedError(f"the run took {GATES - len(refused)} gates")
    return f"{len(refused)} of {GATES} gates were refused: {refused[0].json()['code']}"


@attack(Position.KEY_HOLDER, timed=True)
async def plans_that_are_wrong_everywhere(target: Target) -> str:
    """Submit tasks whose plans have 49,000 criteria that are none, and have planners write plans with 80,000."""

    def wrong(many: int) -> dict[str, Any]:
        asked = {"agent_key": "clerk", "prompt": "go", "acceptance_criteria": [{}] * many}
        return {"steps": [{"id": "a", "type": "agent", "agent": asked}]}

    planned = {"kind": "compile_plan", "raw": json.dumps(wrong(80_000), separators=(",", ":"))}
    given = {"plan": {"plan": wrong(49_000)}}
    asked = {"plan": {"prompt": "go"}, "script": [planned, planned]}
    return await meanwhile(target, [*[asked] * WRONG, *[given] * WRONG], refused=WRONG)


@attack(Position.KEY_HOLDER, timed=True)
async def plans_of_thousands_of_references(target: Target) -> str:
    """Submit tasks whose plans refer 8,000 times to one binding, each of which is looked up whenever a plan is read."""
    asked = {"agent_key": "clerk", "prompt": "{{bindings.a}}" * 43}
    steps = [{"id": f"s{place}", "type": "parallel", "parallel": {"steps": [asked] * 16}} for place in range(12)]
    task = {"plan": {"plan": {"steps": steps}, "bindings": {"a": ""}}, "script": [RESPOND]}
    return await meanwhile(target, [task] * REFERRING, refused=REFERRING)


@attack(Position.KEY_HOLDER, timed=True)
async def decisions_with_calls_that_are_none(target: Target) -> str:
    """Have models decide for 300,000 calls at once, none of which is one."""
    text = json.dumps(decision("USE_TOOL", calls=[0] * 300_000), separators=(",", ":"))
    return await meanwhile(target, [{"user_message": "go", "script": [{"raw": text}, RESPOND]}] * WRONG, refused=0)


async def meanwhile(target: Target, tasks: list[dict[str, Any]], *, refused: int) -> str:
    """Submit *tasks*, of which some are refused; return how long the slowest run of another project took till then."""
    longest = 0.0
    async with (
        target.client(scopes=["runs:write", "runs:read", "gates:read"]) as client,
        target.client(project="bystander") as other,
    ):
        await publish_quiet(other)

        async def end(task: dict[str, Any]) -> int:
            answer = await client.post("/v1/runs", json={"network": NETWORK["name"], **task})
            if answer.is_success:
                await target.settled(client, answer.json()["run_id"])
            return answer.status_code

        doing = asyncio.gather(*map(end, tasks))
        while not doing.done():
            began = monotonic()
            await quiet_run(target, other)
            longest = max(longest, monotonic() - began)
        answered = sorted(await doing)
    if answered.count(202) != len(tasks) - refused:
        raise ValueError(f"the tasks were answered {answered}")
    return held_up(longest, "a run of another project took")


@attack(Position.KEY_HOLDER, timed=True)
async def grants_of_long_patterns(target: Target) -> str:
    """Submit tasks with 256 patterns each that would take a millisecond and more to be made regular expressions."""
    tasks = [
        {
            "user_message": "go",
            "script": [RESPOND],
            "grant": [{"tool": f"{'*.' * 56}*{place}x{number}"} for number in range(255)] + [{"tool": "*"}],
        }
        for place in range(GRANTED)
    ]
    return await meanwhile(target, tasks, refused=0)


@attack(Position.KEY_HOLDER)
async def grants_of_many_replies(target: Target) -> str:
    """Reply again and again with a grant of 256 entries, all of which each call of the thread would carry."""
    before, codes = None, []
    async with target.client(scopes=["runs:write", "runs:read", "gates:read"]) as client:
        for place in range(4):
            grant = [{"tool": f"*{place * 256 + number:x}{'?' * 90}"} for number in range(255)] + [{"tool": "*"}]
            task = {"network": NETWORK["name"], "user_message": "go", "script": [RESPOND], "grant": grant}
            answer = await client.post("/v1/runs", json=task if before is None else {**task, "continues": before})
            if not answer.is_success:
                codes.append(answer.json()["code"])
                continue
            before = answer.json()["run_id"]
            await target.settled(client, before)
    if codes != ["limit_exceeded"] * 2:
        raise AttackWorkedError(f"the thread took {4 - len(codes)} grants of 256 entries")
    return "the third grant of 256 entries was refused: limit_exceeded"


@attack(Position.KEY_HOLDER)
async def a_reply_that_makes_a_log_unreadable(target: Target) -> str:
    """Reply until a run begins with more than one message holds, so that nobody reads what it did."""
    sign, before = "\x01", None
    said = {"quoted_inputs": {"a": sign * 21_000}, "system_params": {"a": sign * 5_000}, "labels": {"a": sign * 2_500}}
    more = {
        "goal": {"goal": "go", "acceptance_criteria": ["done"], "constraints": {"a": sign * 20_000}},
        "response_schema": {"type": "object", "description": sign * 10_000},
        "grant": [{"tool": "*", "when": f"args.path == '{'y' * 990}'"}] * 255,
    }
    async with target.client(scopes=["runs:write", "runs:read", "gates:read"]) as client:
        for place in range(3):
            files = [{"path": f"{place}/{number}/{'n' * 75}/{'m' * 75}", "content": "x"} for number in range(300)]
            mounts = [{"mount_path": "", "files": files}]
            task = {"network": NETWORK["name"], "user_message": f"{place}{sign * 42_000}", "mounts": mounts, **said}
            task |= {"script": [decision("RESPOND", payload=sign * 20_000)], **(more if place == 2 else {})}
            answer = await client.post("/v1/runs", json=task if before is None else {**task, "continues": before})
            if not answer.is_success:
                if (code := answer.json()["code"]) == "request_too_large" and place == 2:
                    return f"the third run was refused: {code}"
                raise ValueError(f"the run {place} was answered {answer.text[:200]}")
            before = answer.json()["run_id"]
            await target.settled(client, before)
        read = await client.get(f"/v1/runs/{before}/events")
    raise AttackWorkedError(f"who reads the log of the third run is answered {read.status_code}")


@contextmanager
def connections(target: Target, key: str, body: bytes) -> Iterator[list[socket.socket]]:
    """Give connections on which all of a request was sent but the last byte."""
    at = urlsplit(target.url)
    head = (
        f"POST /v1/policy/check HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with ExitStack() as stack:
        opened = []
        for _ in range(BODIES):
            one = stack.enter_context(socket.create_connection((at.hostname, at.port)))
            one.sendall(head.encode() + body[:-1])
            opened.append(one)
        yield opened


def finish(opened: list[socket.socket], body: bytes) -> None:
    """Send the last bytes, and wait for the beginnings of all answers."""
    for one in opened:
        one.sendall(body[-1:])
    for one in opened:
        one.settimeout(60)
        if not one.recv(64).startswith(b"HTTP/1.1"):
            raise AttackWorkedError("the gateway closed the connection of a request")
