"""Long documents of one project hold up no decision of another."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.support.decider.decisions import context, request
from tests.unit.decider.test_compiled_prompts import Model, asked

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.attachments import MAX_SHOWN_ATTACHMENTS, StoredAttachment
from towpath_decider.app.decision_service import DecisionMaker
from towpath_decider.app.prompt_renderer import LONG_DOCUMENTS, MAX_LONG_OF_PROJECT
from towpath_decider.settings import DeciderSettings
from towpath_fabric.request_loop import PlatformUnavailableError

MANY = MAX_LONG_OF_PROJECT


def documents(size: int) -> tuple[tuple[StoredAttachment, ...], dict[str, str]]:
    """Return as many texts as a run is shown, of *size* bytes together, and their contents by digest."""
    attached, contents = [], {}
    for place in range(MAX_SHOWN_ATTACHMENTS):
        data = f"{place:04}".encode() + b"a" * (size // MAX_SHOWN_ATTACHMENTS - 4)
        digest = digest_text(data)
        contents[digest] = base64.b64encode(data).decode()
        attached.append(
            StoredAttachment(name=f"d{place}", media_type="text/plain", digest=digest, size=len(data)),
        )
    return tuple(attached), contents


async def test_long_documents_of_one_project_hold_up_no_decision_of_another() -> None:
    attached, contents = documents(LONG_DOCUMENTS + MAX_SHOWN_ATTACHMENTS)

    async def load(_run_id: UUID, _wanted: Sequence[StoredAttachment]) -> dict[str, str]:
        return contents

    maker, ended = DecisionMaker({"scripted": Model()}, load_attachments=load), list[str]()

    async def answer(asking: Any) -> None:
        outcome = await maker.answer(asking)
        assert outcome.fact.type == "decision.made"
        ended.append(asking.project)

    shown = context(base_prompt="x", attachments=attached)
    long = [request(model="scripted:task", project="greedy", context=shown) for _ in range(MANY)]
    doing = [asyncio.create_task(answer(one)) for one in (*long, asked("other", "x"))]
    await asyncio.gather(*doing)
    assert len(ended) == MANY + 1
    assert ended.index("other") <= 1, "all that came before it were rendered first"


async def test_few_requests_with_long_documents_hold_places_and_others_come_again() -> None:
    attached, contents = documents(LONG_DOCUMENTS + MAX_SHOWN_ATTACHMENTS)
    loaded = 0

    async def load(_run_id: UUID, _wanted: Sequence[StoredAttachment]) -> dict[str, str]:
        nonlocal loaded
        loaded += 1
        await asyncio.sleep(0)
        return contents

    maker = DecisionMaker({"scripted": Model()}, load_attachments=load)
    shown = context(base_prompt="x", attachments=attached)
    long = [request(model="scripted:task", project="greedy", context=shown) for _ in range(MANY + 3)]
    found = await asyncio.gather(*(maker.answer(one) for one in long), return_exceptions=True)
    assert [type(one) for one in found[MANY:]] == [PlatformUnavailableError] * 3
    assert not any(isinstance(one, BaseException) for one in found[:MANY])
    assert loaded == MANY, "what is refused has fetched nothing"
    assert 8 * loaded == DeciderSettings.model_fields["decider_concurrency"].default, (
        "seven eighths of the places are left to others"
    )
    assert (await maker.answer(long[0])).fact.type == "decision.made"


async def test_projects_take_turns_at_rendering_long_documents() -> None:
    attached, contents = documents(LONG_DOCUMENTS + MAX_SHOWN_ATTACHMENTS)
    maker, ended = DecisionMaker({}), list[str]()

    async def render(project: str) -> None:
        prompt = await maker.prompt_of(project, context(base_prompt="x", attachments=attached), attached=contents)
        assert "0015aaaa" in prompt.text
        ended.append(project)

    await asyncio.gather(*(render(project) for project in (*["greedy"] * MANY, "other")))
    assert ended.index("other") <= 2


async def test_short_documents_are_rendered_at_once() -> None:
    attached, contents = documents(LONG_DOCUMENTS)
    maker = DecisionMaker({})
    rendering = maker.prompt_of("p", context(base_prompt="x", attachments=attached), attached=contents)
    try:
        rendering.send(None)
    except StopIteration as done:
        assert "0000aaaa" in done.value.text
    else:
        raise AssertionError("it waited")
