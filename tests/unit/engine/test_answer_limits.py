"""Arguments as models write them, and answers of a shape that was asked for, in the run machine."""

import pytest
from tests.support.engine.machine import Machine, respond, types, use, use_all

from towpath_contracts.decisions.decision import arguments_fault, decoded_arguments
from towpath_contracts.tools.calls import ToolRequest

VERDICT = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"text": "a"}, {"text": "a"}),
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ('{"text": "a"}', {"text": "a"}),
        ('{"text": ', '{"text": '),
        ("[1]", "[1]"),
        ('{"n": NaN}', '{"n": NaN}'),
        ('{"text": "\\ud800"}', '{"text": "\\ud800"}'),
        ("[" * 5_000, "[" * 5_000),
        ("\ud800", "\ud800"),
    ],
)
def test_b5_arguments_are_decoded_empty_is_no_arguments(written: object, read: object) -> None:
    """Row B5: tool arguments decoded (empty → {})."""
    assert decoded_arguments(written) == read
    assert bool(isinstance(read, str)) == bool(
        isinstance(written, str) and written.strip() and arguments_fault(written)
    )


def test_b5_arguments_that_are_no_json_are_an_error_that_the_model_sees() -> None:
    """Row B5: bad JSON → a tool error the model sees; the run goes on, and nothing of the decision is done."""
    machine = Machine()
    bad = use_all(("echo", {"text": "a"}), ("echo", {}))
    bad["action_details"]["calls"][1]["tool_params"] = '{"text": '
    assert "instruction_issued" not in types(machine.decide(bad))
    (found,) = machine.context.feedback
    assert "echo: the arguments can't be read: they are not JSON" in found
    good = use("echo")
    good["action_details"]["tool_params"] = '{"text": "b"}'
    machine.decide(good)
    (call,) = machine.requests
    assert isinstance(call, ToolRequest)
    assert call.args == {"text": "b"}


def test_b5_an_answer_is_held_against_the_tasks_schema_and_can_be_mended() -> None:
    """Row B5: structured output validated against a schema, with repair; the task's wins over the agent's."""
    machine = Machine(response_schema=VERDICT)
    assert machine.context.respond_schema == VERDICT
    assert "run_finished" not in types(machine.decide(respond({"score": "7"})))
    assert machine.context.feedback == (
        "The payload does not satisfy its JSON Schema. $.score: '7' is not of type 'integer'",
    )
    machine.decide(respond({"score": 7}))
    assert machine.finished.final == {"score": 7}
    plain = Machine()
    plain.decide(respond({"score": "7"}))
    assert plain.finished.status == "completed"
