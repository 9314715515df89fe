"""Attacks by what is long to answer: bodies that are wrong everywhere, long logs of runs, long entries of the audit.

Another project shall wait for less than a second; LONGEST_S allows for machines that do something else. Auditors shall
read and export whatever an entry says.
"""

import asyncio
import json
from typing import Any
from uuid import UUID

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.corpus.audit import bundle_of
from tests.attacks.corpus.availability import held_up, longest_answer
from tests.attacks.corpus.schemas import register
from tests.attacks.target import NETWORK, Target, decision

from towpath_audit.verifier import verify
from towpath_fabric.clock import monotonic, wall

QUESTION = {"network": NETWORK["name"], "agent_key": "clerk", "tool": "desk.mail"}
EVENTS = 900
LONG_LOG = """
INSERT INTO runs.run_event (run_id, seq, at, type, event)
SELECT $1, place, now(), 'note_added',
  json_build_object('type', 'note_added', 'step', 1, 'text', repeat(md5(place::text), 1900))
FROM runs.run, generate_series(run.seq + 1, run.seq + $2) AS place WHERE run_id = $1
"""
RESULTS = 2_000
READ_S = 240
LONG_RESULTS = """
INSERT INTO runs.run_event (run_id, seq, at, type, event)
SELECT $1, place, now(), 'tool_call_finished',
  json_build_object('type', 'tool_call_finished', 'execution_id', gen_random_uuid(), 'step', 1, 'epoch', 0,
    'agent_key', 'clerk', 'call_index', 0, 'tool', 'desk.cards', 'status', 'succeeded',
    'result', ('[0.5' || repeat(',0.5', 15900) || ']')::json)
FROM runs.run, generate_series(run.seq + 1, run.seq + $2) AS place WHERE run_id = $1
"""

CHILDREN = 500
LONG_ENDS = """
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at,
  updated_at, parent_run_id, root_run_id, depth, outcome)
SELECT gen_random_uuid(), project, kind, 'none', 1, '', 'completed', 1, caller, now(), now(), run_id, run_id, 1,
  ('{"final": {"rows": [{}' || repeat(',{}', 45000) || ']}}')::json
FROM runs.run, generate_series(1, $2) WHERE run_id = $1
"""


@attack(Position.KEY_HOLDER, timed=True)
async def bodies_that_are_wrong_in_half_a_million_places(target: Target) -> str:
    """Ask with bodies of 1 MB in which everything is wrong, while another project asks for its policy."""
    bodies = [
        {**QUESTION, "grant": [0] * 480_000},
        {**QUESTION, "grant": [0] * 45_000},
        {f"a{place:x}": 0 for place in range(90_000)},
    ]
    async with target.client(scopes=["policy:read"]) as client:
        doing = asyncio.gather(*[client.post("/v1/policy/check", content=_text(body), headers=JSON) for body in bodies])
        longest = await longest_answer(target, doing)
    for answer in doing.result():
        if answer.status_code not in {400, 422}:
            raise ValueError(f"a wrong body was answered {answer.status_code}")
        if len(answer.content) > 100_000:
            raise AttackWorkedError(f"the answer to a wrong body has {len(answer.content)} bytes")
    return held_up(longest)


JSON = {"Content-Type": "application/json"}


@attack(Position.KEY_HOLDER, timed=True)
async def a_conversation_of_many_numbers(target: Target) -> str:
    """Read the conversation of a run with 128 MB of numbers in its results, while another project lists its runs."""
    async with target.client() as client:
        path = await _long_run(target, client, LONG_RESULTS, RESULTS)
        asking = asyncio.ensure_future(client.get(f"{path}/messages", timeout=READ_S))
        longest = await longest_answer(target, asking, "/v1/runs")
    asking.result().raise_for_status()
    return held_up(longest)


async def _long_run(target: Target, client: httpx2.AsyncClient, events: str, count: int) -> str:
    """Return where a run is found that has *count* more *events*: what many calls leave, without their time."""
    run = await target.run(client, [], "go")
    run_id = UUID(run["run_id"])
    async with target.database() as database:
        await database.execute(events, run_id, count)
        await database.execute("UPDATE runs.run SET seq = seq + $2 WHERE run_id = $1", run_id, count)
        await database.execute("ANALYZE runs.run_event")
    return f"/v1/runs/{run_id}"


