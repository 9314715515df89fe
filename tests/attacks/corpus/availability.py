"""Attacks by work: one message shall hold up what others ask for."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack, refused_as, require
from tests.attacks.target import NETWORK, Target, decision

from towpath_fabric.clock import monotonic

LONGEST_S = 5.0
"""The service itself may be held up for a second; the rest is for machines that do something else."""


def held_up(seconds: float, who: str = "another project waited") -> str:
    """Return how long others were held up; raises AttackWorkedError where that was too long."""
    said = f"{who} {seconds:.2f} s at most"
    if seconds > LONGEST_S:
        raise AttackWorkedError(said)
    return said


async def longest_answer(target: Target, attempt: Awaitable[Any], path: str = "/v1/policy") -> float:
    """Ask for *path* of another project until *attempt* is over; return the seconds of the slowest answer."""
    doing, longest = asyncio.ensure_future(attempt), 0.0
    async with target.client(project="bystander") as client:
        while True:
            over, began = doing.done(), monotonic()
            answer = await client.get(path)
            longest = max(longest, monotonic() - began)
            if answer.status_code >= 500:
                raise AttackWorkedError(f"another project was answered {answer.status_code} after {longest:.1f} s")
            if over:
                await doing
                return longest
            await asyncio.sleep(0.02)


@attack(Position.KEY_HOLDER, timed=True)
async def many_values_and_a_long_task(target: Target) -> str:
    """Have the origin of 500 values looked up in a task of 90,000 characters while another project asks."""
    ids = [f"v{place}@x.example" for place in range(500)]
    async with target.client() as client:
        doing = target.run(client, [("desk.notify", {"ids": ids})], "a " * 45_000)
        longest = await longest_answer(target, doing)
    return held_up(longest)


@attack(Position.KEY_HOLDER, timed=True)
async def forks_of_a_long_thread(target: Target) -> str:
    """Have 12 forks ask for a call whose values may be from anything that the runs of a thread have read."""
    said, before = target.mail.read_text("utf-8"), None
    text = "".join(f"é{place:x} a{place:x}@x.example " for place in range(2_400))
    async with target.client() as client, target.client(project="bystander") as other:
        await publish_quiet(other)
        target.mail.write_text(text, "utf-8")
        try:
            for number in range(3):
                reads = [
                    {"tool_name": "desk.mail", "tool_params": {"again": 1_000 * number + place}} for place in range(150)
                ]
                steps = [decision("USE_TOOL", calls=reads[place : place + 10]) for place in range(0, 150, 10)]
                script = [*steps, decision("RESPOND", payload="done")]
                task = {"network": NETWORK["name"], "user_message": "Read.", "script": script, "max_steps": 20}
                answer = await client.post("/v1/runs", json=task if before is None else {**task, "continues": before})
                before = answer.raise_for_status().json()["run_id"]
                await target.settled(client, before)
        finally:
            target.mail.write_text(said, "utf-8")
        sends = decision("USE_TOOL", tool_name="desk.send", tool_params={"to": "ann@desk.example", "text": "hi"})
        fork = {"from_step": 1, "script": [sends, decision("RESPOND", payload="done")], "fresh_budget": True}
        await asyncio.gather(*[client.post(f"/v1/runs/{before}/fork", json=fork) for _ in range(12)])
        longest, until = 0.0, monotonic() + 2 * LONGEST_S
        while monotonic() < until:
            began = monotonic()
            await quiet_run(target, other)
            longest = max(longest, monotonic() - began)
    return held_up(longest, "a run of another project took")


ONES = "[" + ",".join("1" * 24) + "]"
HIDDEN_LOOPS = (
    "".join(f"{ONES}.all//\n({name}, " for name in ("run", "caller", "agent", "origin", "int"))
    + "run + caller + agent + origin > 0"
    + ")" * 5
)
"""Eight million rounds: a comment stands between the name of each macro and its bracket."""

COSTLY_CONDITIONS = (
    HIDDEN_LOOPS,
    HIDDEN_LOOPS.replace("//\n", ""),
    "".join(f"{ONES}.existsOne(x{place}, " for place in range(5)) + "false" + ")" * 5,
    'args.to == r"\\" || ' + "+".join(["args.to"] * 120) + ' == "x"',
    "||".join(["args.to.matches('(?:a[abc]{150}|b[abc]{150}a|c[abc]{150}b)+[x-z]')"] * 10),
    "&&".join(["args == args"] * 60),
)


@attack(Position.KEY_HOLDER, timed=True)
async def a_question_with_conditions_that_take_long(target: Target) -> str:
    """Ask with a viewer's key whether a call would be allowed, under grants whose conditions would take minutes."""
    args = {"to": ("abacbc" * 20_000)[:100_000], "ids": ["x"] * 20_000}
    answers = []
    async with target.client(scopes=["policy:read"]) as client:
        for when in COSTLY_CONDITIONS:
            question = {"network": "desk", "agent_key": "clerk", "tool": "desk.send", "args": args}
            question["grant"] = [{"tool": "desk.*", "when": when}] * 50
            doing = asyncio.ensure_future(client.post("/v1/policy/check", json=question))
            longest = await longest_answer(target, doing)
            if doing.result().status_code == 200 and doing.result().json()["verdict"] == "allow":
                raise AttackWorkedError(f"a call was allowed under {when[:60]}")
            doing.result().raise_for_status()
            answers.append(longest)
    return held_up(max(answers))


