"""Attacks by what a key may have checked of policies: grants of tasks, texts, dry runs.

They share a service with the decisions about everybody's calls. Runs of another project shall go on meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import Any

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import NETWORK, Target

from towpath_fabric.clock import monotonic

AT_ONCE = 24
FLOOD_S = 1.0
HELD_UP_S = 3.0
"""A run of another project takes a tenth of a second where nothing else is asked."""

QUIET = {**NETWORK, "name": "brief", "agents": [{**NETWORK["agents"][0], "equipped_tools": ["workspace_list"]}]}
BUSY = {429, 503}
Ask = Callable[[int], Awaitable[httpx2.Response]]


def conditions(turn: int, number: int, members: int) -> list[dict[str, Any]]:
    """Return a grant of so many conditions, which no other turn has: nothing of it is compiled yet."""
    value = "{" + ",".join(f"{(turn * 37 + place) % 90 + 10}:1" for place in range(members)) + "}"
    return [{"tool": "desk.send", "when": f"args.a == {value} || {turn} == {place}"} for place in range(number)]


async def slowest_run_beside(target: Target, ask: Ask, refused: Sequence[int]) -> str:
    """Send requests until a second is over while another project has runs; return how long its slowest run took."""
    turns, answers, runs = count(), dict[int, int](), list[float]()

    async def flood(numbers: Iterator[int]) -> None:
        until = monotonic() + FLOOD_S
        while monotonic() < until:
            status = (await ask(next(numbers))).status_code
            answers[status] = answers.get(status, 0) + 1

    async with target.client(project="bystander") as other:
        (await other.post("/v1/networks", json={"spec": QUIET})).raise_for_status()
        doing = asyncio.gather(*(flood(turns) for _ in range(AT_ONCE)))
        while not doing.done() or not runs:
            began = monotonic()
            run = await target.run(other, [("workspace_list", {})], "look", network="brief")
            runs.append(monotonic() - began)
            if run["status"] != "completed":
                raise AttackWorkedError(f"a run of another project ended as {run['status']}")
        await doing
    if not answers or not answers.keys() <= {*refused, *BUSY}:
        raise ValueError(f"the requests were answered otherwise: {answers}")
    longest = f"a run of another project took {max(runs):.2f} s at most; answers were {answers}"
    if max(runs) > HELD_UP_S:
        raise AttackWorkedError(longest)
    return longest


@attack(Position.KEY_HOLDER, timed=True)
async def grants_of_many_conditions(target: Target) -> str:
    """Submit with an application's key, two dozen at once, tasks with 256 conditions in each grant."""
    async with target.client(scopes=["runs:write"]) as client:

        async def submit(turn: int) -> httpx2.Response:
            task = {"network": "desk", "user_message": "go", "grant": conditions(turn, 256, 120)}
            return await client.post("/v1/runs", json=task)

        return await slowest_run_beside(target, submit, [422])


@attack(Position.KEY_HOLDER, timed=True)
async def dry_runs_under_grants_that_take_long(target: Target) -> str:
    """Ask with a viewer's key, two dozen at once, under the longest grants that are taken."""
    async with target.client(scopes=["policy:read"]) as client:

        async def question(turn: int) -> httpx2.Response:
            asked = {"network": "desk", "agent_key": "clerk", "tool": "desk.send", "args": {"to": "a", "text": "b"}}
            return await client.post("/v1/policy/check", json={**asked, "grant": conditions(turn, 60, 45)})

        return await slowest_run_beside(target, question, [200])


@attack(Position.KEY_HOLDER, timed=True)
async def policies_of_hundreds_of_thousands_of_rules(target: Target) -> str:
    """Have, two dozen at once, policies checked that are a megabyte of empty rules."""
    text = "kind: Policy\nrules: [" + ",".join("[]" for _ in range(330_000)) + "]"
    async with target.client(scopes=["policy:write"]) as client:

        async def dry_run(_turn: int) -> httpx2.Response:
            return await client.post("/v1/policy", json={"text": text, "dry_run": True})

        return await slowest_run_beside(target, dry_run, [422])


def costly_rules(size: int, member: str) -> str:
    """Return a policy of so many characters of conditions that are never alike, and all decide about one tool."""
    rules, total = ["- {name: ok, effect: allow, tool: workspace_list}"], 0
    for place in count():
        body = "args.a == [" + ",".join(member for _ in range(1_200)) + "]"
        rules.append(
            f"- {{name: r{place}, effect: deny, tool: workspace_list, when: 'false && {place} == 1 && {body}'}}"
        )
        total += len(rules[-1])
        if total + len(rules[-1]) > size:
            break
    return "kind: Policy\nrules:\n" + "\n".join(rules) + "\n"


@attack(Position.KEY_HOLDER, timed=True)
async def policies_that_take_long_to_be_compiled(target: Target) -> str:
    """Store, with a key for policies and runs, the longest conditions that are taken, and have calls decided."""
    scopes = ["policy:write", "runs:write", "networks:write"]
    async with target.client(scopes=scopes, project="costly-rules") as client:
        (await client.post("/v1/networks", json={"spec": QUIET})).raise_for_status()
        too_much = await client.post("/v1/policy", json={"text": costly_rules(900_000, "1")})
        if too_much.status_code != 422:
            raise AttackWorkedError(f"a policy of 900,000 characters of conditions was answered {too_much.status_code}")

        async def turn(number: int) -> httpx2.Response:
            if not number:
                return await client.post("/v1/policy", json={"text": costly_rules(100_000, "-1")})
            decision = {"action": "USE_TOOL", "action_reasoning": "p"}
            script = [{**decision, "action_details": {"tool_name": "workspace_list", "tool_params": {}}}]
            await client.put("/v1/policy/shadow", json={"text": f"kind: Policy\nnote: '{number}'\nrules: []\n"})
            return await client.post("/v1/runs", json={"network": "brief", "user_message": "x", "script": script})

        return await slowest_run_beside(target, turn, [200, 201, 202])
