"""Hands the arguments of a request's handler over as the decoder made them, which has validated them.

FastStream would make a pydantic model of every handler's parameters, and an adapter of its answer, and validate both
again: at the start of a service most of what its handlers cost.
"""

from functools import cached_property
from typing import Any

from fast_depends.library.serializer import OptionItem, Serializer
from fast_depends.pydantic import PydanticSerializer
from pydantic import BaseModel, create_model


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
