"""Commands that look at runs, networks, queues and decisions from beside, against a platform with the sample."""

import json
from pathlib import Path

import pytest
from tests.e2e.cli.conftest import Ask

from towpath.cli import main

CALL = ("tools", "call", "--network", "support")
FIND = (*CALL, "orders.find", "--args", '{"order_id": "8812"}')
REFUND = (*CALL, "orders.refund", "--args", '{"order_id": "8812", "amount": 500}')


def test_a_tool_is_called_in_the_name_of_an_agent_and_audited_as_any_call(ask: Ask) -> None:
    code, run = ask(*FIND, "--as", "billing")
    assert (code, run["status"], run["agent_key"]) == (0, "completed", "billing")
    assert run["last_output"]["customer"] == "Mia Lindqvist"
    phases = [entry["phase"] for entry in ask("audit", "search", "--run", run["run_id"])[1]["entries"]]
    assert {"decision", "outcome"} <= {*phases}
    code, run = ask(*CALL, "orders.find", "--args", '{"order_id": "none"}', "--as", "billing")
    assert (code, run["final"]["results"][0]["status"]) == (1, "failed")


def test_a_tool_of_several_agents_needs_to_be_told_whose(ask: Ask) -> None:
    code, refused = ask(*FIND)
    assert (code, refused["code"]) == (2, "request_invalid")
    assert "billing of support, tech of support" in refused["detail"]
    assert ask(*FIND, "--as", "triage")[1]["code"] == "not_found"
    assert "did you mean 'orders.find'?" in ask("tools", "call", "orders.fnd")[1]["detail"]


def test_a_call_that_changes_something_is_confirmed_and_waits_for_whoever_decides(ask: Ask) -> None:
    before = [one["run_id"] for one in ask("runs", "list")[1]["runs"]]  # those of other tests may still go on
    code, refused = ask(*REFUND)
    assert (code, "changes something" in refused["detail"]) == (2, True)
    code, asked = ask(*REFUND, "--dry-run")
    assert (code, asked["verdict"], asked["agent_key"]) == (5, "require_approval", "billing")
    assert [one["run_id"] for one in ask("runs", "list")[1]["runs"]] == before, "neither has called anything"
    code, run = ask(*REFUND, "--yes")
    assert (code, run["status"]) == (5, "waiting")
    (gate,) = ask("gates", "list", "--run", run["run_id"])[1]["gates"]
    assert ask("gates", "deny", gate["gate_id"], "--reason", "no")[0] == 0


@pytest.mark.prints("policy explain", "tools call")
def test_a_call_that_the_policy_denies_ends_with_its_own_exit_code(ask: Ask, tmp_path: Path) -> None:
    rule = tmp_path / "rule.yaml"
    rule.write_text("name: shut\ntool: orders.find\nwho: {agent: tech}\neffect: deny\n", "utf-8")
    assert ask("policy", "rule", "put", str(rule))[0] == 0
    try:
        assert ask(*FIND, "--as", "tech", "--dry-run")[0] == 4
        code, run = ask(*FIND, "--as", "tech")
        assert code == 4
    finally:
        assert ask("policy", "rule", "remove", "shut")[0] == 0
    (entry,) = ask("audit", "search", "--run", run["run_id"], "--phase", "decision")[1]["entries"]
    code, explained = ask("policy", "explain", str(entry["entry_id"]))
    assert (code, explained["decision"]["verdict"], explained["rule"]["agent"]) == (0, "deny", "tech")
    assert ask("policy", "explain", entry["execution_id"])[1] == explained


