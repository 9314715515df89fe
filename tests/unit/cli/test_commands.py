"""The command line as a person meets it: help, suggestions, messages, exit codes."""

import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from cyclopts import App

from towpath.cli import main
from towpath.cli.access.gates_commands import verdicts
from towpath.cli.app import _COMMANDS, make_app
from towpath.cli.runs.runs_commands import where_none_are
from towpath.cli.shared.exit_codes import exit_code, format_problem
from towpath.cli.shared.options import ConnectionOptions
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.client.settings import running_server_url
from towpath_contracts.problems.registry import REGISTRY, problem
from towpath_contracts.runs.views import RunPage
from towpath_tas.adapters.keys import load_key

TOWPATH = Path(sys.executable).parent / "towpath"
COMMANDS = [
    *(
        "demo run",
        "demo crash",
        "demo flood",
        "test",
        "eval",
        "run",
        "runs list",
        "runs show",
        "runs watch",
        "runs events",
        "runs cancel",
    ),
    *("runs log", "runs output", "runs replay", "runs export", "runs fork", "runs erase", "runs goal", "runs history"),
    *("runs pause", "runs resume", "runs note", "runs gate", "runs confidence"),
    *("runs tree", "plans check", "plans show"),
    *("workspace ls", "workspace cat", "workspace diff", "workspace export"),
    *("queues dead list", "queues dead show", "queues dead requeue", "queues dead discard"),
    *("runs bulk", "runs prune", "workers list", "workers drain", "costs"),
    *("switches list", "switches pause", "switches resume"),
    *("budgets show", "budgets set", "budgets lift"),
    *("projects quota show", "projects quota set", "projects quota lift"),
    *("grants from-network", "grants from-plan", "grants from-runs", "grants propose"),
    *("gates list", "gates show", "gates approve", "gates deny", "gates delegate", "gates resolve", "gates watch"),
    *("gates notices", "gates bulk", "networks graph"),
    *("networks validate", "networks publish", "networks list", "networks show", "networks prompt", "networks invoke"),
    *(
        "policy apply",
        "policy check",
        "policy show",
        "tools list",
        "tools show",
        "tools accept",
        "tools refuse",
        "tools withdraw",
        "audit search",
    ),
    *("a2a card", "clients subjects", "worker", "serve", "agents serve"),
    *("mcp add", "mcp inspect", "mcp serve", "mcp config", "tools proposals", "tools diff"),
    *("init", "new agent", "new network", "new tool", "new policy", "schema"),
    *("policy versions", "policy log", "policy rollback", "policy diff", "policy shadow", "policy test"),
    *("policy profiles list", "policy profiles show", "policy suggest", "tools lint"),
    *("policy rule show", "policy rule put", "policy rule remove", "policy permissions", "audit stats"),
    *(
        "keys create",
        "keys list",
        "keys revoke",
        "keys ticket",
        "keys seal",
        "keys nkey",
        *("backup", "restore", "upgrade check", "db restored"),
        "db migrate",
        "db plan",
        "db status",
        "streams ensure",
        "streams authority",
    ),
    *("audit prove", "audit export", "audit verify", "audit checkpoint", "audit erase"),
    *("erasures list", "erasures show", "erasures confirm", "erasures withdraw"),
    *(f"{who} credential {verb}" for who in ("workers", "agents", "clients") for verb in ("add", "list", "remove")),
    *("context add", "context list", "context select", "context show", "context remove", "config show", "api"),
    *("completion install", "completion show", "tools call", "runs diff", "runs retry", "policy explain", "audit show"),
    *("networks diff", "networks rollback", "queues list", "queues lag"),
    *("chaos", "down", "logs", "doctor trace", "explain", "version"),
]


