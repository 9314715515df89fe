"""What an agent is told that may not do what it decided: what it may do instead, and nothing that it has not."""

from typing import Any

import pytest
from tests.support.engine.machine import Machine, agent, respond, snapshot, use

from towpath_contracts.events import log as ev

CLERK = agent("clerk", equipped_tools=("pay",), allow_respond=True)
TELLER = agent("teller", equipped_tools=("pay",), allow_respond=True)


@pytest.mark.parametrize(
    ("first", "decision", "told"),
    [
        ({"allowed_routes": ("clerk", "teller")}, respond("x"), "; it may route to clerk or teller."),
        ({"equipped_tools": ("echo",)}, respond("x"), "; it may use echo."),
        ({}, respond("x"), "; it has no tools and no routes."),
        (
            {"allowed_routes": ("clerk", "teller")},
            use("pay"),
            "triage may not use 'pay'; it may route to clerk or teller, which have it.",
        ),
    ],
)
def test_what_there_is_none_of_is_not_offered(first: dict[str, Any], decision: Any, told: str) -> None:
    machine = Machine(snapshot(agent("triage", **first), CLERK, TELLER))
    machine.decide(decision)
    (refused,) = [one.event for one in machine.entries if isinstance(one.event, ev.DecisionRefused)]
    assert refused.feedback == (told if told.startswith("triage") else f"triage may not respond{told}")
