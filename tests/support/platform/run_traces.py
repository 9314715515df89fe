"""What the spans of one run must be on the whole platform: one tree over all processes, below the caller's own span."""

from typing import Any

from tests.docs_site.taken_blocks import drawn_pairs, taken
from tests.support.platform.otlp_receiver import Receiver

from towpath_contracts.runs.views import RunView

CLIENT_TRACE, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "the customer said something private"


NOT_HERE = {
    ("task.submit.ann process", "POST /v1/runs"),
    ("invoke_workflow support", "POST /v1/runs"),
    ("POST", "chat gemini-3-flash"),
}
"""What the page draws of requests: the gateway of this platform records none, and a script asks no provider."""


def check_tree(receiver: Receiver, run_id: str) -> None:
    spans = {span.span_id: span for span in receiver.spans if span.trace_id == CLIENT_TRACE}
    (root,) = (span for span in spans.values() if span.parent_id not in spans)
    assert (root.name, root.parent_id) == ("invoke_workflow support", CLIENT_SPAN)
    assert root.attributes["gen_ai.conversation.id"] == run_id
    parents = {(span.name, spans[span.parent_id].name) for span in spans.values() if span is not root}
    drawn = drawn_pairs(taken("docs/tracing.md: POST /v1/runs"))
    assert {(name, above) for name, above in drawn if "POST" in name + above} == NOT_HERE
    models = {"chat gemini-3-flash": "chat task"}
    assert parents >= {(models.get(name, name), models.get(above, above)) for name, above in drawn - NOT_HERE}
    assert parents >= {
        ("submit support", "invoke_workflow support"),
        ("step billing", "invoke_workflow support"),
        ("chat task", "step billing"),
        ("tool_call orders.find", "step billing"),
        ("authorize orders.find", "tool_call orders.find"),
        ("execute_tool orders.find", "tool_call orders.find"),
        ("execute_tool orders.refund", "tool_call orders.refund"),
    }
    assert not any(span.name == "execute_tool orders.delete" for span in spans.values())
    assert SECRET not in repr(receiver.spans)


PLANNED = {
    ("tool_call agent_orchestrate", "step boss"),
    ("invoke_agent boss", "tool_call agent_orchestrate"),
    ("invoke_workflow planning", "invoke_agent boss"),
    ("chat task", "step tech"),
    ("tool_call orders.find", "step tech"),
    ("authorize orders.find", "tool_call orders.find"),
    ("execute_tool orders.find", "tool_call orders.find"),
}


def check_plan_tree(receiver: Receiver, view: RunView) -> None:
    spans = {span.span_id: span for span in receiver.spans if span.trace_id == view.run_id.hex}
    assert [span.name for span in spans.values() if not span.parent_id] == ["invoke_workflow planning"]
    assert all(span.parent_id in spans for span in spans.values() if span.parent_id)
    parents = {(span.name, spans[span.parent_id].name) for span in spans.values() if span.parent_id}
    assert parents >= PLANNED
    drawn = taken("docs/plans.md: invoke_workflow papers")
    drawn = drawn._replace(text=drawn.text.replace("papers", "planning").replace("reader", "tech"))
    assert parents >= drawn_pairs(drawn) and ("invoke_agent tech", "plan_step") in drawn_pairs(drawn)
    (step,) = [span for span in spans.values() if span.name == "plan_step"]
    assert (step.attributes["towpath.plan.step_id"], step.attributes["towpath.plan.status"]) == ("look", "success")


def whole(check: Any, *about: Any) -> bool:
    """Return whether every span has come whose parent or child has come."""
    try:
        check(*about)
    except (AssertionError, KeyError, StopIteration):
        return False
    return True
