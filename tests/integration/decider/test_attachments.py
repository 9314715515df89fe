"""Files that a task or an earlier turn attaches, as each provider's API takes them."""

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter
from tests.support.decider.asked_models import ProviderApi, failed, made, serve
from tests.support.decider.decisions import USE_TOOL, context
from tests.support.decider.model_servers import DIALECTS

from towpath_contracts.decisions.attachments import PDF, StoredAttachment
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.decisions.epoch_turns import EpochTurn, EpochTurns
from towpath_decider.app.decision_service import DecisionMaker

CSV = "name,street\nKim,Elm"
CONTENTS = {
    "photo": base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode(),
    "report": base64.b64encode(b"%PDF-1.7 rest").decode(),
    "rows": base64.b64encode(CSV.encode()).decode(),
}
PHOTO = StoredAttachment(name="photo", media_type="image/png", digest="photo", size=12)
REPORT = StoredAttachment(name="report", media_type=PDF, digest="report", size=13)
ROWS = StoredAttachment(name="rows", media_type="text/csv", digest="rows", size=19)
NOT_SHOWN = StoredAttachment(name="old", media_type=PDF, digest="old", size=9, shown=False)
IMAGE_URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{CONTENTS['photo']}"}}
FILE = {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:{PDF};base64,{CONTENTS['report']}"}}
SHOWN: dict[str, dict[str, Any]] = {
    "gemini": {
        "photo": {"inlineData": {"data": CONTENTS["photo"], "mime_type": "image/png"}},
        "report": {"inlineData": {"data": CONTENTS["report"], "mime_type": PDF}},
    },
    "anthropic": {
        "photo": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": CONTENTS["photo"]},
        },
        "report": {
            "type": "document",
            "source": {"type": "base64", "media_type": PDF, "data": CONTENTS["report"]},
            "title": "report",
        },
    },
    "openai": {"photo": IMAGE_URL, "report": FILE},
    "local": {"photo": IMAGE_URL, "report": FILE},
}
"""How each API is given a file."""


async def load(_run: UUID, wanted: Sequence[StoredAttachment]) -> Mapping[str, str]:
    return {one.digest: CONTENTS[one.digest] for one in wanted}


async def gone(_run: UUID, wanted: Sequence[StoredAttachment]) -> Mapping[str, str]:
    msg = f"{wanted[0].name} is gone"
    raise LookupError(msg)


@cache  # not at import: every process of tests imports this, and the SDKs take a second
def published(provider: str) -> TypeAdapter[Any]:
    """Return what the provider's SDK says that its API takes as the parts of a turn of the user."""
    if provider == "gemini":
        from google.genai.types import Part

        return TypeAdapter(list[Part])
    if provider == "anthropic":
        from anthropic.types import DocumentBlockParam, ImageBlockParam, TextBlockParam

        return TypeAdapter(list[DocumentBlockParam | ImageBlockParam | TextBlockParam])
    from openai.types.chat import ChatCompletionContentPartParam

    return TypeAdapter(list[ChatCompletionContentPartParam])


def parts_of(api: ProviderApi, place: int) -> tuple[list[Any], str]:
    """Return the files and the text of a turn of the user; the API's own types must hold them."""
    body = api.seen[-1].body
    if api.name == "gemini":
        parts = [turn["parts"] for turn in body["contents"] if turn["role"] == "user"][place]
    else:
        parts = [turn["content"] for turn in body["messages"] if turn["role"] == "user"][place]
    published(api.name).validate_python(parts, extra="forbid")
    *files, text = parts
    return files, text["text"]


@pytest.mark.parametrize("name", sorted(DIALECTS))
async def test_files_stand_before_the_task_and_texts_in_it_in_every_request(name: str) -> None:
    async with serve(DIALECTS[name]) as api:
        service = DecisionMaker({name: api.provider}, load_attachments=load)
        for turns in ((), (EpochTurn(step=1, steps_left=9, decision=USE_TOOL),)):
            asked = context(epoch_turns=EpochTurns(turns=turns), attachments=(PHOTO, REPORT, ROWS, NOT_SHOWN))
            made(await service.answer(api.request(context=asked)))
            files, text = parts_of(api, 0)
            assert files == [SHOWN[name]["photo"], SHOWN[name]["report"]]
            assert "## Attached by the user" in text and "- photo (image/png, 12 bytes)" in text
            assert "### rows\n<<<attached " in text and CSV in text


@pytest.mark.parametrize("name", sorted(DIALECTS))
async def test_files_of_an_earlier_turn_stand_with_that_turn(name: str) -> None:
    turns = (
        EarlierTurn(role="user", content="Read it.", attachments=(REPORT, ROWS)),
        EarlierTurn(role="assistant", content="Read."),
    )
    async with serve(DIALECTS[name]) as api:
        service = DecisionMaker({name: api.provider}, load_attachments=load)
        asked = context(epoch_turns=EpochTurns(), messages=turns, attachments=(PHOTO,))
        made(await service.answer(api.request(context=asked)))
        files, text = parts_of(api, 0)
        assert files == [SHOWN[name]["report"]] and CSV in text
        files, text = parts_of(api, 1)
        assert files == [SHOWN[name]["photo"]] and CSV not in text


@pytest.mark.parametrize("one", [PHOTO, ROWS], ids=["image", "text"])
async def test_a_file_that_is_gone_is_told_and_nobody_is_asked(one: StoredAttachment) -> None:
    async with serve(DIALECTS["openai"]) as api:
        asked = api.request(context=context(epoch_turns=EpochTurns(), attachments=(one,)))
        for service in (
            DecisionMaker({"openai": api.provider}, load_attachments=gone),
            DecisionMaker({"openai": api.provider}),
        ):
            failed(await service.answer(asked), "attachment_unavailable")
        assert api.seen == []
