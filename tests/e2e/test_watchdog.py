"""The second look at runs, on a whole platform: the watchdog while they go on, their history afterwards."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from tests.support.places import TESTS

from towpath.cli import main
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = TESTS / "support" / "worker" / "watched_tools.py"
NETWORK = {
    "name": "watched",
    "agents": [
        {
            "key": "a",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": ["notes.search", "notes.find", "notes.hold"],
            "prompt_template": "Find the invoice.",
        }
    ],
    "max_steps": 20,
}
QUERIES = (
    "invoice of the acme company for march",
    "invoice of the acme company for the march",
    "the invoice of the acme company for march",
    "march invoice of the acme company for",
    "for march the acme company invoice of",
)
SAID = "The last 5 steps did almost the same thing and brought nothing new. Do something else."


def use(tool: str, **params: Any) -> dict[str, Any]:
    """Return the decision to use a tool."""
    details = {"tool_name": tool, "tool_params": params}
    return {"action": "USE_TOOL", "action_reasoning": f"{tool} {params}", "action_details": details}


ANSWER = {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}}
SEARCHES = [use("notes.search", query=query) for query in QUERIES]


@pytest.fixture(scope="module")
def place() -> Any:
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text("kind: Policy\nrules:\n  - {name: notes, tool: 'notes.*', effect: allow}\n")
        (folder / "let_go").mkdir()
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(place: Path) -> AsyncIterator[Platform]:
    running = Platform(
        place / "d",
        environment={"TOWPATH_WATCHDOG_LINGER_MS": "20"},
        role_environment={"tas": {"TOWPATH_POLICY_FILE": str(place / "policy.yaml")}},
        workers=[WorkerLaunch(modules=(str(TOOLS),), environment={"TOWPATH_TEST_LET_GO": str(place / "let_go")})],
        durable=False,
        starts="fork",
    )
    async with running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(platform: Platform) -> AsyncIterator[httpx2.AsyncClient]:
    """A client, with the network published as soon as its tools are known."""
    async with httpx2.AsyncClient(base_url=platform.client_url, verify=False, timeout=60) as connected:

        async def published() -> bool:
            return (await connected.post("/v1/networks", json={"spec": NETWORK})).status_code in {200, 201}

        await until(published)
        yield connected


async def until(true: Callable[[], Any], within_s: float = 90) -> None:
    """Wait until *true* returns true."""
    async with asyncio.timeout(within_s):
        while not await true():  # noqa: ASYNC110 - what is waited for is in other processes
            await asyncio.sleep(0.05)


async def newest(client: httpx2.AsyncClient) -> str:
    """Return the run that was submitted last, once it is there."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = (await client.get("/v1/runs", params={"limit": 1})).json()["runs"]
        return bool(found) and found[0]["status"] == "running"

    await until(there)
    return str(found[0]["run_id"])


async def submit(client: httpx2.AsyncClient, script: list[dict[str, Any]]) -> str:
    answer = await client.post("/v1/runs", json={**TASK, "script": script})
    assert answer.status_code in {200, 201, 202}, answer.text
    return str(answer.json()["run_id"])


TASK = {"network": "watched", "user_message": "Find the invoice."}


async def events(client: httpx2.AsyncClient, run_id: str, kind: str) -> list[dict[str, Any]]:
    page = (await client.get(f"/v1/runs/{run_id}/events", params={"limit": 1_000})).json()
    return [entry["event"] for entry in page["entries"] if entry["event"]["type"] == kind]


