"""Images that a task attaches, as each provider's API takes them."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from tests.support.decider.asked_models import ProviderApi, failed, made, serve
from tests.support.decider.decisions import USE_TOOL, context
from tests.support.decider.model_servers import DIALECTS

from towpath_contracts.decisions.attachments import StoredAttachment
from towpath_contracts.decisions.epoch_turns import EpochTurn, EpochTurns
from towpath_decider.app.decision_service import DecisionMaker

DATA = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
PHOTO = StoredAttachment(name="photo", media_type="image/png", digest="sha256:1", size=12)
SHOWN: dict[str, Any] = {
    "gemini": {"inlineData": {"data": DATA, "mime_type": "image/png"}},
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    "openai": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    "local": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
}
"""How each API is given the image."""


async def load(_run: UUID, wanted: Sequence[StoredAttachment]) -> Mapping[str, str]:
    return {one.digest: DATA for one in wanted}


async def gone(_run: UUID, wanted: Sequence[StoredAttachment]) -> Mapping[str, str]:
    msg = f"{wanted[0].name} is gone"
    raise LookupError(msg)


def opening(api: ProviderApi) -> tuple[Any, str]:
    """Return the image and the text of the first turn of the user."""
    body = api.seen[-1].body
    if api.name == "gemini":
        image, text = body["contents"][0]["parts"]
    else:
        (image, text) = next(one["content"] for one in body["messages"] if one["role"] == "user")
    return image, text["text"]


@pytest.mark.parametrize("name", sorted(DIALECTS))
async def test_an_image_stands_before_the_task_in_every_request(name: str) -> None:
    async with serve(DIALECTS[name]) as api:
        service = DecisionMaker({name: api.provider}, load_attachments=load)
        for turns in ((), (EpochTurn(step=1, steps_left=9, decision=USE_TOOL),)):
            asked = context(epoch_turns=EpochTurns(turns=turns), attachments=(PHOTO,))
            made(await service.answer(api.request(context=asked)))
            image, text = opening(api)
            assert image == SHOWN[name]
            assert "## Attached by the user" in text and "- photo (image/png, 12 bytes)" in text


async def test_an_image_that_is_gone_is_told_and_nobody_is_asked() -> None:
    async with serve(DIALECTS["openai"]) as api:
        asked = api.request(context=context(epoch_turns=EpochTurns(), attachments=(PHOTO,)))
        for service in (
            DecisionMaker({"openai": api.provider}, load_attachments=gone),
            DecisionMaker({"openai": api.provider}),
        ):
            failed(await service.answer(asked), "attachment_unavailable")
        assert api.seen == []