def nobody_listens() -> str:
    """Return an address where nothing answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_help_comes_at_once() -> None:
    took = []
    for _ in range(5):
        before = os.times()
        subprocess.run([TOWPATH, "--help"], check=True, capture_output=True)
        after = os.times()
        took.append(after.children_user + after.children_system - before.children_user - before.children_system)
        if took[-1] < 0.4:
            break
    assert min(took) < 0.4  # seconds of processor time, so that a busy machine doesn't count


def test_help_imports_nothing_that_a_command_needs() -> None:
    code = "import sys; from towpath.cli import main; main(['--help']); print(*sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = set(shown.splitlines()[-1].split())
    assert not loaded & {"pydantic", "httpx2", "nats", "faststream", "asyncpg", "cryptography", "yaml"}


def modules_loaded_by(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sorted(sys.modules))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(shown.stdout.splitlines()[-1].split())


def test_listing_runs_imports_the_messages_of_a_list_and_no_others() -> None:
    code = "import towpath.cli.runs.runs_commands; from towpath import Client; Client('http://127.0.0.1:1')"
    loaded = modules_loaded_by(code)
    assert "towpath_contracts.runs.views" in loaded
    others = ("towpath_contracts.events", "towpath_contracts.tools", "towpath_contracts.tasks", "towpath_readings")
    unused = ("towpath_contracts.budgets", "towpath.networks", "towpath.tasks", "towpath.tools", "yaml", "rich", "nats")
    assert not [name for name in loaded if name.startswith((*others, *unused))]


def test_commands_that_ask_a_platform_import_no_service_and_no_engine() -> None:
    modules = sorted({path.partition(":")[0] for _, path, _ in _COMMANDS})
    code = "; ".join(f"import towpath.cli.{name}" for name in modules)
    parts = ("gateway", "orchestrator", "decider", "tas", "worker", "agent", "log_writer", "watchdog", "engine")
    found = {name.partition(".")[0] for name in modules_loaded_by(code)}
    assert not found & {f"towpath_{part}" for part in parts}
    assert not found & {"faststream", "asyncpg", "fastapi", "uvicorn", "nats"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_ends_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    examples = shown.rpartition("Examples:\n")[2].splitlines()
    assert len([line for line in examples if line.startswith(f"  towpath {command} ".rstrip())]) >= 2


def test_a_status_that_no_gate_has_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["gates", "list", "--status", "foo"])
    assert stopped.value.code == 2
    errors = capsys.readouterr().err
    assert all(word in errors for word in ("pending", "approved", "denied", "expired", "settled", "void", "all"))


@pytest.mark.parametrize(
    "words", [("run", "n", "m", "--wait", "soon"), ("runs", "replay"), ("tools", "lint"), ("policy", "apply")]
)
def test_a_wrong_command_line_is_told_how_to_correct_it_and_not_a_request(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ((), ("--json",)):
        assert main([*words, *more]) == 2
        shown = capsys.readouterr().err
        assert "send it again" not in shown
        assert "Correct the command and run it again" in shown


def test_nothing_is_erased_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["erasures", "confirm", str(uuid.uuid4()), "--server", nobody_listens()]
    assert main(words) == 2, "where nobody can be asked, nobody is reached either"
    assert "--yes" in capsys.readouterr().err
    assert main([*words, "--yes"]) == 6


def test_a_table_in_a_pipe_is_as_wide_as_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Column(name, name) for name in ("one", "two")]
    OutputPrinter("table").rows("rows", [{"one": "a" * 90, "two": "b" * 90}], columns, empty="")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["one", "two"], ["a" * 90, "b" * 90]]


def test_the_words_of_a_gate_are_those_it_takes() -> None:
    row = {"gate_type": "approval", "approval_id": "x", "detail": {}}
    assert verdicts(row) == ("approved", "denied", "edit")
    assert verdicts({**row, "gate_type": "manual"}) == ("approved", "denied"), "changed too often already"
    doubt = {"gate_type": "unknown_effect", "approval_id": None, "detail": {"verdicts": ["happened", "retry"]}}
    assert verdicts(doubt) == ("happened", "retry")


def commands_below(app: App) -> list[list[str]]:
    found = []
    for name in app:
        if not name.startswith("-"):
            found += [[name, *words] for words in commands_below(app[name])] or [[name]]
    return found


def groups_below(app: App, above: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return the groups by their names, each with its commands."""
    found: dict[str, list[str]] = {}
    for name in app:
        commands = [] if name.startswith("-") else commands_below(app[name])
        if commands:
            words = (*above, name)
            found[" ".join(words)] = [" ".join((*words, *more)) for more in commands]
            found |= groups_below(app[name], words)
    return found


def test_the_help_of_every_group_ends_with_examples_of_its_own_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for group, commands in groups_below(make_app()).items():
        assert main([*group.split(), "--help"]) == 0
        examples = capsys.readouterr().out.rpartition("Examples:\n")[2].splitlines()
        own = [line for line in examples if any(line.startswith(f"  towpath {one}") for one in commands)]
        assert len(own) >= 2, group


@pytest.mark.parametrize(
    ("module", "command"),
    [("towpath_embedded up", "up"), ("towpath_worker", "worker"), ("towpath_agent", "agents serve")],
)
def test_the_help_of_a_command_that_becomes_another_program_ends_with_examples_too(module: str, command: str) -> None:
    program = [sys.executable, "-m", *module.split(), "--help"]
    shown = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    examples = shown.rpartition("Examples:\n")[2].splitlines()
    assert len([line for line in examples if line.startswith(f"  towpath {command} ")]) >= 2


def test_the_list_of_commands_is_complete() -> None:
    found = [" ".join(words) for words in commands_below(make_app())]
    assert sorted(found) == sorted([*COMMANDS, "up"])


