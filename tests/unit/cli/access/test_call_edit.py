"""What a person at the terminal writes as other arguments of a call that waits, and what is shown of it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest

from towpath.cli.runs import call_edit, run_follower
from towpath.cli.runs.call_edit import VALUE_WIDTH, differences, edited_arguments
from towpath.cli.runs.run_follower import takes_edit
from towpath.cli.shared.output import OutputPrinter
from towpath.client.client import Client
from towpath.errors import DeniedError
from towpath_contracts.base import JsonObject
from towpath_contracts.events.log import GateOpened
from towpath_contracts.problems.registry import ProblemError, problem

ASKED: JsonObject = {"order_id": 8812, "amount": 129.0, "note": "all of it"}
DETAIL = {"tool": "orders.refund", "args": ASKED}
SPEC = {"parameters": {"properties": {"code": {"type": "string"}}}, "system_params": ["order_id"]}
Written = Callable[..., Any]


class Platform(Client):
    """Knows one tool; a key that may not read tools is told so."""

    def __init__(self, spec: JsonObject | None) -> None:
        super().__init__("http://127.0.0.1:9")
        self.spec = spec

    async def request(
        self, method: str, path: str, *, body: JsonObject | None = None, query: dict[str, Any] | None = None
    ) -> Any:
        assert (method, path, query) == ("GET", "/v1/tools", {"name": "orders.refund"})
        if self.spec is None:
            raise DeniedError(problem("forbidden", "it may not read tools"))
        return {"tools": [self.spec]}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    """Write a line, where no editor is named; gives the arguments."""
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", "")

    async def write(line: str, spec: JsonObject | None = SPEC) -> JsonObject | None:
        monkeypatch.setattr(call_edit, "prompt", lambda _question: line)
        async with Platform(spec) as client:
            return await edited_arguments(client, DETAIL, OutputPrinter("table"))

    return write


@pytest.mark.parametrize(
    ("line", "differs"),
    [
        ("amount=60", {"amount": 60}),
        ("amount=60.5 note='half of it'", {"amount": 60.5, "note": "half of it"}),
        ("note=60", {"note": "60"}),
        ("code=12 amount=all", {"code": "12", "amount": "all"}),
        ("amount=null", {"amount": None}),
        ("order_id=1", {"order_id": 1}),
    ],
)
async def test_pairs_change_what_they_name_and_keep_the_rest(written: Written, line: str, differs: JsonObject) -> None:
    assert await written(line) == {**ASKED, **differs}


async def test_an_object_is_all_arguments_but_those_that_the_task_sets(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await written('{"amount": 60}') == {"order_id": 8812, "amount": 60}
    shown = capsys.readouterr().out
    assert "the task sets, and nobody else: order_id=8812" in shown
    assert "amount: 129.0 → 60\n" in shown and 'note: "all of it" → (not given)\n' in shown


async def test_nothing_is_sent_where_nothing_differs(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert await written("") is None and await written("amount=129.0") is None
    assert capsys.readouterr().out.count("nothing was changed") == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [("amount", "amount is no field=value"), ("note='half", "no closing quotation"), ('{"amount"', "not JSON")],
)
async def test_a_line_that_can_t_be_read_says_why(written: Written, line: str, why: str) -> None:
    with pytest.raises(ProblemError, match=why):
        await written(line)


async def test_who_may_not_read_tools_edits_all_the_same(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert await written("amount=1", None) == {**ASKED, "amount": 1}
    assert "the task sets" not in capsys.readouterr().out, "the platform refuses what is not theirs"


async def test_the_editor_gets_what_may_be_changed_and_its_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def edited(script: str, name: str = "EDITOR") -> JsonObject | None:
        (tmp_path / "editor").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "editor").chmod(0o700)
        monkeypatch.setenv("VISUAL", "")
        monkeypatch.setenv("EDITOR", "none-such")
        monkeypatch.setenv(name, f"'{tmp_path / 'editor'}' --wait")
        async with Platform(SPEC) as client:
            return await edited_arguments(client, DETAIL, OutputPrinter("table"))

    half = 'test "$1" = --wait && ! grep -q order_id "$2" && sed -i "s/129.0/60/" "$2"'
    assert await edited(half) == {**ASKED, "amount": 60}
    assert await edited(half, "VISUAL") == {**ASKED, "amount": 60}
    with pytest.raises(ProblemError, match="ended with 3"):
        await edited("exit 3")
    with pytest.raises(ProblemError, match="no JSON object"):
        await edited('echo "[]" > "$2"')
    with pytest.raises(ProblemError, match=r"the arguments:2: not JSON"):
        await edited('echo "{" > "$2"')
    monkeypatch.setenv("EDITOR", "none-such")
    monkeypatch.setenv("VISUAL", "")
    async with Platform(SPEC) as client:
        with pytest.raises(ProblemError, match="none-such can't be started"):
            await edited_arguments(client, DETAIL, OutputPrinter("table"))


def test_a_difference_shows_nothing_that_a_terminal_obeys_and_sees_what_is_behind_the_cut() -> None:
    long = "x" * VALUE_WIDTH
    (line,) = differences({"note": f"{long}1"}, {"note": f"{long}2"})
    assert len(line) == len("note:  → ") + 2 * VALUE_WIDTH == 409
    (line,) = differences({}, {"a\x1b[31m\n": "b\x1b[31m"})
    assert line == 'a: (not given) → "b\\u001b[31m"'


@pytest.mark.parametrize(("kind", "takes"), [("approval", True), ("manual", False)])
def test_a_call_that_was_changed_too_often_takes_no_edit(kind: Literal["approval", "manual"], takes: bool) -> None:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    gate = GateOpened(gate_id=UUID(int=1), approval_id=UUID(int=1), gate_type=kind, reason="large", expires_at=at)
    assert takes_edit(gate) is takes and not takes_edit(gate.model_copy(update={"approval_id": None}))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> GateOpened:
    """Return a call that waits."""

    async def still_waits(_: Client, _gate: GateOpened) -> bool:
        return True

    monkeypatch.setattr(run_follower, "_is_pending", still_waits)
    at, gate_id = datetime(2026, 11, 22, tzinfo=UTC), UUID(int=1)
    return GateOpened(gate_id=gate_id, approval_id=gate_id, gate_type="approval", reason="large", expires_at=at)


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    """Have *lines* be typed at the terminal, and then Ctrl-D; returns the list of the questions that will be asked."""
    asked: list[str] = []
    typed = iter(lines)

    def read(question: str) -> str:
        asked.append(question.strip())
        for line in typed:
            return line
        raise EOFError

    monkeypatch.setattr("builtins.input", read)
    return asked


async def test_the_end_of_all_input_where_a_reason_is_asked_for_is_no_yes(
    gate: GateOpened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "a")
    async with Platform(SPEC) as client:
        await run_follower.ask_at_gate(client, gate, OutputPrinter("table"))
    assert f"still waiting; later: towpath gates approve {gate.gate_id}" in capsys.readouterr().out


async def test_a_denial_without_a_reason_is_asked_for_one_and_not_for_another_decision(
    gate: GateOpened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = type_lines(monkeypatch, "d", "", " ", "too high")
    async with Platform(SPEC) as client:
        await run_follower.ask_at_gate(client, gate, OutputPrinter("table"))
    assert [question.partition("?")[0] for question in asked[:4]] == ["approve", "reason:", "reason:", "reason:"]
    shown = capsys.readouterr().out
    assert "server_unreachable" in shown and "Start it: towpath up, and answer again." in shown, "the denial was sent"
    assert shown.count("a denial needs a reason, since the agent reads it; Ctrl-D takes the denial back\n") == 2


async def test_a_denial_is_taken_back_where_no_reason_is_given(
    gate: GateOpened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "d", "")
    async with Platform(SPEC) as client:
        await run_follower.ask_at_gate(client, gate, OutputPrinter("table"))
    shown = capsys.readouterr().out
    assert f"still waiting; later: towpath gates approve {gate.gate_id}" in shown
    assert "server_unreachable" not in shown, "nothing was sent"
