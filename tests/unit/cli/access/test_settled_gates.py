"""Who decides a gate that is settled is told by whom it was, and ends with 0 only where that is what they wanted."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.gateway.web import Asked, response, web

from towpath.cli import main
from towpath_contracts.problems.registry import problem

GATE = "00000000-0000-0000-0000-000000000001"
BY_MIA = {"closed_at": "2026-11-27T09:00:00.5Z", "closed_by": "mia", "closed_reason": "checked"}


def settled(verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "gate_id": GATE,
        "run_id": "00000000-0000-0000-0001-000000000001",
        "project": "default",
        "gate_type": "approval",
        "status": verdict if verdict in {"approved", "denied", "expired"} else "settled",
        "verdict": verdict,
        "reason": "a rule asks",
        "detail": {"tool": "orders.refund", "digest": "sha256:1"},
        "opened_at": "2026-11-27T08:00:00Z",
        "expires_at": "2026-11-28T08:00:00Z",
        **more,
    }


async def decide(gate: dict[str, Any], *words: str) -> int:
    def answer(asked: Asked) -> bytes:
        assert asked.method == "GET", "nothing is decided anew"
        if asked.path.startswith("/v1/tools"):
            missing = problem("not_found", "this is a test")
            return response(404, missing.model_dump_json().encode(), content_type="application/problem+json")
        body = gate if asked.path.startswith(f"/v1/gates/{GATE}") else {"gates": [gate]}
        return response(200, json.dumps(body).encode(), content_type="application/json")

    async with web(answer) as server:
        return await asyncio.to_thread(main, ["gates", *words, "--server", server.url("", "127.0.0.1")])


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("approved", ("approve", GATE)),
        ("approved", ("approve", GATE, "--digest", "sha256:1")),
        ("denied", ("deny", GATE, "--reason", "no")),
        ("happened", ("resolve", GATE, "happened")),
    ],
)
async def test_the_same_decision_again_is_told_to_stand_already(
    verdict: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    gate = settled(verdict, **BY_MIA)
    assert await decide(gate, *words, "-o", "table") == 0
    already = "settled already as happened" if verdict == "happened" else f"{verdict} already"
    told = f"was {already} at 2026-11-27 09:00:00 UTC by mia: checked"
    assert f"orders.refund: {told}; nothing is changed" in " ".join(capsys.readouterr().out.split())
    assert await decide(gate, *words, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["detail"] == told


@pytest.mark.parametrize(
    ("gate", "words", "told"),
    [
        (settled("denied", **BY_MIA), ("approve", GATE), "it was denied already at 2026-11-27 09:00:00 UTC by mia"),
        (settled("approved", **BY_MIA), ("deny", GATE, "--reason", "no"), "it was approved already at "),
        (settled("approved", **BY_MIA), ("approve", GATE, "--digest", "sha256:2"), "it was approved already at "),
        (settled("approved", **BY_MIA), ("approve", GATE, "--edit", "amount=2"), "it was approved already at "),
        (settled("edit", **BY_MIA), ("resolve", GATE, "edit", "--args", "{}"), "it was settled already as edit at "),
        (settled("expired"), ("approve", GATE), "it was expired already"),
    ],
)
async def test_another_decision_is_refused_with_the_one_that_stands(
    gate: dict[str, Any], words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await decide(gate, *words, "-o", "json") == 1
    refused = json.loads(capsys.readouterr().err)
    assert refused["code"] == "gate_settled"
    assert told in refused["detail"]
