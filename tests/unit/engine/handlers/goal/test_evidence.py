"""A judge is believed where it names something of the run that shows what it says; who judges is of one's choice."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.engine.goal_machine import asked, goal_run
from tests.support.engine.machine import Machine, respond, use

from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.tools.workspace import FileEntry
from towpath_engine.requests.effects import model_for
from towpath_engine.rules.evidence import evidence_of
from towpath_engine.state.workspace import RunWorkspace, WorkspaceFile


def judged(evidence: str, **more: Any) -> dict[str, Any]:
    return {"valid": True, "criteria": [{"criterion": 0, "met": True, "evidence": evidence}], **more}


def acted(*texts: str, **settings: Any) -> Machine:
    """A run in which one call succeeded, and whose model then claims to be done."""
    machine = goal_run(texts=texts, **{"allow_words": False, "require_evidence": True, **settings})
    machine.decide(use("build"))
    machine.finish(result={"artifacts": [{"name": "report.md"}]})
    machine.decide(respond("It is done."))
    return machine


def listed(machine: Machine) -> list[Any]:
    assert machine.state.goal is not None
    return evidence_of(machine.state, machine.state.goal)


@pytest.mark.parametrize("evidence", ["", "It is clear: I read it.", "01930000-0000-7000-8000-00000000ffff"])
def test_c1_a_judgement_that_names_nothing_of_the_run_counts_for_nothing(evidence: str) -> None:
    """Row C1: acceptance criteria are met by what happened; checked without a model."""
    machine = acted("The report is clear.")
    machine.decide(judged(evidence))
    assert not machine.state.is_final
    assert machine.events(ev.StepResultValidated)[-1].criteria == ()
    assert "nothing of this run is named that shows 0 (The report is clear.)" in (
        machine.events(ev.StepResultValidated)[-1].reason
    )
    assert machine.events(ev.DecisionRefused)[-1].code == "goal_not_reached"
    assert machine.events(ev.NoteAdded)[-1].text.endswith("do what shows it.")


def test_c1_a_call_or_an_artifact_that_is_named_reaches_the_goal() -> None:
    for place, name in ((0, None), (1, "report.md")):
        machine = acted("The report is clear.")
        found = listed(machine)[place]
        assert found["what"] == ("call of build, step 1" if name is None else "artifact")
        machine.decide(judged(f"see {name or found['name']}."))
        assert machine.finished.reason == "criteria_met"


def test_what_was_mounted_is_no_evidence_and_what_was_written_is() -> None:
    machine = acted("The report is clear.")
    files = {
        "given.md": WorkspaceFile(digest="sha256:0", size=1, read_only=True),
        "mine.md": WorkspaceFile(digest="sha256:1", size=1),
    }
    machine.state = replace(machine.state, desk=RunWorkspace(files=files))
    assert [one["name"] for one in listed(machine)][1:] == ["report.md", "mine.md"]


def test_what_an_earlier_run_of_the_thread_left_is_no_evidence_until_it_is_written_anew() -> None:
    machine = acted("The report is clear.")
    left = FileEntry(path="left.md", digest="sha256:1", size=1)
    created = machine.state.created.model_copy(update={"workspace": (left,)})
    for version, names in ((1, ["report.md"]), (2, ["report.md", "left.md"])):
        file = WorkspaceFile(digest="sha256:1", size=1, version=version)
        machine.state = replace(machine.state, task=created, desk=RunWorkspace(files={"left.md": file}))
        assert [one["name"] for one in listed(machine)][1:] == names


def test_a_complete_progress_without_criteria_needs_evidence_too() -> None:
    machine = goal_run(allow_words=False, require_evidence=True)
    machine.decide(use("edit"))
    machine.finish()
    machine.decide(respond("done"))
    assert asked(machine) == "progress"
    machine.decide({"progress": 1.0, "reason": "all of it"})
    measured = machine.events(ev.ProgressMeasured)[-1]
    assert (measured.score, measured.source) == (0.9, "model") and not machine.state.is_final
    assert measured.reason == "all of it; nothing of this run is named that shows it"
    machine.decide(respond("done"))
    machine.decide({"progress": 1.0, "evidence": listed(machine)[0]["name"]})
    assert machine.finished.reason == "progress_complete"


def test_a_run_that_does_not_say_that_it_needs_evidence_goes_on_as_before() -> None:
    """Logs of runs that were begun before have no such setting, and replay."""
    machine = acted("The report is clear.", require_evidence=None)
    assert "evidence" not in (message_of(machine).context.assessment or {})
    machine.decide(judged("I read it"))
    assert machine.finished.reason == "criteria_met"


def message_of(machine: Machine) -> DecisionRequest:
    (sent,) = [one.message for one in machine.sent if isinstance(one.message, DecisionRequest)]
    return sent


def test_a_judge_is_told_what_it_can_name_and_is_the_model_that_was_chosen() -> None:
    machine = acted("The report is clear.", judge_model="openai:strict")
    request = message_of(machine)
    assert (request.kind, request.model) == ("validate", "openai:strict")
    assert request.context.assessment is not None
    assert request.context.assessment["text_criteria"] == [0]
    assert [one["what"] for one in request.context.assessment["evidence"]] == ["call of build, step 1", "artifact"]
    assert machine.events(ev.DecisionRequested)[-1].model == "openai:strict", "on the record"
    assert model_for(machine.state, DecisionKind.PROGRESS) == "openai:strict"
    for kind in (DecisionKind.DECIDE, DecisionKind.REPLAN, DecisionKind.CONFIDENCE):
        assert model_for(machine.state, kind) == "scripted:task"
