"""The blocks of the pages about agents, networks, swarms, plans, conversations and models, run as they stand."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from tests.e2e.pages.conftest import Play, World
from tests.support.places import ROOT

from towpath import Agent, AgentRequest, BaseAgent, RefusedError, Swarm, run, tool
from towpath.agents.operations import AnyMove, execute_tool, respond
from towpath.testing import harness, script

OPEN = "kind: Policy\nprofile: open\n"


def test_agents(play: Play, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    page = play("docs/agents.md")
    greeter: type[BaseAgent] = page.python()["Greeter"]

    @tool(name="crm.lookup", toolset="crm", effect_class="pure", operation="read")
    def lookup(customer: str) -> dict[str, str]:
        """Look a customer up."""
        return {"name": customer.title()}

    async def greeted() -> str:
        agent = Agent("greeter", prompt="Greet.", tools=[lookup], can_respond=True)
        async with harness(agent, policy=OPEN, tools=[lookup], model=greeter().plan) as h:
            return str((await (await h.run("ida")).result()).text)

    assert asyncio.run(greeted()) == "Hello Ida!"
    monkeypatch.chdir(ROOT)
    world.ask("networks", "publish", "examples/base_agent/network.yaml")
    *_, done = page.shell()
    assert "completed" in done.out

    class Report(BaseModel):
        title: str

    assert page.python(AgentRequest=object, Report=Report)["make_report"]
    page.shell()


def test_networks(play: Play, world: World) -> None:
    page = play("docs/networks.md")
    world.ask("networks", "publish", str(page.file("yaml", "support.yaml")))
    assert world.ask("run", "support", "Refund order 8812")["status"] == "completed"
    world.publish_sample()
    asked = page.python(world.platform.address, today=lambda: "Saturday")
    assert asked["view"].text == "Noted."
    shown = page.take("text").text
    faulty = """from towpath import Agent, Network
desk = Network("desk", agents=[
    *[],
    Agent("triage", prompt="You may use {toolz}.", default=True, can_respond=True),
    Agent("billing", prompt="You bill.", model="gpt-5", can_respond=True),
])
"""
    Path("desk.py").write_text(faulty, "utf-8")
    with pytest.raises(RefusedError) as refused:
        exec(compile(faulty, "desk.py", "exec"), names := dict[str, Any]()) or names["desk"].to_spec()
    said = " ".join(str(refused.value).split())
    for sentence in " ".join(shown.split()).removeprefix("network_invalid: ").removesuffix("; …").split("; desk.py:"):
        assert sentence.removeprefix("desk.py:") in said


def test_swarms(play: Play, world: World) -> None:
    page = play("docs/swarms.md")
    world.ask("networks", "publish", str(page.file("yaml", "report.yaml")))
    assert world.ask("run", "report", "Tidal power")["status"] == "completed"
    names = page.python(world.platform.address)
    assert names["view"].status == "completed"
    rules = yaml.safe_load(page.take("yaml").text)
    moves = [execute_tool("delegate_to_fixer", task="Mend."), execute_tool("delegate_to_buyer", task="Buy.")]

    async def led() -> list[str | None]:
        team = Swarm("research", [Agent(name, prompt="You work.") for name in ("lead", "fixer", "buyer")], mode="team")
        left = [*moves, respond("Done.")]

        def decide(request: AgentRequest) -> AnyMove:
            return left.pop(0) if request.context.agent_key == "lead" else respond("Mended.")

        async with harness(team, policy={"kind": "Policy", "rules": rules}, model=decide) as h:
            begun = await h.run("Repair the parser.")
            await (await h.next_gate()).deny("no")
            result = await begun.result()
            assert [call.status for call in result.tool_calls("delegate_to_fixer")] == ["succeeded"]
            return [call.rule for call in result.denied_calls()]

    assert asyncio.run(led()) == ["ask-first"]
    members = {
        name: Agent(name, prompt="You work.") for name in ("chair", "lawyer", "engineer", "researcher", "writer")
    }
    assert page.python(Swarm=Swarm, **members)["report"].to_spec()


def test_plans(play: Play, world: World) -> None:
    page = play("docs/plans.md")
    page.file("yaml", "digest.yaml")
    agents = ("finder", "reader", "critic", "writer")
    world.publish("papers", *({"key": name, "prompt_template": f"You are {name}."} for name in agents))
    runs = page.shell({"RUN": world.ask("run", "papers", "--plan", "digest.yaml", "--set", "topic=x")["run_id"]})
    assert runs
    page.python(world.platform.address)


def test_conversations(play: Play, world: World) -> None:
    page = play("docs/conversations.md")
    first = world.ended()
    page.shell({"RUN": first})
    found = page.python(world.platform.address, run=run)
    assert found["second"].thread_id == found["first"].run_id
    assert page.request({"id": str(found["second"].run_id)})["run_id"]
    assert page.task()["status"] == "completed"


def test_models(play: Play, world: World) -> None:
    page = play("docs/models.md")
    entries = json.loads(page.take("json").text)

    @tool(name="library.search", toolset="library", effect_class="pure", operation="read")
    def search(words: str) -> str:
        """Search."""
        return words

    async def played() -> str:
        clerk = Agent("clerk", prompt="You write.", can_respond=True)
        lead = Agent("lead", prompt="You lead.", tools=[search], routes=[clerk])
        async with harness(lead, policy=OPEN, tools=[search], model=script(entries)) as h:
            return str((await (await h.run("Boats?")).result()).text)

    assert asyncio.run(played()) == "done"
    page.shell()
    png = {"data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}
    world.publish("pictures", {"key": "viewer"})
    page.task(lambda task: {**task, "network": "pictures", "attachments": [{**task["attachments"][0], **png}]})
    world.publish("clerks", *yaml.safe_load(page.take("yaml").text)["agents"])
    world.publish("review", {"key": "judge"})
    assert page.python(world.platform.address)["result"].status == "completed"
