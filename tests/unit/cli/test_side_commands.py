"""What the command line says on stderr beside its work: entries of scripts and links of mounts that do nothing."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args
from uuid import UUID

import pytest

from towpath.cli import main
from towpath.cli.definitions.objective_options import ObjectiveOptions
from towpath.cli.runs import run_follower
from towpath.cli.runs.run_command import _OPTIONS, TaskOptions, with_options_named
from towpath.cli.runs.run_follower import RunFollower
from towpath.cli.shared.exit_codes import UNREACHABLE, format_problem
from towpath.cli.shared.input_files import read_script
from towpath.cli.shared.output import OutputPrinter
from towpath.client.client import Client
from towpath.networks.script_files import ACTIONS, DETAILS, ENTRY_WORDS
from towpath_contracts.decisions.decision import AnyDecision, CheckedDecision
from towpath_contracts.events.child_events import ChildGateWaitChanged
from towpath_contracts.events.log import (
    DecisionRefused,
    DecisionRequested,
    GateOpened,
    LogEntry,
    NoteAdded,
    RunFinished,
    ToolCallDenied,
    ToolCallFinished,
)
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.tools.calls import Denial, ToolFailure
from towpath_decider.core.script import Script
from towpath_readings.stream.tree import TreeEntry

RUN = UUID(int=7)
AT = datetime(2026, 11, 22, tzinfo=UTC)
RESPOND = {"action": "RESPOND", "action_reasoning": "", "action_details": {"payload": {}}}


def test_an_unknown_word_of_a_script_s_entry_is_warned_of(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps([{**RESPOND, "agent": "a"}, {**RESPOND, "agent_key": "a"}, "no decision", {"raw": "x"}])
    )
    read, doubts = read_script(script)
    assert len(read.entries) == 4
    assert doubts == [f"{script}:1: entry 2 of 4: no decision has agent_key; did you mean agent?"]


def test_a_condition_of_an_entry_is_one_of_its_words(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{**RESPOND, "when": {"task": "8812"}}]))
    read, doubts = read_script(script)
    assert len(read.entries) == 1 and doubts == []


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ({"last_cal": "succeeded"}, ["no when has last_cal; did you mean last_call?"]),
        ({"zone": "x"}, ["no when has zone; there are task, last_call"]),
        ({"last_call": "succeded"}, ["no last_call is succeded; did you mean succeeded?"]),
        ({"last_call": "failed", "task": "8812"}, []),
        ("8812", ['when is an object, such as {"task": "8812"}']),
    ],
)
def test_what_a_condition_does_not_know_is_warned_of(tmp_path: Path, when: object, told: list[str]) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{**RESPOND, "when": when}]))
    assert read_script(script)[1] == [f"{script}:1: {one}" for one in told]


def test_a_script_may_have_the_actions_and_the_words_of_the_contracts_and_what_a_decider_reads_beside_them() -> None:
    decisions = {*get_args(AnyDecision), *get_args(get_args(CheckedDecision)[0])}
    assert set(ACTIONS) == {decision.model_fields["action"].default for decision in decisions}
    for decision in decisions:
        fields = decision.model_fields["action_details"].annotation.model_fields
        must, may = DETAILS[decision.model_fields["action"].default]
        assert {name for name, field in fields.items() if field.is_required()} == set(must)
        assert set(fields) == {*must, *may}
    answered = {word for decision in decisions for word in decision.model_fields}
    beside = {"agent": "clerk", "delay_ms": 1, "when": {}}
    assert answered | set(beside) == ENTRY_WORDS
    played = Script([{**RESPOND, **beside}]).next_answer("clerk", {})
    assert played is not None and json.loads(played.texts[0]) == RESPOND


def test_links_that_a_mount_leaves_out_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.md").write_text("a")
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "c.md").symlink_to(tmp_path / "a.md")
    mounts = ObjectiveOptions(mount=(str(tmp_path),)).options()["mounts"]
    assert [file["path"] for file in mounts[0]["files"]] == ["a.md"]
    assert "2 symbolic link(s) are not mounted, the first is b.md" in capsys.readouterr().err


async def test_an_agent_that_nobody_serves_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    class Log(Client):
        async def events(
            self, run_id: UUID | str, after: int = 0, *, children: bool = False
        ) -> AsyncIterator[LogEntry]:
            assert (after, children) == (0, False), "all events of the run, and those of no other"
            asked = {"request_id": RUN, "step": 1, "epoch": 1, "agent_key": "a"}
            yield LogEntry(seq=1, at=AT, event=DecisionRequested(**asked, model="agent:early"))
            yield LogEntry(seq=2, at=AT, event=DecisionRequested(**asked, model="agent:sayer"))
            async with asyncio.timeout(60):
                while not listed:
                    await asyncio.sleep(0.001)
                    listed.extend(capsys.readouterr().err.splitlines())

    listed: list[str] = []
    async with Log("http://127.0.0.1:9") as client:
        await RunFollower(client, OutputPrinter("json"), unanswered_s=0.01).follow(RUN)
    assert len(listed) == 1 and "waits for an agent named sayer" in listed[0]


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
async def test_calls_that_were_refused_are_told_at_the_end(
    form: Literal["table", "json", "jsonl"], capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr in every format, since a run that completed says nothing of them; a failure too, to a program."""
    denial = Denial(violation_type="limit", reason="rule refunds-small allows 3 calls per run")
    failed = RunFinished(status="failed", reason="no_key", final={"message": "set KEY"}, steps=1, fence=0)
    events = (
        ToolCallDenied(
            execution_id=UUID(int=1), step=1, epoch=1, agent_key="a", call_index=0, tool="orders.refund", denial=denial
        ),
        DecisionRefused(step=1, epoch=1, agent_key="a", code="invalid_output", feedback="no JSON"),
        DecisionRefused(step=1, epoch=1, agent_key="a", code="arguments_invalid", feedback="no parameter x"),
        failed,
    )

    class Log(Client):
        async def events(
            self, run_id: UUID | str, after: int = 0, *, children: bool = False
        ) -> AsyncIterator[LogEntry]:
            for seq, event in enumerate(events[after:], after + 1):
                yield LogEntry(seq=seq, at=AT, event=event)

    async with Log("http://127.0.0.1:9") as client:
        await RunFollower(client, OutputPrinter(form)).follow(RUN)
        ended = [] if form == "table" else ["run failed (no_key): set KEY"]
        refused = "2 calls were refused, first: orders.refund: rule refunds-small allows 3 calls per run"
        assert capsys.readouterr().err.splitlines() == [refused, *ended]
        await RunFollower(client, OutputPrinter(form)).follow(RUN, after=1)
        why = "as told above" if form == "table" else "no parameter x"
        told = capsys.readouterr().err.splitlines()
        assert told == [f"1 call was refused: arguments_invalid{', ' if form == 'table' else ': '}{why}", *ended]
        await RunFollower(client, OutputPrinter(form)).follow(RUN, after=3)
        assert capsys.readouterr().err.splitlines() == ended


