"""Commands print what `towpath schema cli` says of them, each on a platform with the sample.

The fixture `printed_documents` validates every document; here are commands whose documents no other test looks at.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.e2e.cli.conftest import Ask, waiting_run
from tests.support.cli.printed_documents import PrintedDocuments
from tests.support.platform.sample_platform import ServedSample

from towpath import Worker, tool
from towpath.cli import main
from towpath_embedded.platform_state import read_state

MESSAGE = "Refund order 8812"


@pytest.fixture
def run_id(ask: Ask) -> str:
    """A run that waits for a person."""
    return waiting_run(ask, MESSAGE, "--model", "scripted:support")


@pytest.mark.prints(
    *("runs history", "runs log", "runs tree", "runs diff", "runs gate", "runs bulk", "doctor trace"),
    *("workspace ls", "workspace diff", "gates watch", "gates notices"),
)
def test_a_run_is_looked_at_from_all_sides(ask: Ask, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = (
        *(("runs", name, run_id) for name in ("history", "log", "tree")),
        *(("workspace", "ls", run_id), ("workspace", "diff", run_id), ("gates", "notices")),
        *(("runs", "diff", run_id, run_id), ("runs", "gate", run_id, "--reason", "is this right?")),
        ("runs", "bulk", "label", "--network", "support", "--set", "case=4711"),
    )
    assert {words: ask(*words)[0] for words in commands} == dict.fromkeys(commands, 0)
    found = ask("doctor", "trace", run_id)[1]
    assert found["run_id"] == run_id and [call["tool"] for step in found["steps"] for call in step["calls"]]
    assert main(["gates", "watch", "--until-s", "0", "-o", "json"]) in {0, None}
    seen = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ("opened", run_id) in {(one["event"], one["run_id"]) for one in seen}


@pytest.mark.prints("runs export")
def test_each_line_of_a_record_is_as_published(
    run_id: str, server: str, capsys: pytest.CaptureFixture[str], printed_documents: PrintedDocuments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("TOWPATH_SERVER", server)
    capsys.readouterr()
    assert main(["runs", "export", run_id]) in {0, None}
    lines = capsys.readouterr().out.splitlines()
    for line in lines:
        printed_documents.see("runs export", json.loads(line))
    assert len(lines) > 3


@pytest.mark.prints("gates delegate", "gates resolve", "runs erase", "erasures withdraw")
def test_a_gate_is_handed_on_and_settled_and_the_run_is_almost_erased(ask: Ask, run_id: str) -> None:
    (gate,) = ask("gates", "list", "--run", run_id)[1]["gates"]
    code, handed = ask("gates", "delegate", gate["gate_id"], "role:approver", "--reason", "they know the customer")
    assert (code, handed["assigned_to"]) == (0, "role:approver")
    assert ask("gates", "resolve", gate["gate_id"], "denied", "--reason", "too much")[0] == 0
    assert ask("runs", "watch", run_id)[1]["status"] == "completed"
    code, asked = ask("runs", "erase", run_id, "--reason", "request 4712")
    assert (code, asked["status"]) == (0, "requested")
    code, withdrawn = ask("erasures", "withdraw", asked["erasure_id"])
    assert (code, withdrawn["status"]) == (0, "withdrawn")


@pytest.mark.prints("workspace cat", "workspace export", "plans show")
def test_files_of_a_run_and_steps_of_a_plan_are_looked_at(ask: Ask, tmp_path: Path) -> None:
    answer = [{"agent": "tech", "action": "RESPOND", "action_reasoning": "", "action_details": {"payload": "Yes."}}]
    mounts = [{"mount_path": "given", "files": [{"path": "notes.md", "content": "Boats are white."}]}]
    task = {"network": "support", "user_message": "Look.", "agent_key": "tech", "script": answer, "mounts": mounts}
    (tmp_path / "task.json").write_text(json.dumps(task), "utf-8")
    run_id = ask("api", "POST", "/v1/runs", "--input", str(tmp_path / "task.json"))[1]["run_id"]
    assert ask("runs", "watch", run_id)[1]["status"] == "completed"
    assert ask("workspace", "cat", run_id, "given/notes.md")[1]["content"] == "Boats are white."
    code, written = ask("workspace", "export", run_id, str(tmp_path / "files"))
    assert (code, written["files"]) == (0, ["given/notes.md"])
    plan = {"steps": [{"type": "agent", "id": "look", "agent": {"agent_key": "tech", "prompt": "Look."}}]}
    for name, value in (("plan", plan), ("script", answer)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value), "utf-8")
    given = ("--plan", str(tmp_path / "plan.json"), "--script", str(tmp_path / "script.json"))
    code, planned = ask("run", "support", *given)
    assert (code, planned["kind"]) == (0, "plan")
    assert [one["status"] for one in ask("plans", "show", planned["run_id"])[1]["steps"]] == ["success"]


@pytest.mark.prints("queues dead show", "queues dead requeue", "queues dead discard")
def test_a_message_that_nobody_can_handle_is_shown_sent_again_and_discarded(ask: Ask, served: ServedSample) -> None:
    async def publish() -> None:
        client = await nats.connect(place_of(served)["nats_url"], inbox_prefix=b"_INBOX_client_anonymous")
        await client.publish("task.enqueue.anonymous", b'{"network": 7}')
        await client.drain()

    def letter() -> str:
        until = time.monotonic() + 90
        while not (found := ask("queues", "dead", "list", "--stream", "TASKS")[1]["letters"]):
            assert time.monotonic() < until, "no dead letter"
            time.sleep(0.1)
        return str(found[0]["dead_letter_id"])

    asyncio.run(publish())
    code, shown = ask("queues", "dead", "show", letter())
    assert (code, json.loads(shown["body"])) == (0, {"network": 7})
    assert ask("queues", "dead", "requeue", letter(), "--reason", "the sender is mended")[0] == 0
    assert ask("queues", "dead", "discard", letter(), "--reason", "it is not")[0] == 0


@pytest.mark.prints("clients subjects")
def test_a_program_that_knows_no_towpath_asks_as_it_is_shown(
    ask: Ask, served: ServedSample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".towpath").symlink_to(served.data)
    monkeypatch.chdir(tmp_path)
    code, shown = ask("clients", "subjects")
    assert (code, shown["caller"], shown["nats_url"]) == (0, "anonymous", place_of(served)["nats_url"])

    async def answers() -> list[dict[str, Any]]:
        client = await nats.connect(shown["nats_url"], inbox_prefix=b"_INBOX_client_anonymous")
        found = []
        for one in shown["subjects"]:
            if one["answer"]:
                request = json.dumps({"network": "support"}).encode()
                found.append(json.loads((await client.request(one["subject"], request, timeout=30)).data))
        await client.drain()
        return found

    told = asyncio.run(answers())
    assert {one["code"] for one in told} == {"request_invalid"}, "each is answered, and none takes that"


@pytest.mark.prints("workers drain")
def test_a_worker_is_drained(ask: Ask, served: ServedSample, capsys: pytest.CaptureFixture[str]) -> None:
    @tool(effect_class="pure", toolset="spare")
    def spare_halve(n: int) -> float:
        """Halve."""
        return n / 2

    place = place_of(served)
    password = json.loads(Path(place["nats_passwords"]).read_text())["worker"]

    def drain() -> tuple[int, Any]:
        capsys.readouterr()  # what the worker has logged
        until = time.monotonic() + 90
        while not (found := ask("workers", "list", "--toolset", "spare")[1]["workers"]):
            assert time.monotonic() < until, "no worker says that it is there"
            time.sleep(0.1)
        return ask("workers", "drain", found[0]["worker_id"], "--reason", "a trial")

    async def drained() -> tuple[int, Any]:
        async with Worker([spare_halve], url=place["nats_url"], user="worker", password=password, project="default"):
            return await asyncio.to_thread(drain)

    code, found = asyncio.run(drained())
    assert (code, found["changed"], found["toolsets"]) == (0, True, ["spare"])


def place_of(served: ServedSample) -> dict[str, Any]:
    """Return where everything of the platform is."""
    state = read_state(served.data)
    assert state is not None
    return state


@pytest.mark.prints("networks list", "networks graph", "networks prompt", "grants from-network", "a2a card")
def test_a_network_is_looked_at(ask: Ask) -> None:
    commands = (
        *(("networks", "list"), ("networks", "graph", "support"), ("networks", "prompt", "support")),
        *(("grants", "from-network", "support"), ("a2a", "card"), ("a2a", "card", "support")),
    )
    assert {words: ask(*words)[0] for words in commands} == dict.fromkeys(commands, 0)


@pytest.mark.prints(
    *("budgets set", "budgets show", "budgets lift", "costs", "switches pause", "switches list", "switches resume"),
    *("projects quota show", "projects quota set", "projects quota lift", "tools proposals", "workers list"),
)
def test_what_limits_and_serves_the_project_is_looked_at(ask: Ask) -> None:
    commands = (
        ("budgets", "set", "caller", "ann", "--usd", "20", "--reason", "a trial"),
        *(("budgets", "show"), ("budgets", "lift", "caller", "ann", "--reason", "it is over")),
        *(("costs",), ("costs", "--by", "day"), ("switches", "pause", "tool", "crm.none", "--reason", "a trial")),
        *(("switches", "list"), ("switches", "resume", "tool", "crm.none", "--reason", "it is over")),
        ("projects", "quota", "set", "--unfinished-runs", "10000", "--runs-per-day", "10000", "--reason", "a trial"),
        *(("projects", "quota", "show"), ("projects", "quota", "lift", "--reason", "it is over")),
        *(("tools", "proposals"), ("workers", "list")),
    )
    assert {words: ask(*words)[0] for words in commands} == dict.fromkeys(commands, 0)


@pytest.mark.prints("init", "new agent", "new network", "new tool", "new policy", "chaos")
def test_commands_that_ask_no_platform_print_what_is_published_too(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ask("init", "shop")[0] == 0
    monkeypatch.chdir(tmp_path / "shop")
    named = (("agent", "clerk"), ("network", "desk"), ("tool", "stock"), ("policy", "closed"))
    assert {words: ask("new", *words)[0] for words in named} == dict.fromkeys(named, 0)
    for form in (["--json"], ["-o", "json"]):
        assert main(["chaos", "--list", *form]) == 0
        assert "kill.worker" in capsys.readouterr().out
