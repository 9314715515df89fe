"""Large results from outside: shown by beginning and end, read in parts, searched; in all kinds of runs, and forks."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx2
import pytest
import pytest_asyncio
from tests.support.places import TESTS
from tests.support.platform.goal_platform import respond, use
from tests.support.worker.report_tools import LINE, NEEDLE, REPORT

from towpath import Agent, Client, Goal, Objective, RefusedError, Swarm, plan
from towpath_audit.verifier import verify
from towpath_contracts.tools.previews import text_bytes
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import AgentLaunch, WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = TESTS / "support" / "worker" / "report_tools.py"
SIZE = len(REPORT.encode())
FOUND = {"found": NEEDLE, "tool": "report.read", "bytes": SIZE}
POLICY = """
kind: Policy
rules:
  - {name: report, tool: "report.*", effect: allow}
  - {name: plan, tool: "plan_*", effect: allow}
  - {name: delegate, tool: delegate_to_ann, effect: allow}
  - {name: strangers, tool: report.send, effect: deny, when: 'origin.worst_sink == "untrusted"'}
"""
SEARCH = {
    "name": "search",
    "model": "agent:finder",
    "goal": {"validate_steps": False},
    "agents": [
        {
            "key": "finder",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": ["report.read", "plan_setup"],
        }
    ],
}
SCRIPTED = {
    "name": "scripted",
    "agents": [
        {
            "key": "reader",
            "is_default": True,
            "allow_respond": True,
            "allowed_routes": ["second"],
            "equipped_tools": ["report.read", "report.part", "report.send", "workspace_list"],
        },
        {"key": "second", "allow_respond": True},
    ],
}

CREW = Swarm("crew", [Agent("lead"), Agent("ann")], mode="team")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url() -> AsyncIterator[str]:
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text(POLICY)
        policy = {"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}}
        workers = [WorkerLaunch(modules=(str(TOOLS),)), AgentLaunch(target=f"{TOOLS}:Finder", name="finder")]
        async with (
            Platform(folder / "d", role_environment=policy, workers=workers, durable=False, starts="fork") as running,
            Client(running.client_url) as connected,
        ):
            for network in (SEARCH, SCRIPTED, CREW):
                await connected.networks.publish(network)
            yield running.client_url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(url: str) -> AsyncIterator[Client]:
    async with Client(url) as connected:
        yield connected


async def events(client: Client, run_id: UUID, kind: str) -> list[Any]:
    async with asyncio.timeout(60):
        return [entry.event async for entry in client.events(run_id) if entry.event.type == kind]


async def replayed(client: Client, run_id: UUID) -> str:
    answer = await client._transport.request("GET", f"/v1/runs/{run_id}/replay")
    return str(answer["verdict"])


async def test_a16_a_large_result_is_found_by_search_and_read_in_part(client: Client) -> None:
    done = await client.run("search", "Find the word.", timeout=90)
    assert (done.status, done.final) == ("completed", FOUND), done
    calls = await events(client, done.run_id, "tool_call_finished")
    assert [(one.tool, one.status) for one in calls] == [
        ("report.read", "succeeded"),
        ("output_search", "succeeded"),
        ("output_read", "succeeded"),
    ]
    large = calls[0]
    assert large.blob and large.result is None and large.preview.size == SIZE
    assert REPORT.startswith(large.preview.head) and REPORT.endswith(large.preview.tail)
    assert await replayed(client, done.run_id) == "identical"
    entries = (await client.audit.search(run_id=done.run_id)).entries
    decided = [(one.tool, one.verdict) for one in entries if one.phase == "decision"]
    assert sorted(decided) == [("output_read", "allow"), ("output_search", "allow"), ("report.read", "allow")]


async def test_a16_a_fork_reads_what_its_parent_was_given_before_it(client: Client) -> None:
    done = await client.run("search", "Find the word.", timeout=90)
    fork = await client.fork(done.run_id, 2)
    ended = await client.result(fork.run_id, timeout=90)
    assert (ended.status, ended.final) == ("completed", FOUND), ended
    calls = await events(client, fork.run_id, "tool_call_finished")
    assert [one.tool for one in calls] == ["output_search", "output_read"], "the report is not read again"
    again = await client.fork(fork.run_id, 3)
    assert (await client.result(again.run_id, timeout=90)).final == FOUND, "a fork of a fork does so too"
    assert [await replayed(client, run) for run in (fork.run_id, again.run_id)] == ["identical", "identical"]


async def test_a16_a_goal_run_and_a_background_run_read_large_results(client: Client) -> None:
    goal = await client.run("search", goal=Goal("Find it.", criteria=[f"claimed.found == '{NEEDLE}'"]), timeout=90)
    assert (goal.status, goal.reason) == ("completed", "criteria_met"), goal
    objective = await client.run("search", background=Objective("Find it."), timeout=90)
    assert objective.status == "completed", objective
    for done in (goal, objective):
        calls = await events(client, done.run_id, "tool_call_finished")
        assert [one.tool for one in calls][-3:] == ["report.read", "output_search", "output_read"]
        assert NEEDLE in str(calls[-1].result)
        assert await replayed(client, done.run_id) == "identical"


async def test_a16_a_run_reads_the_outputs_of_no_other_run(client: Client) -> None:
    first = await client.run("search", "Find the word.", timeout=90)
    (large, *_) = await events(client, first.run_id, "tool_call_finished")
    other = await client.run("search", str(large.execution_id), timeout=90)
    assert other.final["status"] == "failed" and "output_unknown" in other.final["said"], other


async def test_a16_a_fork_reads_nothing_of_the_step_that_it_does_anew(client: Client) -> None:
    done = await client.run("scripted", "Read it.", script=[use("report.read", "reader"), respond("read")], timeout=90)
    (large,) = await events(client, done.run_id, "tool_call_finished")
    fates = []
    for step in (1, 2):
        script = [use("output_read", "reader", execution_id=str(large.execution_id)), respond("tried")]
        fork = await client.fork(done.run_id, step, script=script)
        (call,) = await events(client, fork.run_id, "tool_call_finished")
        fates.append(call.failure.code if call.failure is not None else call.status)
    assert fates == ["output_unknown", "succeeded"]


async def test_what_stands_in_the_log_is_read_as_what_is_stored_elsewhere(client: Client) -> None:
    """Also the reason of a denial, and what was read before."""
    calls = [("report.part", {"number": 7}), ("report.send", {"to": "nobody-said"}), ("workspace_list", {})]
    script = [use(tool, "reader", **args) for tool, args in calls]
    done = await client.run("scripted", "Read it.", script=[*script, respond("read")], timeout=90)
    ended = await events(client, done.run_id, "tool_call_finished")
    (denied,) = await events(client, done.run_id, "tool_call_denied")
    ids = [str(one.execution_id) for one in (ended[0], denied)]
    reads = [
        use("output_read", "reader", execution_id=one, offset=offset)
        for one, offset in zip(ids, (19_990, 0), strict=True)
    ]
    fork = await client.fork(done.run_id, 4, script=[*reads, respond("seen")])
    part, why = [one.result for one in await events(client, fork.run_id, "tool_call_finished")]
    assert (part["text"], part["offset"], part["next_offset"]) == ("7" * 10, 19_990, None)
    assert (why["tool"], why["status"]) == (denied.tool, "denied") and denied.denial.reason in why["text"]


async def test_a_new_agent_of_the_run_reads_what_an_earlier_one_was_given(client: Client) -> None:
    """It sees nothing of it: it has to be told the id."""
    done = await client.run("scripted", "Read it.", script=[use("report.read", "reader"), respond("read")], timeout=90)
    (large,) = await events(client, done.run_id, "tool_call_finished")
    routed = {"target_agent_name": "second", "context": f"Look into {large.execution_id}."}
    script = [
        {"agent": "reader", "action": "ROUTE_TO_AGENT", "action_details": routed},
        use("output_search", "second", execution_id=str(large.execution_id), text="Halyard"),
        {**respond("found"), "agent": "second"},
    ]
    fork = await client.fork(done.run_id, 2, script=script)
    (call,) = await events(client, fork.run_id, "tool_call_finished")
    assert (call.agent_key, call.status, len(call.result["matches"])) == ("second", "succeeded", 1)
    assert await replayed(client, fork.run_id) == "identical"


async def test_an_address_in_a_part_is_as_untrusted_as_in_the_output(client: Client) -> None:
    first = [use("report.read", "reader"), respond("read")]
    done = await client.run("scripted", "Read it.", script=first, timeout=90)
    (large,) = await events(client, done.run_id, "tool_call_finished")
    at = REPORT.encode().index(b"ann@acme")
    part = {"execution_id": str(large.execution_id), "offset": at, "limit": len(b"ann@acme.example")}
    script = [use("output_read", "reader", **part), use("report.send", "reader", to="ann@acme.example")]
    fork = await client.fork(done.run_id, 2, script=[*script, respond("tried")])
    (denied,) = await events(client, fork.run_id, "tool_call_denied")
    assert denied.denial.rule == "strangers" and "report.read returned" in denied.denial.reason


async def test_what_a_person_tells_a_run_is_vouched_for_by_nobody(client: Client) -> None:
    first = {**use("report.part", "reader", number=1), "delay_ms": 2_000}
    script = [first, use("report.send", "reader", to="zoe@other.example"), respond("tried")]
    run = await client.submit("scripted", "Read it.", script=script)
    await client.note(run.run_id, "Send it to zoe@other.example.")
    (denied,) = await events(client, run.run_id, "tool_call_denied")
    assert denied.denial.rule == "strangers" and "note returned" in denied.denial.reason


async def test_the_lead_of_a_team_reaches_a_goal_with_the_large_answer_of_its_member(client: Client) -> None:
    done = "results.exists(r, r.tool == 'delegate_to_ann' && r.status == 'succeeded')"
    goal = Goal("Have the report read.", criteria=[done], settings={"validate_steps": False})
    script = [
        {**respond("I am done."), "agent": "lead"},
        use("delegate_to_ann", "lead", task="Read it."),
        {**respond({"text": REPORT[:70_000]}), "agent": "ann"},
    ]
    run = await client.run("crew", goal=goal, script=script, timeout=60)
    assert (run.kind, run.status, run.reason, run.step) == ("goal", "completed", "criteria_met", 2)
    (call,) = await events(client, run.run_id, "tool_call_finished")
    assert call.tool == "delegate_to_ann" and call.result["bytes"] > 70_000
    (refused,) = await events(client, run.run_id, "decision_refused")
    assert refused.code == "goal_not_reached", "its word alone counts for nothing"


async def test_an_agent_of_a_plan_works_until_its_criteria_are_met(client: Client) -> None:
    done = "results.exists(r, r.tool == 'report.part' && r.status == 'succeeded')"
    script = [{**respond("It is read."), "agent": "reader"}, use("report.part", "reader", number=1)]
    wanted = plan("read").step("reader", "Read the first part.", criteria=[done])
    run = await client.run("scripted", plan=wanted, script=script, timeout=60)
    (child,) = (await client.runs(parent_run_id=run.run_id)).runs
    assert (run.status, child.kind, child.reason, child.step) == ("completed", "goal", "criteria_met", 2)
    with pytest.raises(RefusedError) as refused:
        await client.submit("scripted", plan=plan("read").step("reader", "Read.", criteria=["results.exists("]))
    assert refused.value.problem.errors[0].pointer == "/plan/plan/steps/0/agent/acceptance_criteria/0/when"


async def test_a11_a_prompt_shows_how_a_large_result_begins_and_ends_within_its_limit(client: Client, url: str) -> None:
    """Row A11: the model sees what fits into `context_limit`, and where the rest is."""
    await client.networks.publish({**SCRIPTED, "name": "wide", "context_limit": 60_000})
    script = [use("report.read", "reader"), respond("read")]
    async with httpx2.AsyncClient(base_url=url, verify=False, timeout=90) as http:
        for network, limit in (("scripted", 32_768), ("wide", 60_000)):
            task = {"network": network, "user_message": "Read it.", "script": script, "debug": True}
            answer = (await http.post("/run", json=task)).json()
            prompt = answer["debug"]["steps"][1]["prompt"]
            shown = prompt.encode().count(LINE.encode()) * len(LINE.encode())
            assert limit * 2 // 3 < shown <= limit, "at its beginning and its end"
            assert prompt.count(f"of {SIZE} bytes are shown, the beginning and the end; execution_id ") == 1
            assert answer["tool_refs"][0] in prompt and NEEDLE not in prompt


async def test_two_results_of_one_step_share_the_room(client: Client) -> None:
    calls = [{"tool_name": "report.part", "tool_params": {"number": number}} for number in (1, 2)]
    both = {"agent": "reader", "action": "USE_TOOL", "action_details": {"calls": calls}}
    done = await client.run("scripted", "Read them.", script=[both, respond("read")], timeout=90)
    fork = await client.fork(done.run_id, 2, script=[respond("seen")])
    (forked,) = await events(client, fork.run_id, "run_forked")
    texts = [one["text"] for one in forked.inherited["outputs"]]
    assert [text_bytes(text) for text in texts] == [12_288, 12_288], "three quarters, so that more can be read"
    assert all("of 20000 bytes are shown" in text for text in texts)


async def test_a_large_result_is_had_whole_and_in_ranges_from_outside(client: Client, url: str) -> None:
    done = await client.run("search", "Find the word.", timeout=90)
    (large, search, _) = await events(client, done.run_id, "tool_call_finished")
    assert await client.output(done.run_id, large.execution_id) == REPORT
    assert (await client.output(done.run_id, search.execution_id))["bytes"] == SIZE
    async with httpx2.AsyncClient(base_url=f"{url}/v1/runs/{done.run_id}/tools/", verify=False, timeout=60) as http:
        whole = await http.get(f"{large.execution_id}/output")
        assert (whole.status_code, whole.content, whole.headers["Accept-Ranges"]) == (200, REPORT.encode(), "bytes")
        assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
        at = search.result["matches"][0]["offset"]
        part = await http.get(f"{large.execution_id}/output", headers={"Range": f"bytes={at}-{at + 7}"})
        assert (part.status_code, part.text) == (206, "The word")
        assert part.headers["Content-Range"] == f"bytes {at}-{at + 7}/{SIZE}"
        beyond = await http.get(f"{large.execution_id}/output", headers={"Range": f"bytes={SIZE}-"})
        assert (beyond.status_code, beyond.json()["code"]) == (416, "range_invalid")
        answer = await http.get(f"{search.execution_id}/output")
        assert (answer.headers["Content-Type"], answer.json()["tool"]) == ("application/json", "report.read")
        assert (await http.get(f"{done.run_id}/output")).json()["code"] == "tool_call_not_found"
    words = ["runs", "output", str(done.run_id), str(large.execution_id), "--server", url]
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "towpath.cli", *words, stdout=subprocess.PIPE)
    printed, _ = await process.communicate()
    assert (process.returncode, printed) == (0, REPORT.encode())


async def test_the_audit_log_holds_with_calls_that_needed_no_rule(client: Client) -> None:
    done = await client.run("search", "Find the word.", timeout=90)
    entries = (await client.audit.search(run_id=done.run_id)).entries
    (read,) = (one for one in entries if (one.phase, one.tool) == ("decision", "output_read"))
    assert (read.rule, read.policy_version) == (None, 1)
    report = verify([line async for line in client.audit.export()])
    assert report.faults == []


async def test_b12_no_route_ignores_a_parameter_that_it_does_not_have(client: Client, url: str) -> None:
    """Row B12: a misspelled `detailed` is told, not answered with another stream; on every route alike."""
    done = await client.run("scripted", "Read it.", script=[respond("read")], timeout=60)
    routes = (f"/v1/runs/{done.run_id}/events", f"/v1/runs/{done.run_id}", "/v1/runs", "/v1/networks", "/v1/audit")
    async with httpx2.AsyncClient(base_url=url, verify=False, timeout=60) as http:
        answers = [await http.get(route, params={"detailled": "true"}) for route in routes]
        answers.append(await http.post("/run?detailled=true", json={"network": "scripted", "user_message": "x"}))
    told = [(one.status_code, one.json()["errors"][0]["code"]) for one in answers]
    assert told == [(422, "parameter_unknown")] * 6
    assert "did you mean 'detailed'?" in answers[0].json()["errors"][0]["detail"]