@pytest.mark.prints("audit search", "audit show")
def test_an_entry_of_the_audit_is_shown_by_its_number(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    run = ask(*FIND, "--as", "billing")[1]
    entries = {one["phase"]: one for one in ask("audit", "search", "--run", run["run_id"])[1]["entries"]}
    number = str(entries["outcome"]["entry_id"])
    assert ask("audit", "show", number) == (0, entries["outcome"])
    assert main(["audit", "show", number, "-o", "table"]) in (0, None)
    assert "towpath audit prove" in capsys.readouterr().out
    assert ask("audit", "show", "99999999")[1]["code"] == "not_found"
    assert ask("policy", "explain", number)[1]["code"] == "not_found", "an outcome decides nothing"
    assert ask("policy", "explain", "refunds")[1]["code"] == "request_invalid"


@pytest.mark.prints("runs retry")
def test_two_runs_are_compared_and_one_is_run_again(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    one = ask(*FIND, "--as", "billing")[1]["run_id"]
    other = ask(*CALL, "orders.find", "--args", '{"order_id": "8813"}', "--as", "billing")[1]["run_id"]
    code, found = ask("runs", "diff", one, other)
    assert (code, [row["kind"] for row in found["rows"]]) == (0, ["unequal"])
    assert {"name": "order_id", "a": "8812", "b": "8813"} in found["rows"][0]["changes"]
    assert main(["runs", "diff", one, other, "-o", "table"]) in (0, None)
    shown = capsys.readouterr().out
    assert "- order_id: 8812" in shown and "+ order_id: 8813" in shown and "0 of 1 step are equal" in shown
    code, waiting = ask(*REFUND, "--yes")
    assert code == 5
    assert ask("runs", "cancel", waiting["run_id"], "--wait")[0] == 0
    code, done = ask("runs", "retry", waiting["run_id"], "--reason", "once more")
    again = ask("runs", "show", done["new_run_id"])[1]
    assert (code, again["forked_from"]) == (0, {"run_id": waiting["run_id"], "step": 1})
    assert ask("runs", "cancel", done["new_run_id"], "--wait")[0] == 0


@pytest.mark.prints("networks diff", "networks publish", "networks rollback", "networks show")
def test_versions_of_a_network_are_compared_and_an_older_one_is_published_again(ask: Ask, tmp_path: Path) -> None:
    spec = ask("networks", "show", "support")[1]["spec"] | {"name": "spare"}
    file = tmp_path / "spare.yaml"
    for steps in (7, 9):
        file.write_text(json.dumps({"kind": "Network", **spec, "max_steps": steps}), "utf-8")
        assert ask("networks", "publish", str(file))[0] == 0
    code, found = ask("networks", "diff", "spare")
    assert (code, found["from"], found["to"]) == (0, 1, 2)
    assert [(one["member"], one["before"], one["after"]) for one in found["changes"]] == [("max_steps", "7", "9")]
    assert ask("networks", "diff", "spare", "--from", "2", "--to", "2")[1]["changes"] == []
    code, refused = ask("networks", "rollback", "spare", "1")
    assert (code, "--yes" in refused["remedy"]) == (2, True)
    code, made = ask("networks", "rollback", "spare", "1", "--yes")
    assert (code, made["version"], made["unchanged"]) == (0, 3, False)
    assert ask("networks", "diff", "spare", "--from", "1", "--to", "3")[1]["changes"] == []
    assert ask("networks", "rollback", "spare", "8", "--yes")[0] == 3


@pytest.mark.prints("queues lag", "queues list")
def test_queues_say_what_waits(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = ask("queues", "list")
    assert (code, "support" in {one["toolset"] for one in found["queues"]}) == (0, True)
    assert {one["stream"] for one in found["streams"]} >= {"TASKS", "INBOX", "DECIDE"}
    assert ask("queues", "lag", "--over", "1000") == (0, {"queues": []})
    assert main(["queues", "list", "-o", "table"]) in (0, None)
    assert "refuses new ones" in capsys.readouterr().out
    code, demand = ask("api", "GET", "/v1/scaling/support")
    assert (code, demand["pool"], demand["value"] >= 0) == (0, "support", True)
    assert ask("api", "GET", "/v1/scaling/strange")[1]["code"] == "not_found"


def test_any_operation_is_asked_with_the_means_of_every_command(ask: Ask, tmp_path: Path) -> None:
    run = ask(*FIND, "--as", "billing")[1]["run_id"]
    code, page = ask("api", "GET", "/v1/runs?limit=200", "-f", "network=support", "-f", "status=completed")
    assert (code, run in [one["run_id"] for one in page["runs"]]) == (0, True), (run, page["runs"])
    question = tmp_path / "question.json"
    question.write_text(json.dumps({"network": "support", "agent_key": "billing", "tool": "orders.refund"}))
    fields = ("--input", str(question), "-F", 'args={"order_id": "8812", "amount": 5}')
    assert ask("api", "post", "/v1/policy/check", *fields)[1]["verdict"] == "allow"
    code, refused = ask("api", "GET", "/v1/queue")
    assert (code, refused["remedy"]) == (3, "Did you mean: GET /v1/queues?")
    code, refused = ask("api", "DELETE", "/v1/queues")
    assert (code, refused["code"], refused["remedy"]) == (2, "method_not_allowed", "towpath api GET /v1/queues")
    assert ask("api", "GET", "/v1/runs/01920000-0000-7000-8000-000000000000")[1]["code"] == "run_not_found"
    assert "does not answer in JSON" in ask("api", "GET", "/metrics")[1]["detail"]


@pytest.mark.prints("config show", "context add")
def test_a_selected_context_is_asked_by_commands_and_clients(
    ask: Ask, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_CONTEXTS_FILE", str(tmp_path / "contexts.json"))
    monkeypatch.delenv("TOWPATH_SERVER")
    assert ask("context", "add", "here", "--server", server)[1]["selected"]
    assert ask("networks", "show", "support")[0] == 0
    settings = {one["name"]: one for one in ask("config", "show", "--origin")[1]["settings"]}
    assert (settings["server"]["origin"], settings["context"]["value"]) == ("context here", "here")
    assert all(part not in json.dumps(settings) for part in server.partition("@")[0].split(":")[2:]), "a password"
    origins = {one["origin"] for one in ask("config", "show", "--platform", "--origin")[1]["settings"]}
    assert {"set", "default"} <= origins
