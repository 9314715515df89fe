"""Rows D1 to D13, and C11 of a soft limit, on the running platform: the example's code review, and other objectives."""

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from tests.support.places import EXAMPLES, TESTS
from tests.support.platform.objective_runs import (
    CLERK,
    DONE,
    SUMMARY,
    VERDICT,
    at_budget_gate,
    comparable,
    got_as_far,
    plan,
    prompts,
    use,
)

from towpath import Client, Objective, RefusedError
from towpath.cli.runs import workspace_commands
from towpath.cli.shared.options import ConnectionOptions
from towpath.tasks.objectives import ObjectiveResult
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLE = EXAMPLES / "background_review"
SCRIPT = json.loads((EXAMPLE / "script.json").read_text())
DESK_TOOLS = TESTS / "support" / "worker" / "workspace_tools.py"
SERVICES = ("orchestrator", "decider", "tas", "log_writer", "gateway", "nats", "postgres")


def _example() -> ModuleType:
    """Load the program of the example, as it is run from the repository's folder."""
    spec = importlib.util.spec_from_file_location("review", EXAMPLE / "review.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REVIEW = _example()
Reviewed = ObjectiveResult[Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform() -> AsyncIterator[Platform]:
    with temporary_folder() as folder:
        rules = (EXAMPLE / "policy.yaml").read_text() + "\n  - {name: desk, tool: 'desk.*', effect: allow}\n"
        (folder / "policy.yaml").write_text(rules)
        policy = {"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}}
        workers = [WorkerLaunch(modules=(str(DESK_TOOLS),))]
        async with Platform(folder / "d", role_environment=policy, workers=workers, starts="fork") as running:
            await NetworkFolderPublisher(EXAMPLE, running.client_url, (notices := []).append).publish_changed()
            assert any(one.endswith("version 1") for one in notices), notices
            async with Client(running.client_url) as publisher:
                await publisher.networks.publish(CLERK)
            yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(platform: Platform) -> AsyncIterator[Client]:
    async with Client(platform.client_url) as connected:
        yield connected


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reviewed(client: Client) -> Reviewed:
    """The example's review, as its script plays it."""
    return await client.pursue("review", REVIEW.OBJECTIVE, timeout=90, script=SCRIPT)


async def pursue(client: Client, *script: Any, settings: dict[str, Any] | None = None, **more: Any) -> Any:
    wanted = Objective("Do it.", settings=settings or {}, **more)
    return await client.pursue("review", wanted, timeout=90, script=list(script))


async def events(client: Client, result: ObjectiveResult[Any], *kinds: str) -> list[Any]:
    found = [entry.event async for entry in client.events(result.session.run_id)]
    return [event for event in found if not kinds or event.type in kinds]


async def test_d1_an_objective_is_ascii_and_bounded_and_brings_schema_sections_and_files(
    client: Client, reviewed: Reviewed
) -> None:
    """D1: objective: ASCII-normalised, ≤ 1,024 characters; deliverable schema; context sections; host mounts."""
    created = (await events(client, reviewed, "run_created"))[0]
    assert created.kind == "background" and created.background.mounts == ()
    assert [file.path for file in created.workspace] == [
        "change/change.diff",
        "change/session.py",
        "change/tests/test_session.py",
    ]
    result = await pursue(client, DONE, SUMMARY, context_sections={"Rules": "none"})
    assert result.session.user_message == "Do it." and result.session.kind == "background"
    accented = await client.pursue("review", "Prüfe die Änderung", timeout=60, script=[DONE, SUMMARY])
    assert accented.session.user_message == "Prufe die Anderung"
    for wrong in (Objective("x" * 1_025), Objective("Do it.", deliverable={"type": "nothing"})):
        with pytest.raises(RefusedError):
            await client.submit("review", background=wrong)


async def test_d2_the_settings_hold_and_what_is_handed_over_is_held_against_its_schema(client: Client) -> None:
    """D2: max_iterations 24, max_failures, iteration_timeout, enable_reflection, allow_plan_reset, one deliverable."""
    created = (await events(client, await pursue(client, DONE, SUMMARY), "run_created"))[0]
    settings = created.background.settings.model_dump()
    assert created.max_steps == 24 and settings["enable_reflection"] and settings["iteration_timeout_ms"] is None
    assert (settings["max_failures"], settings["allow_plan_reset"]) == (4, False), "the network's own defaults"
    wrong = {"kind": "summarize", "summary": "Done.", "deliverable": {"verdict": 1}}
    mended = await pursue(client, DONE, wrong, SUMMARY, deliverable=VERDICT)
    assert mended.deliverable == {"verdict": "approve"}
    failed = await pursue(client, DONE, wrong, wrong, deliverable=VERDICT)
    assert (failed.status, failed.reason, failed.deliverable) == ("failed", "deliverable_invalid", None)


async def test_d3_the_result_says_what_became_of_the_objective(reviewed: Reviewed) -> None:
    """D3: result: status, iterations, failures, final_summary, deliverable, session (the run's record)."""
    assert (reviewed.status, reviewed.reason) == ("completed", "plan_completed")
    assert (reviewed.iterations, reviewed.failures) == (9, 1)
    assert reviewed.final_summary.startswith("The change drops Secure")
    assert (
        isinstance(reviewed.deliverable, REVIEW.CodeReviewSummary) and reviewed.deliverable.verdict == "request_changes"
    )
    assert reviewed.session.final is not None and reviewed.session.final["deliverable"]["verdict"] == "request_changes"


async def test_d4_every_prompt_shows_the_snapshot(client: Client) -> None:
    """D4: phases; snapshot = plan, last five tool calls, pending reflections, objective, workspace."""
    script = [
        plan("look"),
        use("workspace_write", path="notes/a.md", content="a"),
        use("workspace_read", path="nowhere"),
        {"kind": "reflect", "verdict": "continue", "note": "read notes/a.md instead"},
        DONE,
        SUMMARY,
    ]
    whole = await prompts(client, script)
    for shown in ("Do it.", "S001", "notes/a.md (1 bytes, version 1)", "read notes/a.md instead", "workspace_read"):
        assert shown in whole, shown


async def test_d5_plans_are_kept_with_the_plan_tools_and_come_before_any_act(client: Client) -> None:
    """D5: plan tools: set up, add, update, mark, read; ids S001…; statuses; limits; plan required before acting."""
    result = await pursue(
        client,
        use("workspace_list"),
        plan("one", "two"),
        use("plan_add_step", title="three"),
        use("plan_update_step", step_id="S002", details="by hand"),
        use("plan_mark_step", step_id="S001", status="done", note="found"),
        use("plan_read"),
        use("plan_add_step", title="x" * 161),
        {"kind": "reflect", "verdict": "continue"},
        DONE,
        SUMMARY,
    )
    refused = await events(client, result, "decision_refused")
    assert [event.code for event in refused] == ["plan_required"]
    view = await client.workspaces.list(result.session.run_id)
    assert view.plan == {
        "objective": "Do it.",
        "status": "active",
        "steps": [
            {"step_id": "S001", "title": "one", "status": "done", "notes": ["found"]},
            {"step_id": "S002", "title": "two", "status": "pending", "details": "by hand"},
            {"step_id": "S003", "title": "three", "status": "pending"},
        ],
    }
    finished = await events(client, result, "tool_call_finished", "tool_call_denied")
    assert finished[-1].type == "tool_call_denied" or finished[-1].status == "failed", "a title has 160 characters"


async def test_d6_files_are_read_and_written_in_the_workspace_alone(
    client: Client, reviewed: Reviewed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D6: workspace tools; read-only mounts; content-addressed; part of the run's record; `towpath workspace …`."""
    run_id = reviewed.session.run_id
    files = {file.path: file for file in (await client.workspaces.list(run_id)).files}
    assert files["change/session.py"].read_only and not files["notes/review.md"].read_only
    assert await client.workspaces.read(run_id, "change/session.py") == (EXAMPLE / "change/session.py").read_text()
    logged = [event.model_dump_json() for event in await events(client, reviewed, "run_created", "workspace_changed")]
    assert files["notes/review.md"].digest in logged[1] and "def cookie" not in "".join(logged)
    result = await pursue(
        client,
        plan(),
        use("workspace_write", path="notes//a.md", content="one\n"),
        use("workspace_write", path="notes/a.md", content="two\n", mode="append"),
        use("workspace_write", path="/etc/passwd", content="x"),
        {"kind": "reflect", "verdict": "continue"},
        use("workspace_write", path="notes/../../x", content="x"),
        {"kind": "reflect", "verdict": "continue"},
        DONE,
        SUMMARY,
    )
    assert await client.workspaces.read(result.session.run_id, "notes/a.md") == "one\ntwo\n"
    assert await client.workspaces.read(result.session.run_id, "notes/a.md", version=1) == "one\n"
    said = [e.type for e in await events(client, result, "tool_call_finished", "tool_call_denied")]
    assert said.count("tool_call_denied") >= 1, "the policy opens notes/ alone"
    common = ConnectionOptions(server=client.server)
    await workspace_commands.cat(str(run_id), "notes/review.md", common=common)
    assert capsys.readouterr().out.startswith("# Review\n")
    await workspace_commands.export(str(run_id), tmp_path / "out", common=common)
    assert (tmp_path / "out" / "change" / "change.diff").read_text() == (EXAMPLE / "change/change.diff").read_text()
    capsys.readouterr()
    await workspace_commands.diff(str(run_id), common=common)
    assert "+# Review" in capsys.readouterr().out
    edited = str(result.session.run_id)
    await workspace_commands.diff(edited, "notes/a.md", common=common)
    assert "@v1" in (out := capsys.readouterr().out) and "+two" in out and "+one" not in out
    await workspace_commands.diff(edited, "notes/a.md", since=0, common=common)
    assert "+one" in capsys.readouterr().out
    await workspace_commands.ls(str(run_id), common=common)
    assert "notes/review.md" in capsys.readouterr().out


async def test_d6_tools_of_a_worker_get_the_files_and_give_back_what_they_changed(client: Client) -> None:
    """D6: part of the run's record: mounted to read, or as a scratch copy whose changes come back as a change set."""
    script = [
        plan(),
        use("workspace_write", path="notes/a.md", content="one\ntwo\n"),
        use("desk.count"),
        use("desk.shout", path="notes/a.md", into="notes/b.md"),
        use("desk.shout", path="in/c.md", into="in/d.md"),
        DONE,
        SUMMARY,
    ]
    mounts = [{"mount_path": "in", "files": [{"path": "c.md", "content": "three\n"}]}]
    view = await client.run("clerks", background="Do it.", mounts=mounts, script=script, timeout=90)
    logged = [entry.event async for entry in client.events(view.run_id)]
    done = {e.tool: e.result for e in logged if e.type == "tool_call_finished" and e.tool.startswith("desk.")}
    assert done["desk.count"] == {"files": 2, "lines": 3}
    files = {file.path: file.version for file in (await client.workspaces.list(view.run_id)).files}
    assert files == {"in/c.md": 1, "notes/b.md": 1}, "what is mounted stays, whatever a scratch copy holds"
    assert await client.workspaces.read(view.run_id, "notes/b.md") == "ONE\nTWO\n"
    assert any("in/c.md is mounted and read-only" in e.text for e in logged if e.type == "note_added")


async def test_d7_a_failure_is_reflected_upon(client: Client, reviewed: Reviewed) -> None:
    """D7: reflection after failures: a retry with other parameters in the same budget; plan reset only if allowed."""
    retried, _complete = await events(client, reviewed, "reflected")
    assert (retried.verdict, retried.followed) == ("retry", True) and "change/session.py" in retried.note
    result = await pursue(
        client,
        plan(),
        use("workspace_read", path="nowhere"),
        {"kind": "reflect", "verdict": "reset_plan", "rationale": "it leads nowhere"},
        DONE,
        SUMMARY,
    )
    (refused,) = await events(client, result, "reflected")
    assert not refused.followed and "may not be reset" in refused.refusal, "the network does not allow it"


async def test_d2_d7_where_nobody_says_otherwise_a_plan_may_be_given_up_and_eight_failures_end_a_run(
    client: Client,
) -> None:
    """D2 and D7: the defaults of the platform hold to the end of a run, in a network that has none of its own."""
    words = ("apples", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey", "ice")
    tries = [use("desk.refuse", why=f"out of {word}") for word in words]
    gives_up = {"kind": "reflect", "verdict": "reset_plan", "rationale": "it leads nowhere"}
    go_on = {"kind": "reflect", "verdict": "continue"}
    script = [plan(), tries[0], gives_up, plan("anew"), *(one for each in tries[1:] for one in (each, go_on))]
    view = await client.run("clerks", background="Do it.", script=script, timeout=90)
    logged = [entry.event async for entry in client.events(view.run_id)]
    assert next(event.followed for event in logged if event.type == "reflected")
    assert view.final is not None
    assert (view.status, view.reason, view.step) == ("failed", "max_failures_exceeded", 11), view.final
    assert "out of ice" in view.final["final_summary"]


async def test_d8_an_iteration_that_takes_too_long_is_reflected_upon_and_then_fails(client: Client) -> None:
    """D8: soft timeout recoverable by reflection, hard timeout fails."""
    late = {**use("plan_add_step", title="late"), "delay_ms": 5_300}
    never = {**use("plan_add_step", title="never"), "delay_ms": 60_000}
    go_on = {"kind": "reflect", "verdict": "continue", "note": "it was worth it"}
    soft, hard = await asyncio.gather(
        pursue(client, plan(), late, go_on, DONE, SUMMARY, settings={"iteration_timeout_ms": 5_000}),
        pursue(client, plan(), never, settings={"iteration_timeout_ms": 1_000}),
    )
    assert soft.status == "completed" and [e.note for e in await events(client, soft, "reflected")] == [
        "it was worth it"
    ]
    assert [e.reason for e in await events(client, soft, "iteration_completed")][1] == "timed_out"
    assert (hard.status, hard.reason) == ("failed", "iteration_timeout")


async def test_d9_every_end_has_its_reason_and_its_report(client: Client) -> None:
    """D9: fixed order of terminations; abandonment with a rationale; failed run with a report naming the last error."""
    abandoned = await pursue(
        client,
        {"action": "ABANDON", "action_details": {"rationale": "nothing is there"}},
        {"kind": "summarize", "summary": "There was nothing to do."},
    )
    assert (abandoned.status, abandoned.rationale) == ("abandoned", "nothing is there")
    assert abandoned.final_summary == "There was nothing to do."
    wrong = [use("workspace_read", path=path) for path in ("a", "b", "c")]
    failed = await pursue(client, plan(), *wrong, settings={"max_failures": 2, "enable_reflection": False})
    assert (failed.status, failed.reason, failed.failures) == ("failed", "max_failures_exceeded", 2)
    assert "there is no file b" in failed.final_summary
    exhausted = await client.pursue("review", "Do it.", timeout=60, script=[plan()], max_steps=1)
    assert (exhausted.status, exhausted.reason) == ("failed", "max_steps_exceeded")


async def test_d10_the_same_replies_give_the_same_events(client: Client, reviewed: Reviewed) -> None:
    """D10: determinism: same objective, config and replies → same events, ids and times apart."""
    again = await client.pursue("review", REVIEW.OBJECTIVE, timeout=90, script=SCRIPT)
    logs = []
    for result in (reviewed, again):
        ignored = ("effect_resent", "outcome_recorded")
        logs.append([comparable(event) for event in await events(client, result) if event.type not in ignored])
    assert logs[0] == logs[1]
    async with httpx2.AsyncClient(base_url=client.server, verify=False, timeout=60) as http:
        answer = (await http.get(f"/v1/runs/{again.session.run_id}/replay")).json()
    assert answer["verdict"] == "identical", answer


async def test_d11_events_tell_of_every_iteration(client: Client, reviewed: Reviewed) -> None:
    """D11: IterationStarted, IterationCompleted, Terminated with index, decision type, tool ids, reason."""
    started = await events(client, reviewed, "iteration_started")
    completed = await events(client, reviewed, "iteration_completed")
    (terminated,) = await events(client, reviewed, "terminated")
    assert [event.index for event in started] == [event.index for event in completed] == list(range(1, 10))
    second = completed[1]
    assert (second.decision, second.tools, second.reason) == ("USE_TOOL", ("workspace_read",), "failed")
    assert (terminated.index, terminated.reason, terminated.status) == (9, "plan_completed", "completed")


async def test_d12_the_code_review_plans_first_notes_what_it_finds_and_hands_over_a_summary(
    client: Client, reviewed: Reviewed
) -> None:
    """D12: code review: mounted diff, plan first, findings in the plan, structured CodeReviewSummary."""
    first = (await events(client, reviewed, "instruction_issued"))[0]
    assert first.instruction.calls[0].tool == "plan_setup"
    view = await client.workspaces.list(reviewed.session.run_id)
    assert view.plan is not None and view.plan["status"] == "completed"
    assert "Secure and SameSite were dropped" in view.plan["steps"][1]["notes"][0]
    assert reviewed.deliverable is not None and len(reviewed.deliverable.findings) == 3
    entries = (await client.audit.search(run_id=str(reviewed.session.run_id))).entries
    assert {entry.phase for entry in entries} >= {"decision", "outcome"}, "the platform's own tools are audited too"


async def test_d13_the_prompt_has_the_rules_of_background_runs(client: Client) -> None:
    """D13: prompt rules: terse ASCII, plan first, snapshot as scratchpad, files only through the workspace."""
    text = await prompts(client, [DONE, SUMMARY])
    for rule in ("Be terse. Write ASCII only", "Plan first", "scratchpad", "reached through its tools alone"):
        assert rule in text, rule


async def test_the_review_survives_the_kill_of_every_service_in_turn(
    client: Client, platform: Platform, reviewed: Reviewed
) -> None:
    slow = [{**entry, "delay_ms": 250} for entry in SCRIPT]
    accepted = await client.submit("review", background=REVIEW.OBJECTIVE, script=slow)
    for number, service in enumerate(SERVICES):
        await got_as_far(client, accepted.run_id, number)
        name = next(one for one in platform.processes if one == service or one.startswith(f"{service}-"))
        platform.kill(name)
        await platform.wait_ready()
    view = await client.result(accepted.run_id, timeout=90)
    assert view.status == "completed" and view.final is not None
    assert reviewed.session.final is not None and view.final == reviewed.session.final


async def test_c11_a_soft_limit_asks_a_person_once_whose_word_decides_how_the_run_goes_on(client: Client) -> None:
    """Row C11, type `budget`: deny needs a reason, a second word is refused, and nobody works while the run waits."""
    gates = await asyncio.gather(*(at_budget_gate(client) for _ in range(3)))
    for gate in gates:
        held = await client.get(gate.run_id)
        assert (gate.gate_type, held.status, held.step) == ("budget", "waiting", 2)
        assert gate.detail.items() >= {"scope": "run", "unit": "model_calls", "limit": 40, "spent": 2}.items()
        assert held.waits == ("budget: 2 model calls of the run budget of 40 model calls are spent",)
    allowed, denied, stopped = (gate.gate_id for gate in gates)
    with pytest.raises(RefusedError) as unsaid:
        await client.gates.resolve(denied, "denied")
    await client.gates.resolve(allowed, "approved")
    await client.gates.resolve(denied, "denied", reason="write less")
    await client.gates.resolve(stopped, "stop", reason="enough")
    with pytest.raises(RefusedError) as second:
        await client.gates.resolve(allowed, "denied", reason="too late")
    assert (unsaid.value.code, second.value.code) == ("reason_required", "gate_settled")
    ends = [await client.result(gate.run_id, timeout=60) for gate in gates]
    assert [(one.status, one.reason) for one in ends] == [("completed", "responded")] * 2 + [("escalated", "budget")]
    for gate in gates:
        log = [entry.event async for entry in client.events(gate.run_id)]
        assert [one.unit for one in log if one.type == "budget_warned"] == ["model_calls"]
        assert [one.gate_id for one in log if one.type == "gate_opened"] == [gate.gate_id]
        notes = [one.text for one in log if one.type == "note_added"]
        assert notes == (["A person asks for another way: write less"] if gate.gate_id == denied else [])
