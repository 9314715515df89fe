"""Files that a task attaches: read, and refused where a model of the task could not be shown them."""

import base64
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.engine.machine import agent, snapshot

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.attachments import MAX_ATTACHED_BYTES, MAX_ATTACHMENTS, PDF, attachment_fault
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.task_attachments import attachment_problems, read_attachments

PNG = b"\x89PNG\r\n\x1a\nrest"
REPORT = b"\n%PDF-1.7\nrest"
HALF = PNG + b"x" * (MAX_ATTACHED_BYTES // 2)


def attached(content: bytes = PNG, name: str = "photo", media_type: str = "image/png") -> dict[str, Any]:
    return {"name": name, "media_type": media_type, "data": base64.b64encode(content).decode()}


def task(*attachments: dict[str, Any], **more: Any) -> SubmitTask:
    return SubmitTask(network="desk", user_message="Look.", attachments=attachments, **more)


def problems(given: SubmitTask, *models: str) -> list[tuple[str, str]]:
    first, *fallbacks = models or ("gemini:gemini-2.5-flash",)
    desk = snapshot(agent("triage", model=first, fallback_models=tuple(fallbacks)))
    return [(one.pointer, one.detail) for one in attachment_problems(given, desk)]


def test_an_image_is_kept_by_its_digest() -> None:
    read = read_attachments(task(attached()))
    (one,) = read.stored
    assert (one.name, one.media_type, one.size, one.digest) == ("photo", "image/png", len(PNG), digest_text(PNG))
    assert read.data == {one.digest: PNG}
    assert problems(task(attached())) == [] == problems(task())


@pytest.mark.parametrize(
    ("given", "pointer", "detail"),
    [
        ([{**attached(), "data": "no base64!"}], "/attachments/0", "it is not base64"),
        ([attached(b"GIF89a")], "/attachments/0", "its bytes are no image/png"),
        ([attached(b"PK rest", media_type=PDF)], "/attachments/0", "its bytes are no application/pdf"),
        ([attached(b" " * 1_024 + REPORT, media_type=PDF)], "/attachments/0", "its bytes are no application/pdf"),
        ([attached(b"caf\xe9", media_type="text/csv")], "/attachments/0", "its bytes are no text/csv: a text is UTF-8"),
        ([attached(b"a\0b", media_type="application/json")], "/attachments/0", "without NUL characters"),
        ([attached(), attached(PNG + b"x")], "/attachments/1", "two attachments are called 'photo'"),
        ([attached(HALF), attached(HALF, "two")], "/attachments", f"the limit is {MAX_ATTACHED_BYTES}"),
    ],
)
def test_what_is_not_what_it_says_is_refused_with_its_place(
    given: list[dict[str, Any]], pointer: str, detail: str
) -> None:
    ((found, why),) = problems(task(*given))
    assert found == pointer and detail in why


def test_every_model_that_may_be_asked_has_to_take_it() -> None:
    gif = task(attached(b"GIF89a", media_type="image/gif"))
    ((pointer, detail),) = problems(gif, "openai:gpt-5-mini", "gemini:gemini-2.5-flash")
    assert pointer == "/attachments/0/media_type" and detail.startswith("gemini:gemini-2.5-flash takes application/pdf")
    assert problems(gif, "openai:gpt-5-mini", "anthropic:claude-haiku-4-5") == []
    ((_, detail),) = problems(task(attached(), model="scripted:task"))
    assert detail.startswith("scripted:task takes texts, not 'image/png'; models of anthropic, gemini, google, local")
    assert "agent:keeper takes no attachments" in problems(task(attached()), "agent:keeper")[0][1]


def test_a_text_goes_to_every_model_and_a_pdf_to_those_that_read_it() -> None:
    rows = attached(b"name,street\nKim,Elm", "rows", "text/csv")
    report = attached(REPORT, "report", PDF)
    served = ("gemini:x", "openai:x", "anthropic:x", "local:x")
    assert problems(task(rows), *served, "scripted:task") == []
    assert problems(task(rows, report), *served) == []
    assert problems(task(report), "gemini:x", "scripted:task")[0][0] == "/attachments/0/media_type"
    for media_type in ("text/plain", "text/markdown", "application/json", "application/xml"):
        assert problems(task(attached(b"{}", media_type=media_type)), "scripted:task") == []
    for media_type in ("text/plain; charset=utf-8", "text/", "application/zip", "image/svg+xml"):
        ((_, detail),) = problems(task(attached(b"x", media_type=media_type)), "openai:x")
        assert detail.startswith("openai:x takes application/pdf, image/gif") and detail.endswith(repr(media_type))


def test_an_agent_in_code_is_given_a_text_in_another_place() -> None:
    assert "quoted_inputs" in attachment_fault("agent:keeper", "text/plain")
    assert "quoted_inputs" not in attachment_fault("agent:keeper", PDF)


def test_what_earlier_turns_have_counts_with_the_task() -> None:
    turn = {"role": "user", "content": "Read this.", "attachments": [attached(REPORT, "report", PDF), attached()]}
    messages = [turn, {"role": "assistant", "content": "Done."}, {**turn, "attachments": [attached(name="again")]}]
    read = read_attachments(task(messages=messages))
    assert [[one.name for one in turn.attachments] for turn in read.turns] == [["report", "photo"], [], ["again"]]
    assert read.data == {digest_text(PNG): PNG, digest_text(REPORT): REPORT}
    assert problems(task(messages=messages)) == []
    ((pointer, _),) = problems(task(messages=messages, model="scripted:task"))[:1]
    assert pointer == "/messages/0/attachments/0/media_type"
    wrong = [{**turn, "attachments": [attached(b"x")]}]
    assert problems(task(messages=wrong))[0][0] == "/messages/0/attachments/0"
    own = [attached(name=f"p{n}") for n in range(MAX_ATTACHMENTS - 2)]
    assert "task and messages have 9 attachments; the limit is 8" in problems(task(*own, messages=messages))[0][1]
    refused = problems(task(*own, messages=messages, model="scripted:task"))
    assert len(refused) == 1, "of too many it is not said which models take none of them"
    half = [{**turn, "attachments": [attached(HALF)]}]
    assert f"the limit is {MAX_ATTACHED_BYTES}" in problems(task(attached(HALF), messages=half))[0][1]
    with pytest.raises(ValidationError, match="only a turn of the user has attachments"):
        task(messages=[{**turn, "role": "assistant"}])
