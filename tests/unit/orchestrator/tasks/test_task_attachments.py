"""Images that a task attaches: read, and refused where a model of the task could not be shown them."""

import base64
from typing import Any

import pytest
from tests.support.engine.machine import agent, snapshot

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.attachments import MAX_ATTACHED_BYTES, attachment_fault
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.task_attachments import attachment_problems, read_attachments

PNG = b"\x89PNG\r\n\x1a\nrest"
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
        ([attached(), attached(PNG + b"x")], "/attachments/1", "two attachments are called 'photo'"),
        ([attached(HALF), attached(HALF, "two")], "/attachments", f"the limit is {MAX_ATTACHED_BYTES}"),
    ],
)
def test_what_is_no_image_is_refused_with_its_place(given: list[dict[str, Any]], pointer: str, detail: str) -> None:
    ((found, why),) = problems(task(*given))
    assert found == pointer and detail in why


def test_every_model_that_may_be_asked_has_to_take_it() -> None:
    gif = task(attached(b"GIF89a", media_type="image/gif"))
    ((pointer, detail),) = problems(gif, "openai:gpt-5-mini", "gemini:gemini-2.5-flash")
    assert pointer == "/attachments/0/media_type" and detail.startswith("gemini:gemini-2.5-flash takes image/jpeg")
    assert problems(gif, "openai:gpt-5-mini", "anthropic:claude-haiku-4-5") == []
    ((_, detail),) = problems(task(attached(), model="scripted:task"))
    assert detail == "scripted:task takes no attachments; models of anthropic, gemini, google, local, openai do"
    assert "agent:keeper takes no attachments" in problems(task(attached()), "agent:keeper")[0][1]


def test_texts_have_another_place() -> None:
    assert "quoted_inputs" in attachment_fault("openai:gpt-5-mini", "text/plain")
    assert "quoted_inputs" not in attachment_fault("openai:gpt-5-mini", "application/pdf")
