"""A run that failed raises with where its script was refused first."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from towpath.client.streams import StreamEventBuilder
from towpath.errors import RunFailedError
from towpath_contracts.decisions.request import PlayedScriptEntry
from towpath_contracts.events.decision_events import DecisionReceived, DecisionRefused
from towpath_contracts.events.log import AnyEvent, LogEntry, RunFinished

RUN = UUID(int=7)
STEP = {"step": 1, "epoch": 0, "agent_key": "triage"}
NOT_USED = "triage may not use 'orders.find'; it may route to billing, which has it."
NOT_SAID = "triage may not respond; it may route to billing."


def played(index: int, code: str, feedback: str) -> list[AnyEvent]:
    entry = PlayedScriptEntry(queue="*", index=index)
    return [
        DecisionReceived.model_validate({**STEP, "request_id": RUN, "decision": {}, "model": "x", "script": entry}),
        DecisionRefused.model_validate({**STEP, "code": code, "feedback": feedback}),
    ]


def raised(reason: str, message: str, events: list[AnyEvent], status: str = "failed") -> str:
    end = RunFinished.model_validate(
        {"status": status, "reason": reason, "final": {"message": message}, "steps": 1, "fence": 0}
    )
    builder = StreamEventBuilder(RUN, detailed=False, event_types=None)
    for seq, event in enumerate([*events, end], 1):
        list(builder.of(LogEntry(seq=seq, at=datetime.now(UTC), event=event)))
    with pytest.raises(RunFailedError) as failed:
        builder.raise_if_failed()
    return failed.value.problem.detail


def test_an_exhausted_script_is_told_with_the_entries_that_were_refused() -> None:
    events = [*played(0, "tool_not_allowed", NOT_USED), *played(1, "respond_not_allowed", NOT_SAID)]
    assert raised("script_exhausted", f"{NOT_SAID} Mend that entry", events) == (
        f"script_exhausted: entry 2 of the script: {NOT_SAID} Mend that entry. "
        f"1 call was refused: entry 1 of the script: tool_not_allowed: {NOT_USED}"
    )


def test_other_ends_are_told_by_their_reason_and_a_status_that_says_more() -> None:
    events = played(0, "tool_not_allowed", NOT_USED)
    assert raised("model_unauthorized", "no key", events) == "model_unauthorized: no key."
    assert raised("max_time", "too late", [], "timed_out") == "timed_out, max_time: too late."
