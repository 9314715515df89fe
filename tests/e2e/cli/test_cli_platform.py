"""The command line against a whole platform with the sample: what a person does in a day."""

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.e2e.cli.conftest import MESSAGE, SAMPLE, TOWPATH, Ask, at_terminal, script, waiting_run

from towpath.cli import main
from towpath.cli.access import gate_watch
from towpath.client.client import Client


def waiting(ask: Ask, tmp_path: Path, amount: float = 101.0) -> tuple[str, str]:
    """Start a run that waits for a person; returns its id and its gate's."""
    run_id = waiting_run(ask, MESSAGE, "--script", script(tmp_path, amount))
    code, found = ask("gates", "list", "--run", run_id)
    assert code == 0
    (gate,) = found["gates"]
    return run_id, gate["gate_id"]


@pytest.mark.prints("runs events", "runs list", "runs show")
def test_a_small_refund_goes_through_and_its_record_can_be_read(ask: Ask, tmp_path: Path) -> None:
    code, run = ask("run", "support", MESSAGE, "--script", script(tmp_path, 5.0), "--label", "team=shop")
    assert (code, run["status"], run["labels"]) == (0, "completed", {"team": "shop"})
    code, page = ask("runs", "list", "--label", "team=shop")
    assert run["run_id"] in [listed["run_id"] for listed in page["runs"]]
    code, shown = ask("runs", "show", run["run_id"][-12:])
    assert (code, shown["run_id"]) == (0, run["run_id"])
    code, log = ask("runs", "events", run["run_id"])
    assert [entry["seq"] for entry in log["events"]] == list(range(1, shown["seq"] + 1))
    code, audit = ask("audit", "search", "--run", run["run_id"], "--phase", "outcome")
    assert [entry["tool"] for entry in audit["entries"]] == ["orders.refund", "orders.find"]


@pytest.mark.prints("gates show", "run", "runs watch")
def test_an_approval_lets_the_run_go_on(ask: Ask, tmp_path: Path) -> None:
    run_id, gate_id = waiting(ask, tmp_path)
    code, gate = ask("gates", "show", gate_id[:13])
    assert (code, gate["detail"]["rule"]) == (0, "refunds-over-100")
    assert gate["summary"].startswith("May billing make this call? orders.refund")
    assert gate["summary"] == ask("gates", "list", "--run", run_id)[1]["gates"][0]["summary"]
    code, _ = ask("gates", "approve", gate_id, "--digest", "sha256:" + "0" * 64)
    assert code != 0, "another call than the one that was shown must not be approved"
    code, _ = ask("gates", "approve", gate_id, "--reason", "checked")
    assert code == 0
    code, run = ask("runs", "watch", run_id)
    assert (code, run["status"]) == (0, "completed")
    code, _ = ask("gates", "approve", gate_id)
    assert code == 0, "the same verdict of the same person is accepted again, and counts once"
    code, refused = ask("gates", "deny", gate_id, "--reason", "changed my mind")
    assert (code, refused["code"]) == (1, "gate_settled")


def test_an_approval_with_another_argument_lets_the_call_happen_with_that(ask: Ask, tmp_path: Path) -> None:
    run_id, gate_id = waiting(ask, tmp_path)
    assert ask("gates", "approve", gate_id, "--edit", "amount")[1]["code"] == "request_invalid"
    code, done = ask("gates", "approve", gate_id, "--edit", "amount=20", "--edit", "order_id=8812", "--reason", "less")
    assert (code, done["verdict"]) == (0, "edit")
    assert ask("runs", "watch", run_id)[1]["status"] == "completed"
    _, audit = ask("audit", "search", "--run", run_id, "--phase", "outcome", "--tool", "orders.refund")
    assert len(audit["entries"]) == 1
    _, shown = ask("gates", "list", "--run", run_id, "--status", "all")
    assert shown["gates"][-1]["detail"]["args"]["amount"] == 20