def _text(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


@attack(Position.KEY_HOLDER, timed=True)
async def readers_of_a_long_run(target: Target) -> str:
    """Read pages and nodes of a run with 54 MB of events, 61 at a time, while another project lists its runs."""
    async with target.client() as client:
        path = await _long_run(target, client, LONG_LOG, EVENTS)
        asked = [f"{path}/events?limit=1000"] * 60 + [f"{path}/nodes"]
        doing = asyncio.gather(*[client.get(one) for one in asked])
        longest = await longest_answer(target, doing, "/v1/runs")
    answers = {answer.status_code for answer in doing.result()}
    if 200 not in answers or not answers <= {200, 429, 503}:  # on a slow machine some wait too long behind the others
        raise ValueError(f"readers were answered {sorted(answers)}")
    return held_up(longest)


@attack(Position.KEY_HOLDER, timed=True)
async def trees_of_runs_with_many_values(target: Target) -> str:
    """Ask for the tree of 500 runs, each of which answered 45,000 values, three times at once."""
    async with target.client() as client, target.database() as database:
        run_id = UUID((await target.run(client, [], "go"))["run_id"])
        await database.execute(LONG_ENDS, run_id, CHILDREN)
        try:
            asked = [f"/v1/runs/{run_id}/tree"] * 2 + [f"/v1/runs?root_run_id={run_id}&limit=200"]
            doing = asyncio.gather(*[client.get(one) for one in asked])
            longest = await longest_answer(target, doing, "/v1/runs")
        finally:
            await database.execute("DELETE FROM runs.run WHERE parent_run_id = $1", run_id)
    answers = {answer.status_code for answer in doing.result()}
    if not answers <= {200, 429, 503}:
        raise ValueError(f"readers of trees were answered {sorted(answers)}")
    return held_up(longest)


WIDE: dict[str, Any] = {"name": "desk.wide", "toolset": "desk", "effect_class": "idempotent"}
RULE = {"name": "wide", "tool": "desk.wide", "effect": "allow", "when": 'origin.worst_sink != "untrusted"'}
NAMES = {'"' * 934 + "é" * 74 + f"{place:02x}": 1 for place in range(128)}
"""A decision of 256 kB, whose names have 300 kB in the details of an entry, and had more than 1 MB in a message."""

DECIDED_WITHIN_S = 60


@attack(Position.KEY_HOLDER)
async def stop_the_export_with_names_of_arguments(target: Target) -> str:
    """Name arguments with thousands of quotes, where rules ask for `origin`, so that no message takes their entry."""
    answer = await register(target, {**WIDE, "parameters": {"type": "object"}})
    if answer["standings"][0]["status"] == "pending":
        raise ValueError(f"the tool waits for a person: {answer}")
    since = wall().isoformat()
    async with target.client(roles=["policy_admin"]) as admin:
        (await admin.put("/v1/policy/rules/wide", json={"rule": RULE})).raise_for_status()
        try:
            (await admin.post("/v1/networks", json={"spec": _wide_network()})).raise_for_status()
            for _ in range(4):
                await _ask_for_a_wide_call(target)
        finally:
            (await admin.delete("/v1/policy/rules/wide")).raise_for_status()
    return await _read_all(target, since)


def _wide_network() -> dict[str, Any]:
    (agent,) = NETWORK["agents"]
    return {**NETWORK, "name": "wide", "agents": [{**agent, "equipped_tools": [WIDE["name"]]}]}


async def _ask_for_a_wide_call(target: Target) -> None:
    """Have the call decided, and cancel its run: nobody has the tool."""
    script = [decision("USE_TOOL", tool_name=WIDE["name"], tool_params=NAMES), decision("RESPOND", payload="done")]
    async with target.client(scopes=["runs:write", "runs:read", "runs:operate", "audit:read"]) as client:
        accepted = await client.post("/v1/runs", json={"network": "wide", "user_message": "go", "script": script})
        accepted.raise_for_status()
        run_id = accepted.json()["run_id"]
        await _decided(client, run_id)
        await client.post(f"/v1/runs/{run_id}/cancel", json={})


async def _decided(client: httpx2.AsyncClient, run_id: str) -> None:
    until = monotonic() + DECIDED_WITHIN_S
    while (await client.get("/v1/audit", params={"run_id": run_id, "limit": 1})).json().get("total") == 0:
        if monotonic() > until:
            raise TimeoutError(f"the call of {run_id} was not decided")
        await asyncio.sleep(0.1)


async def _read_all(target: Target, since: str) -> str:
    async with target.client(scopes=["audit:read"]) as auditor:
        page = await auditor.get("/v1/audit")
        if not page.is_success:
            raise AttackWorkedError(f"a page of the audit was answered {page.text[:200]}")
        try:
            lines = await bundle_of(auditor, since=since)
        except httpx2.HTTPStatusError as error:
            raise AttackWorkedError(f"the export was answered {error.response.text[:200]}") from error
    wide = [line for line in map(json.loads, lines) if line["kind"] == "leaf" and line["entry"]["tool"] == WIDE["name"]]
    if not any("withheld" in line for line in wide):
        raise ValueError("no long entry was exported")
    found = [fault for fault in verify(lines).faults if fault.leaf in {line["leaf"] for line in wide}]
    if found:
        raise AttackWorkedError(f"a fault was told of what nobody changed: {found[0]}")
    return f"exported, but for the names in {sum('withheld' in line for line in wide)} entries"
