"""Why no gate opens: what a test that waits for one is told of its run."""

import json

from towpath_contracts.events.call_events import ToolCallDenied
from towpath_contracts.events.log import AnyEvent, LogEntry
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import RunView
from towpath_contracts.tools.violations import DenialCode
from towpath_readings.unsuccessful_calls import failed_call, refused_call, summaries_of_unsuccessful

ANSWER_WIDTH = 120
"""Characters of an answer, or of the words that a run ended with, in the sentence about it."""


class NoGateError(TimeoutError):
    """No gate opens: every run has ended, or none opened in time. The text says what the run does, or came to."""


def reason_for_no_gate(view: RunView, entries: tuple[LogEntry, ...], runs: int, lack: str = "") -> str:
    """Return what the last of *runs* runs came to or does, and which of its calls were refused or failed.

    *lack* says why the harness has no rules, as in `call_refused_in_test`.
    """
    who = "the run" if runs == 1 else f"the last of {runs} runs"
    said = f"{who} {_end(view) if view.status in FINAL_STATUSES else _state(view)}"
    refused = [call for entry in entries if (call := call_refused_in_test(entry.event, lack)) is not None]
    failed = [call for entry in entries if (call := failed_call(entry.event)) is not None]
    return "; ".join(filter(None, (said, *summaries_of_unsuccessful(refused, failed))))


def call_refused_in_test(event: AnyEvent, lack: str) -> str | None:
    """Return which call *event* says was refused, and why; None where it says nothing of the kind.

    Where the harness has no rules, *lack* says why: then no rule is to be added to a policy that stands in a file, but
    the harness is to be given one.
    """
    if not lack or not isinstance(event, ToolCallDenied) or event.denial.violation_type != DenialCode.PERMISSION:
        return refused_call(event)
    rule = json.dumps({"name": "ask-first", "tool": event.tool, "effect": "require_approval"}, ensure_ascii=False)
    return (
        f'{event.tool}: no rule allows it, since {lack}: harness(…, policy="policies.yaml") gives it those of that '
        f"file, and policy=[{rule}] one that opens a gate"
    )


def _end(view: RunView) -> str:
    if view.status == "completed":
        answer = view.text or json.dumps(view.final, ensure_ascii=False)
        return f"completed with {_shortened(answer)!r}"
    return (
        f"{view.status} ({view.reason}): {_shortened(view.message)}"
        if view.message
        else f"{view.status} ({view.reason})"
    )


def _state(view: RunView) -> str:
    where = f" at step {view.step} with agent {view.agent_key!r}" if view.agent_key else ""
    waits = f", and waits for: {'; '.join(view.waits)}" if view.waits else ""
    return f"is {view.status}{where}{waits}"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= ANSWER_WIDTH else f"{line[: ANSWER_WIDTH - 1]}…"
