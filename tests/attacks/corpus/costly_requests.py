"""Attacks by requests whose check takes long: schemas to compare, prompts to compile, names to be guessed.

Another project shall wait for less than a second; LONGEST_S allows for machines that do something else.
"""

import asyncio
import json
import random
from typing import Any

import httpx2
import nats
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.corpus.availability import held_up, longest_answer
from tests.attacks.target import NETWORK, Target

from towpath_fabric.clock import monotonic

CLERK: dict[str, Any] = {"equipped_tools": ["desk.mail"], "allow_respond": True, "prompt_template": "x"}
DENSE = "{% if tools %}x{{agent_key|upper}}{% else %}y{% endif %}" * 380
NESTED = ("{{ tools" + "|upper" * 120 + " }}") * 20


def network(agents: int, **more: Any) -> dict[str, Any]:
    """Return a network with so many agents; a function in *more* is called with the place of its agent."""
    made = [
        {**CLERK, "key": f"a{place}", "is_default": place == 0, **{name: give(place) for name, give in more.items()}}
        for place in range(agents)
    ]
    return {"spec": {**NETWORK, "name": "costly", "agents": made}}


def schema(properties: int, head: str) -> dict[str, Any]:
    """Return a schema with so many properties, whose names begin with *head*."""
    return {"type": "object", "properties": {f"{head}_{place}": {} for place in range(properties)}}


def costly_networks(turn: int) -> list[dict[str, Any]]:
    """Return networks that no other turn has: the last is about the most that is taken, the others are refused."""
    return [
        network(45, prompt_template=lambda place: f"{DENSE}{place}{turn}"),
        network(20, prompt_template=lambda place: f"{NESTED}{place}{turn}"),
        network(50, respond_schema=lambda place: schema(300, f"{turn}_{place}")),
        network(
            2,
            prompt_template=lambda place: f"{DENSE[: len(DENSE) // 2]}{place}{turn}",
            respond_schema=lambda place: schema(1_900, f"{turn}_{place}"),
        ),
    ]


@attack(Position.KEY_HOLDER, timed=True)
async def networks_that_take_long_to_be_checked(target: Target) -> str:
    """Have networks validated with a viewer's key, three at a time, while another project asks for its own."""
    answers = []
    async with target.client(scopes=["networks:read"]) as client:
        for bodies in zip(*map(costly_networks, range(3)), strict=True):
            doing = asyncio.gather(*[client.post("/v1/networks/validate", json=body) for body in bodies])
            answers.append(await longest_answer(target, doing, "/v1/networks"))
    # On a slow machine the last of the three may wait behind the asker's own others for longer than is waited.
    refused = [answer for answer in doing.result() if answer.status_code != 200]
    if len(refused) == 3 or any(answer.status_code != 503 for answer in refused):
        raise ValueError(f"what may be asked for was refused: {refused[0].text[:300]}")
    return held_up(max(answers))


@attack(Position.KEY_HOLDER, timed=True)
async def a_task_whose_schema_takes_long_to_be_compiled(target: Target) -> str:
    """Submit tasks with large answer schemas, each another one, while another project asks for its networks."""

    def task(place: int) -> dict[str, Any]:
        return {"network": NETWORK["name"], "user_message": "go", "response_schema": schema(1_900, str(place))}

    async with target.client() as client:
        doing = asyncio.gather(*[client.post("/v1/runs", json=task(place)) for place in range(4)])
        return held_up(await longest_answer(target, doing, "/v1/networks"))


@attack(Position.WORKER, timed=True)
async def long_lists_of_values_to_be_compared(target: Target) -> str:
    """Register tools with lists of 21,000 values, and then others, while another project asks for its policy."""
    await register(target, [0] * 21_000 + [1], "before")
    longest = await longest_answer(target, register(target, [1] * 21_000, "after"))
    return held_up(max(longest, await longest_answer(target, register(target, [1] * 21_000, "after"))))


async def register(target: Target, values: list[int], description: str) -> None:
    """Register five tools with the credential of the target's worker; raises ValueError where they are refused."""
    tools = [
        {
            "name": f"desk.list{place}",
            "toolset": "desk",
            "effect_class": "pure",
            "description": description,
            "parameters": {"type": "object", "properties": {"a": {"enum": values}}},
        }
        for place in range(5)
    ]
    answer = await ask_as_worker(target, tools)
    if "standings" not in answer:
        raise ValueError(f"the tools were not taken: {str(answer)[:300]}")


async def ask_as_worker(target: Target, tools: list[dict[str, Any]]) -> dict[str, Any]:
    connection = await nats.connect(
        target.platform.nats_url_of("tools_1"), inbox_prefix=b"_INBOX_worker", allow_reconnect=False
    )
    try:
        body = {"project": "default", "toolset": "desk", "worker": "w", "owner": "o", "tools": tools}
        text = json.dumps(body, separators=(",", ":")).encode()
        answer = await connection.request("svc.tas.register_tools.default.desk", text, timeout=60)
        found: dict[str, Any] = json.loads(answer.data)
        return found
    finally:
        await connection.close()


@attack(Position.WORKER, timed=True)
async def names_that_take_long_to_be_compared(target: Target) -> str:
    """Have a grant name 256 tools that a network with 300 tools has not, all of the same 118 letters."""
    letters, chance = list("abcdefghijklmnop" * 7 + "qrstuv"), random.Random(7)
    names = ["desk." + "".join(chance.sample(letters, len(letters))) for _ in range(556)]
    tools = [{"name": name, "toolset": "desk", "effect_class": "pure"} for name in names[:300]]
    await ask_as_worker(target, tools)
    async with target.client() as client:
        made = await client.post("/v1/networks", json=network(1, equipped_tools=lambda _: names[:300]))
        made.raise_for_status()
        task = {"network": "costly", "user_message": "go", "grant": [{"tool": name} for name in names[300:]]}

        async def submit() -> httpx2.Response:
            return await client.post("/v1/runs", json=task)

        return held_up(await longest_answer(target, submit(), "/v1/networks"))


COSTLY_NETWORKS = 20
HELD_UP_S = 4.0
"""All of them together take longer than that to be compiled."""


@attack(Position.KEY_HOLDER, timed=True)
async def prompts_that_take_long_to_be_compiled(target: Target) -> str:
    """Begin runs of 20 networks, each with the largest prompt that is taken, while runs of another project decide."""
    quiet = {**NETWORK, "name": "brief", "agents": [{**NETWORK["agents"][0], "equipped_tools": ["workspace_list"]}]}
    names = [f"dense{place}" for place in range(COSTLY_NETWORKS)]
    async with target.client() as client, target.client(project="bystander") as other:
        (await other.post("/v1/networks", json={"spec": quiet})).raise_for_status()
        for name in names:
            body = network(1, prompt_template=lambda _, name=name: DENSE + name)
            (await client.post("/v1/networks", json={"spec": {**body["spec"], "name": name}})).raise_for_status()
        doing = asyncio.gather(*(target.run(client, [], "go", network=name) for name in names))
        answers = []
        while not doing.done():
            began = monotonic()
            await target.run(other, [("workspace_list", {})], "look", network="brief")
            answers.append(monotonic() - began)
        runs = await doing
    failed = [run["status"] for run in runs if run["status"] != "completed"]
    if failed:
        raise ValueError(f"{len(failed)} of the runs did not end: {failed[0]}")
    longest = f"a run of another project took {max(answers):.2f} s at most"
    if max(answers) > HELD_UP_S:
        raise AttackWorkedError(longest)
    return longest