@attack(Position.KEY_HOLDER, timed=True)
async def a_task_whose_grant_loops(target: Target) -> str:
    """Submit tasks whose grants hide macros behind comments, or cost much without any."""
    answers, accepted = [], 0
    async with target.client() as client:
        for when in COSTLY_CONDITIONS:
            task = {"network": "desk", "user_message": "go", "grant": [{"tool": "desk.*", "when": when}]}
            doing = asyncio.ensure_future(client.post("/v1/runs", json=task))
            answers.append(await longest_answer(target, doing))
            accepted += doing.result().is_success
            if "all" in when or not doing.result().is_success:
                refused_as(doing.result(), "grant_invalid", "request_invalid")
    return f"{len(COSTLY_CONDITIONS) - accepted} were refused, and {held_up(max(answers))}"


MAILS = ("\ufdfa" * 349_000, "ab cd " * 174_000)
"""Mails of a mebibyte: of letters that each are 18 where disguise is taken off, and of plain ones."""


LINES = [f"{place:06d} things that nobody did, says u{place}.{place * 7_919 % 10**6}" for place in range(190)]
"""Of a text to send: each line is looked up in all that the run has read."""


@attack(Position.KEY_HOLDER, timed=True)
async def many_costly_calls_of_one_decision(target: Target) -> str:
    """Let a run read long texts and then send ten long ones at once, while runs of another project wait."""
    for place, name in enumerate((target.mail, target.mail.with_name("cards.txt"))):
        name.write_text(" ".join(f"{place + one * 7_919 % 10**7:07d}" for one in range(118_000)), "utf-8")
    send = {"tool_name": "desk.send", "tool_params": {"to": "ann@desk.example", "text": "\n".join(LINES)}}
    script = [decision("USE_TOOL", tool_name=name, tool_params={}) for name in ("desk.mail", "desk.cards")]
    script += [decision("USE_TOOL", calls=[send] * 10), decision("RESPOND", payload="done")]
    longest = 0.0
    async with target.client() as client, target.client(project="bystander") as other:
        await publish_quiet(other)
        task = {"network": "desk", "user_message": "Tell Ann", "script": script}
        run_id = (await client.post("/v1/runs", json=task)).json()["run_id"]
        doing = asyncio.ensure_future(target.settled(client, run_id))
        while not doing.done():
            began = monotonic()
            await quiet_run(target, other)
            longest = max(longest, monotonic() - began)
        run = await doing
        await client.post(f"/v1/runs/{run_id}/cancel", json={})
    if run["calls"]["asked"] != 12:
        raise ValueError(f"the run has not come to its ten calls: {run['calls']}")
    return held_up(longest, "a run of another project took")


async def publish_quiet(client: httpx2.AsyncClient) -> None:
    """Publish a network whose runs need nothing of workers."""
    quiet = {**NETWORK, "name": "quiet", "agents": [{**NETWORK["agents"][0], "equipped_tools": ["workspace_list"]}]}
    (await client.post("/v1/networks", json={"spec": quiet})).raise_for_status()


async def quiet_run(target: Target, client: httpx2.AsyncClient) -> None:
    """Have a run of that network do its work; one that fails took no time that would tell anything."""
    run = await target.run(client, [("workspace_list", {})], "look", network="quiet")
    require(run["status"] == "completed", f"the run beside is {run['status']}: {run.get('reason')}")


@attack(Position.KEY_HOLDER, timed=True)
async def a_mail_that_becomes_long_when_it_is_read(target: Target) -> str:
    """Let a run read such mails eight times, while runs of another project wait for decisions about their calls."""
    longest = 0.0
    async with target.client() as client, target.client(project="bystander") as other:
        await publish_quiet(other)
        for mail in MAILS:
            target.mail.write_text(mail, "utf-8")
            calls: list[tuple[str, dict[str, Any]]] = [("desk.mail", {"again": again}) for again in range(8)]
            doing = asyncio.ensure_future(
                target.run(client, [*calls, ("desk.send", {"to": "ann@desk.example", "text": "hello"})], "Tell Ann")
            )
            while not doing.done():
                began = monotonic()
                await quiet_run(target, other)
                longest = max(longest, monotonic() - began)
            if (await doing)["status"] != "completed":  # else nobody asked where the values of the last call come from
                raise ValueError(f"the run is {doing.result()['status']}: {doing.result()['final']}")
    return held_up(longest, "a run of another project took")


@attack(Position.TOOL_OUTPUT, timed=True)
async def a_letter_with_marks_without_end(target: Target) -> str:
    """Let a record, a task and a call each hold a letter with 70,000 accents, while runs of another project wait."""
    marks, longest = "a" + "\u0315\u0316" * 35_000, 0.0
    target.mail.with_name("cards.txt").write_text(marks, "utf-8")
    send = {"to": "ann@desk.example", "text": marks}
    async with target.client() as client, target.client(project="bystander") as other:
        await publish_quiet(other)
        doing = asyncio.ensure_future(
            target.run(client, [("desk.cards", {}), ("desk.send", send)], f"Tell ann@desk.example of {marks}")
        )
        while True:
            over, began = doing.done(), monotonic()
            await quiet_run(target, other)
            longest = max(longest, monotonic() - began)
            if over:
                break
        run = await doing
    if run["calls"]["allowed"] != 2:
        raise ValueError(f"the run has not sent what it was to send: {run['calls']}")
    return held_up(longest, "a run of another project took")
