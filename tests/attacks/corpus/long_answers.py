"""Attacks by what is long to answer: bodies that are wrong everywhere, and runs with long logs.

Another project shall wait for less than a second; LONGEST_S allows for machines that do something else.
"""

import asyncio
import json
from uuid import UUID

from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.corpus.availability import held_up, longest_answer
from tests.attacks.target import NETWORK, Target

QUESTION = {"network": NETWORK["name"], "agent_key": "clerk", "tool": "desk.mail"}
EVENTS = 900
LONG_LOG = """
INSERT INTO runs.run_event (run_id, seq, at, type, event)
SELECT $1, place, now(), 'note_added',
  json_build_object('type', 'note_added', 'step', 1, 'text', repeat(md5(place::text), 1900))
FROM runs.run, generate_series(run.seq + 1, run.seq + $2) AS place WHERE run_id = $1
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


def _text(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


@attack(Position.KEY_HOLDER, timed=True)
async def readers_of_a_long_run(target: Target) -> str:
    """Read pages and nodes of a run with 54 MB of events, 61 at a time, while another project lists its runs."""
    async with target.client() as client:
        run = await target.run(client, [], "go")
        path = f"/v1/runs/{run['run_id']}"
        async with target.database() as database:  # what many calls with long results leave, without their time
            await database.execute(LONG_LOG, UUID(run["run_id"]), EVENTS)
            await database.execute("UPDATE runs.run SET seq = seq + $2 WHERE run_id = $1", UUID(run["run_id"]), EVENTS)
        asked = [f"{path}/events?limit=1000"] * 60 + [f"{path}/nodes"]
        doing = asyncio.gather(*[client.get(one) for one in asked])
        longest = await longest_answer(target, doing, "/v1/runs")
    answers = {answer.status_code for answer in doing.result()}
    if 200 not in answers or not answers <= {200, 429, 503}:  # on a slow machine some wait too long behind the others
        raise ValueError(f"readers were answered {sorted(answers)}")
    return held_up(longest)