async def test_calls_that_failed_are_told_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    done = ToolCallFinished(
        execution_id=UUID(int=1), step=1, epoch=1, agent_key="a", call_index=0, tool="booking.find", status="succeeded"
    )
    raised = ToolFailure(code="tool_exception", message="LookupError: there is no booking B-99")
    failed = done.model_copy(update={"status": "failed", "failure": raised})
    ended = RunFinished(status="completed", reason="responded", final={"message": "done"}, steps=2, fence=0)
    events = (failed, failed.model_copy(update={"failure": None, "tool": "booking.pay"}), done, ended)

    class Log(Client):
        async def events(
            self, run_id: UUID | str, after: int = 0, *, children: bool = False
        ) -> AsyncIterator[LogEntry]:
            for seq, event in enumerate(events[after:], after + 1):
                yield LogEntry(seq=seq, at=AT, event=event)

    told = []
    async with Log("http://127.0.0.1:9") as client:
        for after in range(3):
            await RunFollower(client, OutputPrinter("json")).follow(RUN, after=after)
            told.append(capsys.readouterr().err.strip())
    first = "booking.find: tool_exception: LookupError: there is no booking B-99"
    assert told == [f"2 calls failed, first: {first}", "1 call failed: booking.pay: failed", ""]


async def test_b12_the_runs_below_are_shown_under_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Row B12 across children, as a person and as a program follows them."""
    child, gone = UUID(int=8), RunFinished(status="failed", reason="no", final={}, steps=1, fence=0)
    note = NoteAdded(step=1, text="looks around")

    class Log(Client):
        async def events(
            self, run_id: UUID | str, after: int = 0, *, children: bool = False
        ) -> AsyncIterator[LogEntry]:
            assert children
            for seq, (run, path, event) in enumerate(
                ((RUN, (), note), (child, ("lead", "b"), note), (child, ("lead", "b"), gone), (RUN, (), gone)), 1
            ):
                yield TreeEntry(seq=seq, at=AT, event=event, run_id=run, path=path)

    async with Log("http://127.0.0.1:9") as client:
        ended = await RunFollower(client, OutputPrinter("table"), children=True).follow(RUN)
        shown = capsys.readouterr().out.splitlines()
        await RunFollower(client, OutputPrinter("jsonl"), children=True).follow(RUN)
    assert ended == gone and "looks around" in shown[0] and "lead/b" not in shown[0]
    assert "lead/b" in shown[1] and "looks around" in shown[1] and shown[2].strip() == "lead/b · failed: no"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["path"] for line in lines] == [[], ["lead", "b"], ["lead", "b"], []]


async def test_who_follows_a_run_alone_is_asked_at_the_gates_below_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At those that still wait, once each; of the runs below nothing else is shown."""
    child, asked = UUID(int=8), asyncio.Event()
    waits = ChildGateWaitChanged(child_id=child, waits=True)
    over = RunFinished(status="completed", reason="responded", final={}, steps=1, fence=0)
    gates = [GateOpened(gate_id=UUID(int=n), gate_type="manual", reason="sure?", expires_at=AT) for n in (1, 2)]

    class Log(Client):
        async def events(
            self, run_id: UUID | str, after: int = 0, *, children: bool = False
        ) -> AsyncIterator[LogEntry]:
            if children:
                for seq, event in enumerate((NoteAdded(step=1, text="looks around"), *gates), 1):
                    yield TreeEntry(seq=seq, at=AT, event=event, run_id=child, path=("lead", "b"))
                await asyncio.Event().wait()
            yield LogEntry(seq=1, at=AT, event=waits)
            async with asyncio.timeout(60):
                await asked.wait()
            yield LogEntry(seq=2, at=AT, event=over)

    async def still_waits(_: Client, gate: GateOpened) -> bool:
        return gate == gates[1]

    async def ask(_: Client, gate: GateOpened, out: OutputPrinter) -> None:
        out.write(f"asked {gate.gate_id}")
        asked.set()

    monkeypatch.setattr(run_follower, "_is_pending", still_waits)
    async with Log("http://127.0.0.1:9") as client:
        assert await RunFollower(client, OutputPrinter("table"), ask).follow(RUN) == over
    shown = capsys.readouterr().out
    assert "looks around" not in shown and shown.count("asked ") == 1 and f"asked {gates[1].gate_id}" in shown
    assert "lead/b" in shown and "sure?" in shown