@pytest.mark.prints("gates approve", "gates deny", "gates list")
def test_a_piped_run_prints_how_to_settle_a_gate_and_lists_all(ask: Ask, server: str, tmp_path: Path) -> None:
    _, other = waiting(ask, tmp_path)
    words = ("run", "support", MESSAGE, "--script", script(tmp_path, 102.0), "--server", server, "-o", "json")
    with subprocess.Popen([TOWPATH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        said = "".join(process.stderr.readline() for _ in range(3))
        waits, settled = r"waiting at gate (\S+) \(.+\)\n", r"  settle it with: towpath gates approve (\S+)\n"
        hint = re.fullmatch(rf"{waits}{settled} +or: towpath gates deny \S+ --reason …\n", said)
        assert hint is not None and hint[1] == hint[2], said

        async def looked() -> list[str]:
            async with Client(server) as client:
                return [str(gate_id) for gate_id in await gate_watch.waiting(client.gates, at_once=1)]

        assert {other, hint[1]} <= set(asyncio.run(looked()))
        assert ask("gates", "approve", hint[1], "--reason", "checked")[0] == 0
        assert json.loads(process.stdout.read())["status"] == "completed"
    assert process.returncode == 0
    assert ask("gates", "deny", other, "--reason", "no")[0] == 0


@pytest.mark.prints("gates bulk")
def test_many_gates_are_listed_and_then_get_one_verdict(ask: Ask, tmp_path: Path) -> None:
    waits = [waiting(ask, tmp_path) for _ in range(2)]
    of_tool = ("gates", "bulk", "approved", "--tool", "orders.refund")
    code, listed = ask(*of_tool)
    assert code == 0 and {gate_id for _, gate_id in waits} <= {gate["gate_id"] for gate in listed["gates"]}
    assert ask("gates", "bulk", "approved", "--tool", "orders.find") == (0, {"gates": [], "listed": ""})
    assert ask("gates", "bulk", "happened", "--tool", "orders.refund") == (0, {"gates": [], "listed": ""})
    (first, gate_id), (second, other) = waits
    of_first = (*of_tool, "--run", first)
    name = ask(*of_first)[1]["listed"]
    assert ask("gates", "bulk", "denied", "--run", first, "--listed", name)[1]["code"] == "request_invalid"
    assert ask(*of_first, "--listed", "yes")[1]["code"] == "request_invalid"
    assert ask(*of_tool, "--run", second, "--listed", name)[1]["code"] == "digest_changed"
    code, done = ask(*of_first, "--reason", "checked", "--listed", name)
    assert code == 0 and [(row["gate_id"], row["code"]) for row in done["gates"]] == [(gate_id, "")]
    code, run = ask("runs", "watch", first)
    assert (code, run["status"]) == (0, "completed")
    assert ask(*of_first, "--listed", name)[1]["code"] == "digest_changed"

    denied = ("gates", "bulk", "denied", "--tool", "orders.refund", "--reason", "not now")
    before = ask(*denied)[1]
    _, later = waiting(ask, tmp_path)
    code, done = ask(*denied, "--listed", before["listed"])
    assert code == 0 and {row["gate_id"] for row in done["gates"]} == {gate["gate_id"] for gate in before["gates"]}
    assert other in {row["gate_id"] for row in done["gates"]} and later not in {row["gate_id"] for row in done["gates"]}
    assert ask("gates", "deny", later, "--reason", "no")[0] == 0


@pytest.mark.prints("queues dead list", "runs fork", "runs replay")
def test_a_stored_run_replays_here_and_there_and_can_be_forked(
    ask: Ask, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run = ask("run", "support", MESSAGE, "--script", script(tmp_path, 5.0))
    code, replayed = ask("runs", "replay", run["run_id"])
    assert (code, replayed["verdict"], replayed["events"]) == (0, "identical", run["seq"])
    code, totals = ask("runs", "replay", "--all", "--network", "support")
    assert code == 0 and totals["identical"] == totals["runs"] >= 1
    assert ask("runs", "replay", "--all", "--network", "nosuch")[0] == 1, "a gate that checked nothing is not passed"
    capsys.readouterr()
    assert main(["runs", "export", run["run_id"]]) in (0, None)
    golden = tmp_path / "golden.jsonl"
    golden.write_text(capsys.readouterr().out, "utf-8")
    code, replayed = ask("runs", "replay", "--file", str(golden))
    assert (code, replayed["verdict"], replayed["events"]) == (0, "identical", run["seq"])
    code, refused = ask("runs", "replay", "--all", "--file", str(golden))
    assert (code, refused["code"]) == (2, "request_invalid")
    golden.write_text(golden.read_text("utf-8").replace('"input_preview":"', '"input_preview":"Not '), "utf-8")
    code, replayed = ask("runs", "replay", "--file", str(golden))
    assert (code, replayed["verdict"]) == (1, "diverged")
    assert replayed["differences"][0].startswith('/input_preview: recorded "Not ')

    last = json.loads(Path(script(tmp_path, 5.0)).read_text("utf-8"))[-1:]
    (tmp_path / "last.json").write_text(json.dumps(last), "utf-8")
    words = ("--from-step", str(run["step"]), "--note", "Be brief.", "--decisions", str(tmp_path / "last.json"))
    code, forked = ask("runs", "fork", run["run_id"], *words)
    assert code == 0
    code, ended = ask("runs", "watch", forked["run_id"])
    assert (code, ended["status"], ended["forked_from"]) == (
        *(0, "completed"),
        {"run_id": run["run_id"], "step": run["step"]},
    )
    code, audit = ask("audit", "search", "--run", forked["run_id"])
    assert [entry["phase"] for entry in audit["entries"]] == ["run.forked"], "and no call of the parent was made again"
    code, refused = ask("runs", "fork", run["run_id"], "--from-step", "99")
    assert (code, refused["code"]) == (1, "fork_refused")
    assert ask("queues", "dead", "list") == (0, {"letters": []})
    assert ask("queues", "dead", "show", "77")[1]["code"] == "not_found"


def test_a_denial_needs_a_reason_and_the_model_sees_it(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, gate_id = waiting(ask, tmp_path)
    code, refused = ask("gates", "deny", gate_id, "--reason", " ")
    assert (code, refused["code"]) == (2, "reason_required")
    code, _ = ask("gates", "deny", gate_id, "--reason", "too much")
    assert code == 0
    code, run = ask("runs", "watch", run_id)
    assert (code, run["status"]) == (0, "completed"), "a denial is a result for the model and never ends a run"
    _, audit = ask("audit", "search", "--run", run_id, "--tool", "orders.refund", "--phase", "outcome")
    assert audit["entries"] == []
    assert ask("runs", "show", run_id)[1]["calls"] == {"asked": 2, "allowed": 1, "denied": 1, "held": 1}
    assert main(["runs", "show", run_id, "-o", "table"]) == 0
    assert re.search(r"^ *calls +2 asked · 1 allowed · 1 denied · 1 held$", capsys.readouterr().out, re.MULTILINE)


def test_a_search_for_a_misspelt_tool_names_the_one_meant(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("audit", "search", "--tool", "orders.refnd")[1]["entries"] == []
    assert main(["audit", "search", "--tool", "orders.refnd", "-o", "table"]) in (0, None)
    assert "of the tool 'orders.refnd'; did you mean 'orders.refund'?" in " ".join(capsys.readouterr().out.split())


@pytest.mark.prints("runs cancel", "runs note", "runs pause", "runs resume")
def test_a_cancelled_run_stops_and_its_exit_code_says_so(ask: Ask, tmp_path: Path) -> None:
    run_id, _ = waiting(ask, tmp_path)
    assert {ask("runs", *act)[0] for act in (("pause", run_id), ("note", run_id, "Wait."), ("resume", run_id))} == {0}
    code, run = ask("runs", "cancel", run_id, "--reason", "wrong order", "--wait")
    assert (code, run["status"]) == (0, "cancelled")
    last = run["effects"][-1]
    assert (last["tool"], last["outcome"], last["source"]) == ("orders.refund", "did_not_happen", "void")
    code, run = ask("runs", "watch", run_id)
    assert (code, run["status"]) == (1, "cancelled")


def test_a_person_at_the_terminal_is_asked(server: str, tmp_path: Path) -> None:
    command = ["run", "support", MESSAGE, "--script", script(tmp_path, 102.0)]
    code, said = at_terminal(server, command, ("[s]kip", "yes"), ("reason (may be empty):", "looks right"))
    assert code == 0 and "approved: looks right" in said and "completed in" in said, said


def test_a_person_at_the_terminal_who_denies_is_asked_for_the_reason_until_there_is_one(
    server: str, tmp_path: Path
) -> None:
    command = ["run", "support", MESSAGE, "--script", script(tmp_path, 104.0)]
    code, said = at_terminal(server, command, ("[s]kip", "d"), ("reason:", ""), ("reason:", "too high"))
    assert code == 0 and "a denial needs a reason" in said and "denied: too high" in said, said
    assert said.count("approve?") == 1, said


def test_a_person_at_the_terminal_changes_the_call_which_is_refused_until_it_fits(
    server: str, ask: Ask, tmp_path: Path
) -> None:
    command = ["run", "support", MESSAGE, "--script", script(tmp_path, 103.0), "--label", "edited=yes"]
    code, said = at_terminal(
        server, command,
        ("[s]kip", "e"), ("(empty: none):", "amount=lots"), ("reason (may be empty):", ""),
        ("[s]kip", "e"), ("(empty: none):", "amount"),
        ("[s]kip", "e"), ("(empty: none):", ""),
        ("[s]kip", "e"), ("(empty: none):", "amount=60.5"), ("reason (may be empty):", "half of it"),
        EDITOR="", VISUAL="",
    )  # fmt: skip
    assert code == 0 and "completed in" in said, said
    for words in ('amount: 103.0 → "lots"', "edit_refused", "amount is no field=value", "nothing was changed"):
        assert words in said, words
    assert "amount: 103.0 → 60.5" in said and "half of it" in said
    _, page = ask("runs", "list", "--label", "edited=yes")
    _, audit = ask("audit", "search", "--run", page["runs"][0]["run_id"])
    edited = [entry for entry in audit["entries"] if entry["phase"] == "approval.edited"]
    assert len(edited) == 1 and edited[0]["detail"]["reason"] == "half of it"


def test_what_does_not_exist_is_not_found(ask: Ask) -> None:
    code, refused = ask("run", "nowhere", "hello")
    assert (code, refused["code"]) == (3, "network_not_found")
    code, refused = ask("runs", "show", "01920000-0000-7000-8000-000000000000")
    assert (code, refused["code"]) == (3, "run_not_found")


@pytest.mark.prints("networks validate")
def test_networks_are_validated_published_and_shown(ask: Ask, tmp_path: Path) -> None:
    code, valid = ask("networks", "validate", str(SAMPLE / "network.yaml"))
    assert (code, valid["name"]) == (0, "support")
    code, found = ask("networks", "publish", str(SAMPLE / "network.yaml"))
    assert (code, found["networks"][0]["unchanged"]) == (0, True)
    code, shown = ask("networks", "show", "support")
    assert (code, set(shown["snapshot"]["agents"])) == (0, {"triage", "billing", "tech"})
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        (SAMPLE / "network.yaml").read_text("utf-8").replace("is_default: true", "is_default: false"), "utf-8"
    )
    code, refused = ask("networks", "validate", str(bad))
    assert (code, refused["code"]) == (2, "network_invalid")
    assert "default_agent_missing" in {entry["code"] for entry in refused["errors"]}


@pytest.mark.prints("policy permissions")
@pytest.mark.parametrize(
    ("agent", "amount", "code", "verdict"),
    [("billing", 99, 0, "allow"), ("billing", 129, 5, "require_approval"), ("tech", 1, 4, "deny")],
)
def test_the_matrix_can_be_asked(ask: Ask, agent: str, amount: int, code: int, verdict: str) -> None:
    args = json.dumps({"order_id": "8812", "amount": amount})
    words = ("--network", "support", "--agent", agent, "--tool", "orders.refund", "--args", args)
    got, said = ask("policy", "check", *words)
    assert (got, said["verdict"]) == (code, verdict)
    assert [hint.partition(":")[0] for hint in said["hints"]] == (["no rule alone opens it"] if agent == "tech" else [])
    typed = ("--network", "suport", *words[2:])
    hint = "no published network is named 'suport'; did you mean 'support'?"
    assert ask("policy", "check", *typed)[1]["hints"] == [hint]
    may = {one["tool"] for one in ask("policy", "permissions", "support", agent)[1]["permissions"]}
    assert may == ({"orders.find"} if agent == "tech" else {"orders.find", "orders.refund"})


def test_a_bad_matrix_changes_nothing(ask: Ask, tmp_path: Path) -> None:
    _, before = ask("policy", "show")
    bad = tmp_path / "policy.yaml"
    bad.write_text("kind: Policy\nrules:\n  - {name: a, tool: '*', effect: perhaps}\n", "utf-8")
    code, refused = ask("policy", "apply", str(bad))
    assert (code, refused["code"]) == (2, "policy_invalid")
    doubtful = tmp_path / "doubtful.yaml"
    doubtful.write_text("kind: Policy\nrules:\n  - {name: typo, tool: order.find, effect: allow}\n")
    code, refused = ask("policy", "apply", str(doubtful), "--strict")
    assert (code, refused["code"]) == (2, "policy_invalid")
    assert "doubtful.yaml:3: rule typo: no registered tool matches 'order.find'" in refused["errors"][0]["detail"]
    assert ask("policy", "show")[1]["version"] == before["version"]


@pytest.mark.prints(
    *("policy log", "policy rollback", "policy rule put", "policy rule remove", "policy rule show"),
    *("policy show", "policy versions"),
)
def test_one_rule_is_changed_shown_logged_and_taken_back(ask: Ask, tmp_path: Path) -> None:
    before = ask("policy", "show")[1]
    rule = tmp_path / "rule.yaml"
    rule.write_text("name: extra\ntool: nothing.here\neffect: deny\nnote: only a test\n", "utf-8")
    code, put = ask("policy", "rule", "put", str(rule), "--note", "trying", "--if-version", str(before["version"]))
    assert (code, put["version"], put["rewritten"]) == (0, before["version"] + 1, False)
    assert ask("policy", "rule", "show", "extra")[1]["effect"] == "deny"
    assert ask("policy", "rule", "put", str(rule), "--if-version", "1")[1]["code"] == "policy_moved"
    newest = ask("policy", "log", "--limit", "1")[1]["changes"][0]
    assert (newest["note"], [one["name"] for one in newest["changes"]]) == ("trying", ["extra"])
    assert ask("policy", "rule", "remove", "extra")[0] == 0
    code, back = ask("policy", "rollback", str(before["version"]))
    assert (code, back["changed"]) == (0, False)
    assert ask("policy", "show")[1]["text"] == before["text"]
    assert ask("policy", "versions")[1]["current"] == before["version"] + 2
    assert ask("policy", "rule", "show", "extra")[1]["code"] == "rule_not_found"


@pytest.mark.prints("audit stats", "policy diff", "policy shadow")
def test_another_matrix_is_weighed_by_past_calls_and_beside_live_ones(ask: Ask, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.yaml"
    nothing.write_text("kind: Policy\nrules: []\n", "utf-8")
    assert ask("policy", "shadow", str(nothing), "--note", "how much hangs on it")[1]["on"]
    assert ask("run", "support", MESSAGE, "--script", script(tmp_path, 5))[0] == 0
    code, found = ask("policy", "diff", str(nothing), "--since", "1d", "--check")
    assert (code, {group["change"] for group in found["groups"]}) == (1, {"newly_denied"})
    assert ask("policy", "diff", str(SAMPLE / "policy.yaml"), "--since", "1d", "--check")[0] == 0
    shadow = ask("policy", "shadow", "off")[1]
    assert (shadow["on"], shadow["divergences"] > 0) == (False, True)
    code, figures = ask("audit", "stats", "--since", "1d", "--by", "agent")
    assert (code, figures["total"]["succeeded"] > 0) == (0, True)


@pytest.mark.prints("policy check", "policy test")
def test_expected_verdicts_are_asked_of_the_matrix_in_force(ask: Ask, tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    who = "who: {network: support, agent: billing}, tool: orders.refund"
    cases.write_text(
        f"kind: PolicyTest\ncases:\n  - {{{who}, args: {{order_id: a, amount: 5}}, verdict: allow}}\n"
        f"  - {{{who}, args: {{order_id: a, amount: 500}}, verdict: allow}}\n",
        "utf-8",
    )
    run_id = ask("run", "support", MESSAGE, "--script", script(tmp_path, 5))[1]["run_id"]
    named = ("--network", "support", "--agent", "billing", "--tool", "orders.refund", "--args", '{"order_id": "8812"}')
    assert ask("policy", "check", *named, "--run", run_id)[1]["origins"]
    assert ask("policy", "check", *named, "--origin", '{"worst": "untrusted"}')[1]["origins"] == []
    code, said = ask("policy", "test", str(cases))
    assert (code, [result["ok"] for result in said["results"]]) == (1, [True, False])


@pytest.mark.prints("tools list", "tools show")
def test_tools_and_their_versions_are_listed(ask: Ask) -> None:
    code, found = ask("tools", "list")
    effects = {tool["name"]: tool["effect_class"] for tool in found["tools"]}
    assert (code, effects["orders.find"], effects["orders.refund"]) == (0, "pure", "irreversible")
    code, shown = ask("tools", "show", "orders.refund")
    assert (code, shown["version"], shown["effect_class"]) == (0, 1, "irreversible")
    assert set(shown["parameters"]["properties"]) > {"order_id", "amount"}
    code, said = ask("tools", "show", "order.refund")
    assert (code, said["detail"].partition("; ")[2]) == (3, "did you mean orders.refund?")


@pytest.mark.prints("tools lint")
def test_the_declarations_of_registered_tools_are_looked_at(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = ask("tools", "lint", "--live")
    assert (code, {gap["tool"] for gap in found["gaps"]} >= {"orders.refund"}) == (1, True)
    assert main(["policy", "suggest", "--live"]) == 0
    assert "  orders.refund:\n    sinks: [order_id]  # " in capsys.readouterr().out


@pytest.mark.prints("policy apply")
def test_c14_a_profile_is_checked_like_a_file(ask: Ask) -> None:
    code, applied = ask("policy", "apply", "--profile", "strict", "--dry-run")
    assert (code, applied["rules"], applied["changed"]) == (0, 7, True)


@pytest.mark.prints("keys create", "keys list", "keys revoke")
def test_a_key_is_shown_once_and_can_be_revoked(ask: Ask) -> None:
    code, made = ask("keys", "create", "--caller", "shop", "--scope", "runs:read", "--expires", "24h")
    assert (code, made["key"].split(".")[0]) == (0, f"twp_{made['prefix'].removeprefix('twp_')}")
    _, found = ask("keys", "list")
    assert [key["key"] for key in found["keys"] if key["prefix"] == made["prefix"]] == [None]
    assert ask("keys", "revoke", made["prefix"])[0] == 2, "nobody is there to be asked"
    code, _ = ask("keys", "revoke", made["prefix"], "--yes")
    assert code == 0


@pytest.mark.prints("doctor")
def test_the_doctor_finds_nothing_wrong(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for model, lacks in ((), []), (("--model", "anthropic:x"), ["Give the deciders"]):
        code, found = ask("doctor", *model)
        assert (code, [one["remedy"][:17] for one in found["checks"] if one["good"] is False]) == (len(lacks), lacks)


def test_tables_are_for_people(server: str, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "list", "-o", "table"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^tool\s+version\s+toolset", shown)
    assert shown.index("orders.find") < shown.index("plan_setup"), "own tools come first"
    assert main(["tools", "show", "orders.refund", "-o", "table"]) == 0
    assert re.search(
        r"\n\nparameter +type +description\n.*order_id +string +required ", capsys.readouterr().out, re.DOTALL
    )
    assert main(["tools", "list", "-o", "jsonl"]) == 0
    assert all(json.loads(line)["name"] for line in capsys.readouterr().out.splitlines())