async def ended(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    async def final() -> bool:
        return (await client.get(f"/v1/runs/{run_id}")).json()["final"] is not None

    await until(final)
    found: dict[str, Any] = (await client.get(f"/v1/runs/{run_id}")).json()
    return found


async def judged(platform: Platform) -> float:
    """Return how many times the watchdog that runs now has judged a run."""
    async with httpx2.AsyncClient(verify=False, timeout=60) as asking:
        try:
            text = (await asking.get(f"{platform.health_url('watchdog')}/metrics")).text
        except httpx2.HTTPError:
            return 0.0
    lines = [line for line in text.splitlines() if line.startswith("towpath_watchdog_judged_total ")]
    return float(lines[0].split()[1]) if lines else 0.0


async def test_c6_similar_actions_are_reported_and_the_next_prompt_says_so(
    platform: Platform, client: httpx2.AsyncClient, place: Path
) -> None:
    """C6: loop detection, external: watchdog on similarity of actions (> 0.7); once, also when it is killed."""
    script = [*SEARCHES, use("notes.hold", name="one"), *SEARCHES[:4], use("notes.hold", name="two"), ANSWER]
    running = asyncio.create_task(client.post("/run", json={**TASK, "script": script, "debug": True}))
    run_id = await newest(client)

    async def reported() -> bool:
        return bool(await events(client, run_id, "watchdog_reported"))

    await until(reported)
    await platform.hold("watchdog")
    (place / "let_go" / "one").touch()

    async def holds_again() -> bool:
        return len(await events(client, run_id, "instruction_issued")) == len(script) - 1

    await until(holds_again)
    platform.release("watchdog")

    async def looked_again() -> bool:
        return await judged(platform) > 0

    await until(looked_again)  # a new watchdog, which knows the run from its log alone
    (place / "let_go" / "two").touch()
    answer = (await running).json()
    assert (answer["run_id"], answer["status"]) == (run_id, "completed")
    (report,) = await events(client, run_id, "watchdog_reported")
    assert (report["finding"], report["action"], report["tools"]) == ("similar_actions", "nudge", ["notes.search"])
    assert report["score"] > 0.7
    assert [note["text"] for note in await events(client, run_id, "note_added")] == [SAID]
    assert min(step["step"] for step in answer["debug"]["steps"] if SAID in step["prompt"]) == 7  # the one after it


async def test_c6_lists_of_words_are_alike_whatever_their_order(client: httpx2.AsyncClient, place: Path) -> None:
    """C6: arguments that are lists of words are similar as texts of them are; another entry of a list is not."""
    words = ["invoice", "acme", "march", "paid"]
    orders = [words[n:] + words[:n] for n in range(4)] + [words[::-1]]
    others = [["invoice", "acme", month, "paid"] for month in ("april", "may", "june", "july", "august")]
    finds = [use("notes.find", words=one) for one in (*others, *orders)]
    run_id = await submit(client, [*finds, use("notes.hold", name="lists"), ANSWER])

    async def reported() -> bool:
        return bool(await events(client, run_id, "watchdog_reported"))

    await until(reported)
    (place / "let_go" / "lists").touch()
    await ended(client, run_id)
    (report,) = await events(client, run_id, "watchdog_reported")
    assert (report["finding"], report["action"], report["tools"]) == ("similar_actions", "nudge", ["notes.find"])
    started = await events(client, run_id, "instruction_issued")
    assert started[5]["instruction"]["calls"][0]["args"] == {"words": orders[0]} and report["steps"] == 5


async def test_a_platform_without_its_watchdog_misses_nothing(platform: Platform, client: httpx2.AsyncClient) -> None:
    await platform.hold("watchdog")
    run = await ended(client, await submit(client, [*SEARCHES, ANSWER]))
    assert (run["status"], run["step"]) == ("completed", 6)
    platform.release("watchdog")


async def test_c12_gateway_and_command_line_show_the_history_of_a_goal_run(
    client: httpx2.AsyncClient, platform: Platform, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C12: tables agent_execution_history, agent_execution_steps, filled by the loop itself; final_status success,
    failed or escalated; state_snapshot is the final TaskState."""
    (place / "let_go" / "three").touch()
    goal = {"goal": "let three go", "acceptance_criteria": [{"when": "last_output == 'three was let go'"}]}
    script = [SEARCHES[0], use("notes.hold", name="three")]
    answer = await client.post("/v1/runs", json={"network": "watched", "goal": goal, "script": script})
    run = await ended(client, str(answer.json()["run_id"]))
    assert (run["status"], run["reason"]) == ("completed", "criteria_met")

    async def is_shown() -> bool:
        return (await client.get(f"/v1/runs/{run['run_id']}/history")).json()["seq"] >= run["seq"]

    await until(is_shown)
    found = (await client.get(f"/v1/runs/{run['run_id']}/history")).json()
    whole, steps = found["history"], found["steps"]
    assert (whole["final_status"], whole["total_steps"], whole["escalation_reason"]) == ("success", 2, None)
    assert (whole["state_snapshot"]["goal"], whole["state_snapshot"]["max_steps"]) == ("let three go", 20)
    assert [one["planned_action"]["action"] for one in whole["state_snapshot"]["steps_history"]] == ["USE_TOOL"] * 2
    assert [(step["success"], step["validation"]["success"], step["attempt_number"]) for step in steps] == [
        (True, True, 1),
        (True, True, 1),
    ]
    assert steps[1]["result"]["0"]["result"] == "three was let go"
    words = ["runs", "history", str(run["run_id"]), "--server", platform.client_url, "-o", "json"]
    assert await asyncio.to_thread(main, words) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["history"]["final_status"], len(shown["steps"])) == ("success", 2)
