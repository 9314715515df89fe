"""Grants that are proposed, on the whole platform: from past runs and by a model, and what tasks may do under them."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from pydantic import SecretStr
from tests.support.console.role_pages import NEEDS, READS, pages_known, pages_state, role_faults, strange_faults
from tests.support.places import EXAMPLES

from towpath.cli import main
from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_console.pages import ACTIONS
from towpath_contracts.grant_proposals.asked_grants import GRANT_NETWORK
from towpath_contracts.grant_proposals.proposals import GrantProposal
from towpath_contracts.runs.views import RunView
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import ROLES, SCOPES, scopes_of
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAMPLE = EXAMPLES / "support"

MAIL = """
from towpath import tool


@tool(name="mail.send", toolset="mail", effect_class="idempotent", operation="send", sinks=["to"])
def send_mail(to: str, text: str) -> dict[str, str]:
    \"\"\"Send a mail.\"\"\"
    return {"sent": to}
"""
MAIL_RULE = """
  - {name: mail, who: {network: post}, tool: mail.send, effect: allow}
"""
POST = {
    "name": "post",
    "agents": [
        {"key": "desk", "is_default": True, "allow_respond": True, "allowed_routes": []},
        {"key": "clerk", "equipped_tools": ["mail.send"], "allow_respond": True},
    ],
}


def use(tool: str, **params: Any) -> dict[str, Any]:
    details = {"tool_name": tool, "tool_params": params}
    return {"action": "USE_TOOL", "action_reasoning": "as planned", "action_details": details}


def respond(payload: Any = "done") -> dict[str, Any]:
    return {"action": "RESPOND", "action_reasoning": "known", "action_details": {"payload": payload}}


def choose(*tools: Any) -> list[dict[str, Any]]:
    return [respond({"tools": list(tools)})]


FIND = use("orders.find", order_id="8812")
REFUND = use("orders.refund", order_id="8812", amount=1, reason="broken")
LOOK_UP = {"tool": "orders.find", "why": "the order is looked up"}
BILLING = {"agent_key": "billing"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform() -> AsyncIterator[Platform]:
    with temporary_folder() as folder:
        scripts = folder / "scripts"
        scripts.mkdir()
        hostile = {**LOOK_UP, "why": "the order \x1b[31mis\u202e looked up"}
        (scripts / "chooser.json").write_text(json.dumps(choose(hostile)), "utf-8")
        (folder / "mail_tools.py").write_text(MAIL, "utf-8")
        (folder / "policy.yaml").write_text((SAMPLE / "policy.yaml").read_text("utf-8") + MAIL_RULE, "utf-8")
        (scripts / "lost.json").write_text(json.dumps(choose({"tool": "disk.wipe", "why": "why not"})), "utf-8")
        running = Platform(
            folder / "data",
            environment={"SHOP_DATABASE": str(folder / "orders.sqlite3")},
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")},
                "decider": {"TOWPATH_SCRIPT_DIR": str(scripts)},
                "gateway": {"TOWPATH_AUTH": "on"},
            },
            workers=[WorkerLaunch(modules=(str(SAMPLE / "tools.py"), str(folder / "mail_tools.py")))],
            durable=False,
            starts="fork",
        )
        async with running:
            yield running


async def key_for(
    platform: Platform,
    scopes: tuple[str, ...] = SCOPES,
    project: str = "default",
    roles: tuple[str, ...] = ("policy_admin",),
) -> str:
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    new = CreateKeyBody(caller=f"caller-{uuid.uuid4().hex[:6]}", scopes=scopes, roles=roles)
    return await create_key(settings, new, project)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def key(platform: Platform) -> str:
    """A key of the default project, where the networks are published."""
    made = await key_for(platform)
    async with Client(platform.gateway_url, api_key=made) as client:
        for _ in range(300):
            try:
                await client.networks.publish(SAMPLE / "network.yaml")
                await client.networks.publish(POST)
            except TowpathError:  # its tools are not registered yet
                await asyncio.sleep(0.2)
            else:
                return made
    raise AssertionError("the networks could not be published")


@pytest_asyncio.fixture(loop_scope="module")
async def client(platform: Platform, key: str) -> AsyncIterator[Client]:
    async with Client(platform.gateway_url, api_key=key) as made:
        yield made


async def code_of(asking: Any) -> str:
    with pytest.raises(TowpathError) as caught:
        await asking
    return caught.value.code


def submitted(proposal: GrantProposal) -> list[dict[str, Any]]:
    return [rule.model_dump(mode="json") for rule in proposal.grant]


async def tried(client: Client, proposal: GrantProposal, *decisions: Any) -> tuple[RunView, list[dict[str, Any]]]:
    """Return a run that stands under a proposed grant, and its denials."""
    grant = submitted(proposal)
    run = await client.run("support", "Refund 8812", **BILLING, grant=grant, script=[*decisions, respond()], timeout=60)
    entries = [entry async for entry in client.events(run.run_id)]
    return run, [entry.event.denial.model_dump() for entry in entries if entry.event.type == "tool_call_denied"]


async def looked_up(client: Client) -> None:
    """Leave a past run that has used `orders.find`."""
    run = await client.run("support", "go", **BILLING, script=[FIND, respond()], timeout=60)
    assert run.status == "completed"


async def test_past_runs_give_the_tools_that_they_used_and_how_many_did(client: Client) -> None:
    label = f"batch-{uuid.uuid4().hex[:6]}"
    for number in range(3):
        script = [FIND, *([REFUND] if number == 0 else []), respond()]
        labels = {"batch": label, "team": f"t{number}"}
        run = await client.run("support", "go", **BILLING, script=script, labels=labels, timeout=60)
        assert run.status == "completed"
    unfinished = {"script": [FIND, REFUND], "max_steps": 1, "labels": {"batch": label}}
    assert (await client.run("support", "go", **BILLING, **unfinished, timeout=60)).status == "failed"

    found = await client.grants.from_runs("support", label=f"batch={label}")
    assert (found.runs, found.complete, found.source) == (3, True, "runs")
    counted = {entry.tool: (entry.runs, entry.calls, entry.operation) for entry in found.entries}
    assert counted == {"orders.find": (3, 3, "call"), "orders.refund": (1, 1, "call")}
    narrower = await client.grants.from_runs("support", label=f"batch={label}", min_share=0.5)
    assert [rule.tool for rule in narrower.grant] == ["orders.find"]
    assert [(one.tool, one.reason) for one in narrower.left_out] == [
        ("orders.refund", "1 of 3 runs used it, a smaller share than 50%")
    ]
    one = await client.grants.from_runs("support", label="team=t1")
    assert (one.runs, [rule.tool for rule in one.grant]) == (1, ["orders.find"])
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert await code_of(client.grants.from_runs("support", since=soon)) == "grant_not_proposed"
    assert await code_of(client.grants.from_runs("nowhere")) == "network_not_found"

    run, denials = await tried(client, narrower, FIND, REFUND)
    assert run.status == "completed"
    (denial,) = denials
    assert denial["violation_type"] == "not_granted"
    assert "its caller can submit another task, whose grant names it" in denial["suggestion"]
    assert denial["allowed_tools"] == ("orders.find",)


async def test_a_tight_grant_holds_a_task_to_where_all_mails_of_past_plans_went(client: Client) -> None:
    mail = use("mail.send", to="mia@example.org", text="hello")
    plan = {"steps": [{"type": "agent", "agent": {"agent_key": "clerk", "prompt": "write to Mia"}}]}
    script = [{**mail, "agent": "clerk"}, {**respond(), "agent": "clerk"}]
    for _ in range(3):
        run = await client.run("post", "go", plan=plan, script=script, labels={"to": "mia"}, timeout=60)
        assert run.status == "completed", run.reason
    loose = await client.grants.from_runs("post", label="to=mia")
    assert [(one.tool, one.operation, one.when, one.runs) for one in loose.entries] == [("mail.send", "send", None, 3)]
    tight = await client.grants.from_runs("post", label="to=mia", tight=True)
    assert [one.when for one in tight.entries] == ['args.to == "mia@example.org"']

    elsewhere = use("mail.send", to="eve@example.org", text="hello")
    grant = submitted(tight)
    run = await client.run(
        "post", "go", agent_key="clerk", grant=grant, script=[elsewhere, mail, respond()], timeout=60
    )
    events = [entry.event async for entry in client.events(run.run_id)]
    assert [event.status for event in events if event.type == "tool_call_finished"] == ["succeeded"]
    (denial,) = [event.denial for event in events if event.type == "tool_call_denied"]
    assert denial.reason == 'this task was granted mail.send (send) only where args.to == "mia@example.org"'

    network = await client.grants.from_network("post")
    assert network.grant == (), "no route leads from the desk to the clerk"
    planned = await client.grants.from_plan("post", plan)
    assert [rule.tool for rule in planned.grant] == ["mail.send"]


async def test_a_model_names_the_tools_in_a_run_that_can_call_nothing(client: Client) -> None:
    found = await client.grants.propose("support", "Where is order 8812?", script=choose(LOOK_UP))
    assert [(rule.tool, rule.operation) for rule in found.grant] == [("orders.find", "call")]
    assert [(one.reason, one.said_by_model) for one in found.entries] == [("the order is looked up", True)]
    assert found.run_id is not None
    asked = await client.get(found.run_id)
    assert (asked.network, asked.status, asked.labels) == (GRANT_NETWORK, "completed", {"grant_for": "support"})
    entries = [entry async for entry in client.events(asked.run_id)]
    created = entries[0].event
    assert (created.grant, created.user_message) == ((), "Where is order 8812?")
    assert not any(entry.event.type.startswith("tool_call") for entry in entries)
    with pytest.raises(TowpathError) as caught:
        await client.grants.propose("support", "Where is order 8812?", model="scripted:task")
    assert "scripted:task" in caught.value.problem.detail, "it only plays scripts, and none was sent"
    audit = await client.audit.search(run_id=found.run_id)
    assert audit.entries == (), "a run without calls leaves nothing in the audit of calls"

    run, denials = await tried(client, found, FIND, REFUND)
    assert (run.status, [one["violation_type"] for one in denials]) == ("completed", ["not_granted"])


async def test_an_agent_that_is_asked_to_call_a_tool_while_it_chooses_can_not(client: Client) -> None:
    hijacked = [FIND, *choose(LOOK_UP)]
    found = await client.grants.propose("support", "Where is order 8812?", script=hijacked)
    assert found.run_id is not None
    types = [entry.event.type async for entry in client.events(found.run_id)]
    assert "decision_refused" in types
    assert not any(each.startswith("tool_call") for each in types)


async def test_an_answer_that_is_no_grant_is_refused_with_its_faults(client: Client) -> None:
    async def refusal(*tools: Any) -> Any:
        with pytest.raises(TowpathError) as caught:
            await client.grants.propose("support", "go", script=choose(*tools))
        return caught.value.problem

    unknown = await refusal({"tool": "disk.wipe", "why": "x"})
    assert unknown.code == "grant_not_proposed"
    assert unknown.run_id is not None
    macro = await refusal({**LOOK_UP, "when": "args.order_id.matches('.*') && [1].all(x, true)"})
    assert (macro.code, [one.pointer for one in macro.errors]) == ("grant_not_proposed", ["/grant/0/when"])
    narrowed = await client.grants.propose(
        "support", "go", script=choose({**LOOK_UP, "when": "args.order_id == '8813'"})
    )
    _, denials = await tried(client, narrowed, FIND)
    assert denials[0]["reason"] == "this task was granted orders.find (call) only where args.order_id == '8813'"


async def test_a_repeated_question_is_one_run(client: Client) -> None:
    same = {"script": choose(LOOK_UP), "idempotency_key": f"k-{uuid.uuid4().hex}"}
    first = await client.grants.propose("support", "go", **same)
    assert (await client.grants.propose("support", "go", **same)).run_id == first.run_id
    assert await code_of(client.grants.propose("support", "come", **same)) == "idempotency_conflict"


async def test_a_network_and_a_plan_give_the_tools_of_their_agents(client: Client) -> None:
    whole = await client.grants.from_network("support")
    assert [rule.tool for rule in whole.grant] == ["orders.find", "orders.refund"]
    plan = {"steps": [{"type": "agent", "agent": {"agent_key": "tech", "prompt": "look"}}]}
    planned = await client.grants.from_plan("support", plan)
    assert [rule.tool for rule in planned.grant] == ["orders.find", "orders.refund"], "tech may hand over to billing"
    bad = {"steps": [{"type": "agent", "agent": {"agent_key": "nobody", "prompt": "look"}}]}
    assert await code_of(client.grants.from_plan("support", bad)) == "plan_invalid"
    assert await code_of(client.grants.from_network("support", agent_key="nobody")) == "agent_not_found"


async def test_nobody_proposes_without_the_scopes_or_in_another_project(
    platform: Platform, key: str, client: Client
) -> None:
    await looked_up(client)
    async with Client(platform.gateway_url, api_key=await key_for(platform, ("runs:write",))) as writer:
        assert await code_of(writer.grants.from_runs("support")) == "forbidden"
        assert (await writer.grants.propose("support", "go", script=choose(LOOK_UP))).grant
    async with Client(platform.gateway_url, api_key=await key_for(platform, ("runs:read",))) as reader:
        assert (await reader.grants.from_runs("support")).grant
        assert await code_of(reader.grants.propose("support", "go", script=choose(LOOK_UP))) == "forbidden"
    async with Client(platform.gateway_url, api_key=await key_for(platform, project="bank")) as eve:
        assert await code_of(eve.grants.from_runs("support")) == "network_not_found"
        assert await code_of(eve.grants.propose("support", "go", script=choose(LOOK_UP))) == "network_not_found"


async def test_the_network_that_asks_can_not_be_replaced(client: Client) -> None:
    spec = {"name": GRANT_NETWORK, "agents": [{"key": "a", "is_default": True, "allow_respond": True}]}
    with pytest.raises(TowpathError) as caught:
        await client.networks.publish(spec)
    assert [one.code for one in caught.value.problem.errors] == ["network_reserved"]
    shown = await client.networks.show(GRANT_NETWORK)
    assert (shown.published_by, shown.spec) == ("towpath", None)


async def test_a_run_with_grant_auto_stands_under_what_was_proposed(
    platform: Platform, key: str, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([FIND, REFUND, respond()]), "utf-8")
    common = ["--server", platform.gateway_url, "--api-key", key, "-o", "json"]
    words = ["run", "support", "Look at 8812", "--agent", "billing", "--script", str(script), *common]

    async def run(*more: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, [*words, *more])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    code, out, err = await run("--grant", "auto", "--grant-model", "scripted:chooser")
    assert code == 0, err
    assert "granted orders.find call: the order is looked up" in err
    entries = [entry async for entry in client.events(json.loads(out)["run_id"])]
    assert [rule["tool"] for rule in entries[0].event.grant] == ["orders.find"]
    assert "tool_call_denied" in [entry.event.type for entry in entries]

    before = (await client.runs(network="support")).runs[0].run_id
    code, _, err = await run("--grant", "auto", "--grant-model", "scripted:lost")
    assert code != 0
    assert "grant_not_proposed" in err
    assert (await client.runs(network="support")).runs[0].run_id == before, "without a grant nothing is submitted"

    code, out, err = await run("--grant-from-runs")
    assert code == 0, err
    (created, *_) = [entry async for entry in client.events(json.loads(out)["run_id"])]
    assert created.event.grant is not None
    assert "orders.find" in [rule["tool"] for rule in created.event.grant]

    code = await asyncio.to_thread(main, ["grants", "from-network", "support", *common])
    held = tmp_path / "grant.json"
    held.write_text(capsys.readouterr().out, "utf-8")
    code, out, err = await run("--grant", str(held))
    assert code == 0, err
    code, _, err = await run("--grant", str(held), "--grant-from-runs")
    assert code != 0
    assert "choose one of" in err


@pytest.mark.prints("grants from-plan", "grants from-runs", "grants propose")
async def test_commands_show_a_proposal_with_its_reasons(
    platform: Platform, key: str, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await looked_up(client)
    common = ["--server", platform.gateway_url, "--api-key", key, "-o"]

    async def said(*words: str) -> str:
        assert {await asyncio.to_thread(main, ["grants", *words, *common, form]) for form in ("json", "table")} == {0}
        return capsys.readouterr().out.rpartition("\n}\n")[2]

    proposed = await said("propose", "support", "Where is 8812?", "--model", "scripted:chooser")
    assert "orders.find" in proposed
    assert "the model: the order is looked up" in proposed
    assert "the model did not name it" in proposed
    plan = tmp_path / "plan.yaml"
    plan.write_text("steps:\n  - {type: agent, agent: {agent_key: tech, prompt: look}}\n", "utf-8")
    assert "agents billing, tech are equipped with it" in await said("from-plan", str(plan), "--network", "support")
    assert "agent billing is equipped with it" in await said("from-plan", str(SAMPLE / "network.yaml"))
    assert "runs used it" in await said("from-runs", "support", "--since", "1h")


PUBLISHER = ("runs:read", "runs:write", "networks:read", "networks:write")


def browser_of(platform: Platform, key: str) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/html"}
    return httpx2.AsyncClient(base_url=platform.gateway_url, headers=headers, timeout=60)


async def test_each_role_finds_on_every_page_what_it_may_do_and_no_more(platform: Platform, key: str) -> None:
    scopes_needed = NEEDS | dict.fromkeys(READS, "")
    assert scopes_needed == {route.path: route.scope for route in ACTIONS}, "say of a new action which scope it needs"
    large = use("orders.refund", order_id="8812", amount=129)
    task = {"network": "support", "user_message": "Refund 8812", **BILLING, "script": [large, respond()]}
    async with browser_of(platform, key) as everything:
        known = await pages_known(everything, task)
        before = await pages_state(everything, known)
        wrong = []
        for role in (*ROLES, ""):
            scopes = scopes_of((), (role,)) if role else PUBLISHER
            async with browser_of(platform, await key_for(platform, scopes, roles=(role,) * bool(role))) as client:
                found = await role_faults(client, frozenset(scopes), known)
            wrong += [f"{role or 'publisher'}: {one}" for one in found]
        async with browser_of(platform, await key_for(platform, project="elsewhere")) as client:
            wrong += await strange_faults(client, known)
        assert wrong == [], "\n".join(wrong)
        assert await pages_state(everything, known) == before