@pytest.mark.parametrize(("typed", "meant"), [("rnus", "runs"), ("runs lst", "list"), ("shma", "schema")])
def test_a_typing_mistake_gets_a_suggestion(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(typed.split())
    assert stopped.value.code == 2
    assert f'"{meant}"' in capsys.readouterr().err


def test_no_server_is_reported_at_once_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    first_entry = time.monotonic()
    assert main(["runs", "list", "--server", nobody_listens()]) == 6
    errors = capsys.readouterr().err
    assert errors.startswith("server_unreachable  No Towpath answers there: http://127.0.0.1:")
    assert "Start it: towpath up" in errors
    assert "Traceback" not in errors
    assert time.monotonic() - first_entry < 20


def test_a_failure_is_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list", "-o", "json", "--server", nobody_listens()]) == 6
    errors, remedy = json.loads(capsys.readouterr().err), "Start it: towpath up, or name another: --server URL."
    assert (errors["code"], errors["remedy"]) == ("server_unreachable", remedy)
    assert REGISTRY["server_unreachable"].remedy.startswith(remedy[:-1]), "the same, without what a program writes"


def test_every_problem_of_the_registry_has_an_exit_code_that_is_a_failure() -> None:
    codes = {code: exit_code(problem(code, "x")) for code in REGISTRY}
    assert set(codes.values()) <= {1, 2, 3, 4, 5, 6}
    assert codes["run_not_found"] == 3
    assert codes["forbidden"] == codes["unauthenticated"] == codes["requester_may_not_approve"] == 4
    assert codes["timeout"] == 5
    assert codes["unavailable"] == codes["server_unreachable"] == 6
    assert codes["network_invalid"] == codes["request_invalid"] == codes["file_missing"] == 2


def test_every_entry_of_a_problem_is_shown() -> None:
    found = problem("network_invalid", "2 problems", errors=({"pointer": "a.yaml:3", "detail": "x"}, {"detail": "y"}))
    assert format_problem(found)[1:3] == ["  - a.yaml:3: x", "  - y"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "n", "m", "--detach", "--wait", "3s"],
        ["run", "n", "m", "--wait", "soon"],
        ["run", "n", "m", "--label", "nonsense"],
        ["run", "n", "m", "--quote", "nonsense"],
        ["run", "n", "m", "--script", "/nowhere/script.json"],
        ["policy", "check", "--network", "n", "--agent", "a", "--tool", "t", "--args", "{"],
        ["policy", "check", "--network", "n", "--agent", "a", "--tool", "t", "--args", "[]"],
        ["demo"],
        ["db", "status"],
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_reached(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOWPATH_SERVER", nobody_listens())
    monkeypatch.delenv("TOWPATH_DATABASE_URL", raising=False)
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_unknown_service_is_not_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "kitchen"]) == 3
    assert "gateway" in capsys.readouterr().err


def test_up_belongs_to_the_embedded_platform() -> None:
    shown = subprocess.run([TOWPATH, "up", "--help"], check=True, capture_output=True, text=True).stdout
    assert "--ephemeral" in shown
    assert "--nats-port" in shown


@pytest.mark.prints("explain")
def test_a_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "gate_settled", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == 409
    assert main(["explain", "gate_setled"]) == 3
    assert "did you mean gate_settled?\n  Explain it: towpath explain gate_settled; or" in capsys.readouterr().err


@pytest.mark.prints("keys ticket", "keys seal")
def test_a_key_that_signs_is_made_once_and_for_its_owner_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("ticket", "seal"):
        held = set()
        for made in (True, False):
            assert main(["keys", kind, str(tmp_path / kind)]) == 0
            assert json.loads(capsys.readouterr().out)["made"] is made
            held.add(load_key(tmp_path / kind).private_bytes_raw())
        assert len(held) == 1
        assert main(["keys", kind, str(tmp_path / "nowhere" / kind)]) == 2


def test_the_server_is_the_option_then_the_environment_then_the_platform_here_then_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOWPATH_SERVER", raising=False)
    assert ConnectionOptions().address() == "http://127.0.0.1:8787"
    (tmp_path / ".towpath").mkdir()
    (tmp_path / ".towpath/state.json").write_text(
        json.dumps({"gateway_url": "http://127.0.0.1:5001", "pid": os.getpid()})
    )
    (tmp_path / ".towpath/lock").touch()
    assert running_server_url() is None, "a state file without a held lock is a leftover"
    with (tmp_path / ".towpath/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert ConnectionOptions().address() == "http://127.0.0.1:5001"
        assert ConnectionOptions(server="http://x").address() == "http://x"


def test_a_reader_that_goes_away_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run([TOWPATH, "explain", "-o", "jsonl"], stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_color_is_honoured() -> None:
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"}
    done = subprocess.run([TOWPATH, "explain", "-o", "table"], env=environment, capture_output=True, check=True)
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["keys", "create", "--caller", "x", "--role", "viewer", "--expires", "tomorrow"], "request_invalid"),
        (["workers", "credential", "add", "x", "--project", "p", "--toolset", "t"], "file_missing"),
    ],
)
def test_what_a_person_got_wrong_is_no_internal_failure(
    arguments: list[str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(code)


def test_a_file_without_a_key_is_not_taken_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, kept = tmp_path / "audit.jsonl", tmp_path / "kept.txt"
    bundle.write_text("{}\n")
    kept.write_text("towpath/default\n71\nhash\n\n— towpath sig+nature\n")
    assert main(["audit", "verify", str(bundle), "--key", str(kept)]) == 2
    assert "holds no public key" in capsys.readouterr().err


def test_a_list_of_runs_that_found_none_among_the_newest_says_how_to_go_on() -> None:
    older = uuid.uuid4()
    assert f"--before {older}" in where_none_are(RunPage(runs=(), next_before=older))
    assert "towpath run NETWORK" in where_none_are(RunPage(runs=()))
