"""How FastStream runs a handler of requests: what it decodes, what it hands over, and what it replies.

The decoder has validated the arguments, and they are handed over as it made them. FastStream would make a pydantic
model of every handler's parameters, and an adapter of its answer, and validate both again: at the start of a service
most of what its handlers cost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

from fast_depends.library.serializer import OptionItem, Serializer
from fast_depends.pydantic import PydanticSerializer
from faststream import BaseMiddleware, ContextRepo, StreamMessage
from faststream.nats import NatsMessage, NatsResponse
from nats.aio.msg import Msg
from pydantic import BaseModel, create_model

from towpath_contracts.base import Message
from towpath_fabric.nats.replies import (
    EncodedReply,
    ReplyBuilder,
    echoed_correlation_id,
    encode_reply,
    is_repeat,
    read_request,
)


def json_decoder(request: type[BaseModel]) -> Callable[[NatsMessage], Awaitable[BaseModel]]:
    """Return a FastStream decoder that parses and validates a body as *request* in one step.

    FastStream's own decoder would make plain JSON values, which pydantic validates by the looser rules for Python
    values, and the JSON pointers of its errors would begin with the name of the handler's parameter.
    """

    async def decode(message: NatsMessage) -> BaseModel:
        return read_request(request, message.body)

    return decode


class DecodedArguments(Serializer):
    """The parameters of one handler; nothing is validated."""

    @cached_property
    def model(self) -> type[BaseModel]:
        """The parameters as a model, by whose name FastStream describes the handler at `/asyncapi.json`."""
        fields: dict[str, Any] = {name: (item.field_type, item.default_value) for name, item in self.options.items()}
        return create_model(self.name, **fields)

    def __call__(self, call_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are."""
        return call_kwargs


class HandlerArguments(PydanticSerializer):
    """What FastStream asks for the parameters of each handler."""

    def __call__(self, *, name: str, options: list[OptionItem], response_type: Any) -> Any:
        """Return those of the handler *name*."""
        return DecodedArguments(name=name, options=options, response_type=response_type)


class ReplyMiddleware(BaseMiddleware[Any, Any]):
    """Turns what a FastStream handler returns or raises into the reply, as `ReplyBuilder` and `encode_reply` say."""

    def __init__(self, msg: Any, /, *, context: ContextRepo, replies: ReplyBuilder) -> None:
        super().__init__(msg, context=context)
        self._replies = replies

    async def consume_scope(
        self, call_next: Callable[[Any], Awaitable[Message]], msg: StreamMessage[Any]
    ) -> NatsResponse:
        raw: Msg = msg.raw_message
        in_work = self._replies.in_work
        if is_repeat(raw) and raw.reply in in_work:
            body, headers = await asyncio.shield(in_work[raw.reply])
        else:
            made: asyncio.Future[EncodedReply] = asyncio.get_running_loop().create_future()
            in_work[raw.reply] = made
            try:
                body, headers = await self._reply(call_next, msg)
                made.set_result((body, headers))
            finally:
                made.cancel()
                if in_work.get(raw.reply) is made:
                    del in_work[raw.reply]
        return NatsResponse(body, headers=headers, correlation_id=echoed_correlation_id(msg.correlation_id))

    async def _reply(self, call_next: Callable[[Any], Awaitable[Message]], msg: StreamMessage[Any]) -> EncodedReply:
        subject = msg.raw_message.subject
        try:
            reply = await self._replies.in_time(call_next(msg), subject)
        except Exception as error:  # noqa: BLE001 - the outermost edge: the caller gets an answer, the log gets the error
            reply = self._replies.problem_of(error, subject)
        return encode_reply(subject, reply, msg.raw_message._client.max_payload)
