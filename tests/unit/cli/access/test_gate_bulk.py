"""`towpath gates bulk --listed`: the list that is named is decided, as far as the platform answers."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.gateway.web import Asked, response, web

from towpath.cli import main
from towpath.cli.shared.exit_codes import UNREACHABLE
from towpath_contracts.problems.registry import problem

OPENED = "2026-11-27T08:00:00.123456Z"


def gate(number: int) -> dict[str, Any]:
    return {
        "gate_id": f"00000000-0000-0000-0000-{number:012}",
        "run_id": f"00000000-0000-0000-0001-{number:012}",
        "project": "default",
        "gate_type": "approval",
        "status": "pending",
        "reason": "a rule asks",
        "detail": {"tool": "orders.refund", "digest": f"sha256:{number}"},
        "opened_at": OPENED,
        "expires_at": "2026-11-28T08:00:00Z",
        "verdicts": ["approved", "denied"],
    }


class Gates:
    """A platform where three gates wait, of which the first is refused and the second gets no answer."""

    def __init__(self) -> None:
        self.decided: list[str] = []

    def answer(self, asked: Asked) -> bytes:
        if asked.method == "GET":
            body: Any = {"gates": [gate(1), gate(2), gate(3)]}
            return response(200, json.dumps(body).encode(), content_type="application/json")
        self.decided.append(asked.path.split("/")[3])
        found = problem("forbidden" if len(self.decided) == 1 else "unavailable", "this is a test")
        return response(found.status, found.model_dump_json().encode(), content_type="application/problem+json")

    async def ask(self, *words: str) -> int:
        async with web(self.answer) as server:
            address = server.url("", "127.0.0.1")
            return await asyncio.to_thread(main, ["gates", "bulk", *words, "--server", address, "-o", "json"])


@pytest.mark.parametrize("name", ["2026-11-27/0123456789abcdef", "2026-11-27T08:00:00/x", "yes", ""])
async def test_what_is_no_name_of_a_list_is_told_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    gates = Gates()
    assert await gates.ask("approved", "--listed", name) == 2
    assert "--listed takes the name that the command without it prints" in capsys.readouterr().err
    assert gates.decided == []


async def test_who_is_refused_goes_on_and_who_gets_no_answer_tells_what_was_decided_and_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gates = Gates()
    assert await gates.ask("approved") == 0
    name = json.loads(capsys.readouterr().out)["listed"]
    assert await gates.ask("approved", "--listed", name) == UNREACHABLE
    said = capsys.readouterr()
    assert {*gates.decided} == {gate(1)["gate_id"], gate(2)["gate_id"]}
    assert [(row["gate_id"], row["code"]) for row in json.loads(said.out)["gates"]] == [
        (gate(1)["gate_id"], "forbidden")
    ]
    assert "of 3 gates 2 may have no verdict: list them anew" in said.err
