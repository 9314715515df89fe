"""Settings of models: what may be chosen, and whose choice counts."""

import pytest
from pydantic import ValidationError
from tests.support.engine.machine import Machine, agent, respond, snapshot

from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.networks.model_settings import ModelSettings, merge_model_settings


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": 0},
        {"seed": 2**31},
        {"max_output_tokens": 0},
        {"reasoning_effort": "most"},
        {"stop": ["a"] * 5},
        {"stop": [""]},
        {"heat": 1},
    ],
)
def test_what_no_model_could_mean_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ModelSettings.model_validate(bad)


def test_b15_a_task_wins_setting_by_setting_and_what_nobody_chose_is_not_there() -> None:
    """Row B15: settings of models, of an agent and of a task."""
    agents, tasks = ModelSettings(temperature=0.1, seed=1), ModelSettings(seed=2, stop=("END",))
    merged = merge_model_settings(agents, tasks)
    assert merged is not None
    assert merged.model_dump(mode="json") == {"temperature": 0.1, "seed": 2, "stop": ["END"]}
    assert merge_model_settings(agents, None) == agents
    assert merge_model_settings(None, None) is None


def test_a_request_and_its_record_have_the_settings_of_agent_and_task() -> None:
    network = snapshot(agent("a", allow_respond=True, model_settings=ModelSettings(temperature=0.1, seed=1)))
    machine = Machine(network, agent_key="a", model_settings=ModelSettings(seed=2, max_output_tokens=99))
    (asked,) = machine.requests
    assert isinstance(asked, DecisionRequest)
    assert asked.settings == ModelSettings(temperature=0.1, seed=2, max_output_tokens=99)
    assert asked.max_output_tokens == 99
    (recorded,) = machine.events(ev.DecisionRequested)
    assert recorded.settings == asked.settings
    machine.decide(respond("done"))


def test_without_settings_nothing_is_written_that_was_not_before() -> None:
    machine = Machine()
    assert all("settings" not in entry.event.model_dump_json() for entry in machine.entries)
    (asked,) = machine.requests
    assert isinstance(asked, DecisionRequest)
    assert (asked.settings, asked.max_output_tokens) == (None, 8_192)