async def test_whoever_is_asked_at_the_terminal_has_seen_the_arguments_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def still_waits(_: Client, _gate: GateOpened) -> bool:
        return True

    monkeypatch.setattr(run_follower, "_is_pending", still_waits)
    monkeypatch.setattr(run_follower, "prompt", lambda _words: "skip")
    nobody: Any = None
    told = {"gate_id": UUID(int=1), "approval_id": UUID(int=1), "gate_type": "approval", "expires_at": AT}

    async def asked(text: str, **more: str) -> str:
        gate = GateOpened(**told, reason="large", detail={"tool": "mail.send", "args": {"text": text}, **more})
        await run_follower.ask_at_gate(nobody, gate, OutputPrinter("table"))
        return capsys.readouterr().out

    assert "arguments" not in await asked("x" * 43), "the line of the call has them"
    assert f"arguments: text={'x' * 44}\n" in await asked("x" * 44)
    assert "arguments" not in await asked("x" * 235, summary="Send it")
    assert f"arguments: text={'x' * 236}\n" in await asked("x" * 236, summary="Send it")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("amount=30 note='half'", "nothing was decided: answer e first, then amount=30 note='half'"),
        ('{"amount": 30}', 'nothing was decided: answer e first, then {"amount": 30}'),
        ("approve only 30", "nothing was decided: answer a, e, d or s, not approve only 30"),
        ("ask me later", "nothing was decided: answer a, e, d or s, not ask me later"),
        ("yesterday", "nothing was decided: answer a, e, d or s, not yesterday"),
        ("", ""),
    ],
)
async def test_only_a_whole_word_decides_at_a_gate(
    line: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def still_waits(*_: object) -> bool:
        return True

    async def decided(*_: object) -> bool:
        pytest.fail("the line was taken for a decision")

    lines = iter([line, "Skip"])
    monkeypatch.setattr(run_follower, "_is_pending", still_waits)
    monkeypatch.setattr(run_follower, "_decide", decided)
    monkeypatch.setattr(run_follower, "prompt", lambda _words: next(lines))
    gate = GateOpened(gate_id=RUN, approval_id=RUN, gate_type="approval", reason="large", expires_at=AT)
    nobody: Any = None
    await run_follower.ask_at_gate(nobody, gate, OutputPrinter("table"))
    assert capsys.readouterr().out == (f"    {said}\n" if said else "") + (
        f"    still waiting; later: towpath gates approve {RUN}\n"
    )


async def test_what_is_wrong_with_an_edit_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def still_waits(*_: object) -> bool:
        return True

    fault = "amount: 'lots' is not of type 'number'"
    details = [ProblemDetail(pointer="/args/amount", code="type", detail=fault.removeprefix("amount: "))]
    details.append(ProblemDetail(pointer="/args/note", code="type", detail="it is too long"))

    async def refused(*_: object) -> bool:
        raise ProblemError(problem("edit_refused", f"the arguments are not valid: {fault}", errors=tuple(details)))

    lines = iter(["e", "s"])
    monkeypatch.setattr(run_follower, "_is_pending", still_waits)
    monkeypatch.setattr(run_follower, "_decide", refused)
    monkeypatch.setattr(run_follower, "prompt", lambda _words: next(lines))
    gate = GateOpened(gate_id=RUN, approval_id=RUN, gate_type="approval", reason="large", expires_at=AT)
    nobody: Any = None
    await run_follower.ask_at_gate(nobody, gate, OutputPrinter("table"))
    shown = capsys.readouterr().out
    assert shown.count(fault) == 1 and "note: it is too long\n" in shown, shown


def test_a_denial_without_a_reason_is_refused_by_the_platform_like_any_other_word() -> None:
    assert main(["gates", "deny", str(RUN), "--server", "http://127.0.0.1:9"]) == UNREACHABLE


@pytest.mark.prints("completion install")
def test_the_shell_is_given_completions_of_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "towpath.bash"
    assert main(["completion", "install", "--shell", "bash", "--file", str(file), "-o", "json"]) in (0, None)
    assert json.loads(capsys.readouterr().out)["loaded_by"] == "you"
    assert "--idempotency-key" in file.read_text() and "rollback" in file.read_text()
    assert list(tmp_path.iterdir()) == [file], "no file of the shell is touched where another one is named"
    subprocess.run(["bash", "-n", file], check=True)


def test_a_field_of_a_task_is_told_as_the_option_that_fills_it() -> None:
    faults = [
        ProblemDetail(pointer=pointer, code="x", detail="no")
        for pointer in ("/model", "/budget/usd", "/labels/a/b", "/goal/criteria", "")
    ]
    told = with_options_named(problem("request_invalid", "5 problems", errors=tuple(faults)))
    assert [one.pointer for one in told.errors] == [one.pointer for one in faults], "a program follows them"
    listed = ["--model: no", "--usd: no", "--label a b: no", "/goal/criteria: no", "no"]
    assert format_problem(told)[1:-1] == [f"  - {one}" for one in listed]
    alone = with_options_named(problem("model_unknown", "/model: no", errors=(faults[0],)))
    assert format_problem(alone)[0].endswith(": --model: no") and alone.detail == "--model: no"


def test_options_that_a_refusal_names_are_those_of_the_command() -> None:
    named = {f"--{one.name.replace('_', '-')}" for one in fields(TaskOptions)} | {"NETWORK", "MESSAGE", "--continue"}
    assert set(_OPTIONS.values()) <= named
