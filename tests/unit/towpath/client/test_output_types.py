"""The types that answers are read as: pydantic models, dataclasses and TypedDicts."""

import datetime as dt
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from towpath import DeclarationError, RefusedError, RunFailedError
from towpath.tasks.outputs import answer_of, output_schema, read_output, told_if_failed, typed
from towpath_contracts.runs.views import RunView


class Model(BaseModel):
    lamps: int
    due: dt.date


@dataclass
class Data:
    lamps: int
    due: dt.date


class Words(TypedDict):
    lamps: int
    due: dt.date


class Recursive(BaseModel):
    inner: "Recursive | None" = None


ANSWER = {"lamps": 12, "due": "2026-11-27"}
DUE = dt.date(2026, 11, 27)


def ended(final: dict[str, Any]) -> RunView:
    return RunView.model_construct(run_id=UUID(int=1), kind="network", status="completed", final=final)


@pytest.mark.parametrize(
    ("kind", "value"), [(Model, Model(lamps=12, due=DUE)), (Data, Data(12, DUE)), (Words, {"lamps": 12, "due": DUE})]
)
def test_an_answer_is_of_the_type_that_was_asked_for(kind: type[Any], value: Any) -> None:
    assert output_schema(kind)["required"] == ["lamps", "due"]
    assert read_output(ended(ANSWER), kind) == value
    with pytest.raises(RefusedError, match=f"is no {kind.__name__}: lamps: "):
        read_output(ended({**ANSWER, "lamps": "many"}), kind)


def test_a_model_that_holds_itself_is_a_type_of_answers() -> None:
    assert "$ref" in output_schema(Recursive)


@pytest.mark.parametrize("kind", [int, list[int], dt.date])
def test_what_is_no_object_can_not_be_an_answer(kind: type[Any]) -> None:
    with pytest.raises(DeclarationError, match="is no pydantic model, dataclass or TypedDict"):
        output_schema(kind)


def test_a_run_keeps_its_fields_beside_its_typed_answer() -> None:
    view = RunView.model_validate(
        {
            "run_id": UUID(int=1), "project": "p", "kind": "network", "network": "n", "version": 1, "caller": "ann",
            "snapshot_digest": "d", "seq": 9, "status": "completed", "final": ANSWER,
            "created_at": "2026-11-26T00:00:00Z",
        }
    )  # fmt: skip
    run = typed(view, Data)
    assert (run.output, run.caller, run.final) == (Data(12, DUE), "ann", ANSWER)


def test_an_answer_is_read_or_told_why_there_is_none() -> None:
    assert answer_of(ended(ANSWER), Data) == Data(12, DUE)
    failed = RunView.model_construct(run_id=UUID(int=1), kind="network", status="failed", reason="model_refused")
    with pytest.raises(RunFailedError, match="run_failed: failed: model_refused"):
        answer_of(failed, Data)
    cancelled = failed.model_copy(update={"status": "cancelled", "message": "Ann cancelled it"})
    with pytest.raises(RunFailedError, match="cancelled: Ann cancelled it"):
        answer_of(cancelled, Data)
    with pytest.raises(RefusedError, match="output_invalid"):
        answer_of(ended({"lamps": "many"}), Data)


@pytest.mark.parametrize("status", ["failed", "timed_out"])
def test_who_asks_a_failed_run_for_its_answer_is_told_why_there_is_none(status: str) -> None:
    values = dict.fromkeys(RunView.model_fields)
    why = "no key for OpenAI: set OPENAI_API_KEY"
    view = RunView.model_construct(**{**values, "run_id": UUID(int=1), "status": status, "message": why})
    for ask in (lambda: told_if_failed(view).text, lambda: typed(view, Data).text, lambda: typed(view, Data).output):
        with pytest.raises(RunFailedError, match=f"run_failed: {status}: {why}"):
            ask()
    assert (told_if_failed(view).message, typed(view, Data).status) == (why, status)


def test_a_cancelled_run_has_no_answer_and_did_not_fail() -> None:
    values = dict.fromkeys(RunView.model_fields)
    view = RunView.model_construct(**{**values, "status": "cancelled"})
    assert told_if_failed(view) is view
    assert (told_if_failed(view).text, typed(view, Data).text, typed(view, Data).output) == ("", "", None)


def test_the_text_of_a_run_is_its_answer_in_words() -> None:
    assert ended({"message": "12 lamps"}).text == "12 lamps"
    assert ended(ANSWER).text == "" == ended({"message": 3}).text
    assert RunView.model_construct(status="failed", final={"message": "it failed"}).text == ""
    assert RunView.model_construct(status="completed").text == ""
