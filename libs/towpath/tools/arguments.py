"""Turns a function's signature into the JSON Schema that is offered, and arguments into what the function takes.

What is offered and what is checked come from one pydantic model, so they can't differ; unknown arguments are
refused; a parameter that can't be passed by name, or has no type, can't be offered at all.
"""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from towpath.errors import DeclarationError
from towpath.tools.context import ToolContext
from towpath.tools.docstrings import parse_docstring
from towpath.tools.secrets import Secret
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.input_faults import entry_message

_PREFIX = "argument_"
"""Before every field name, so that parameters named like a member of BaseModel (`copy`, `json`, `_x`) are possible."""

_NAMEABLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class SystemParameter:
    """Marks a parameter that the platform fills in: `Annotated[str, SystemParameter()]`. No model sees or sets it."""


class ArgumentsInvalidError(Exception):
    """The arguments do not fit the parameters; the text lists every place, without the values."""


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out the titles pydantic makes from names: they cost tokens and say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No field gets a made-up title."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolArguments:
    """How one function is called: `schema` is offered, `bind` makes keyword arguments out of JSON."""

    model: type[BaseModel]
    schema: JsonObject
    names: tuple[tuple[str, str], ...]
    system: tuple[str, ...]
    context: str | None
    secrets: tuple[tuple[str, Secret], ...] = ()

    def bind(self, args: JsonObject) -> dict[str, Any]:
        """Return keyword arguments for *args*, converted to the declared types, and the secrets.

        Raises ArgumentsInvalidError, SecretMissingError.
        """
        try:
            values = self.model.model_validate(args).__dict__
        except ValidationError as error:
            places = error.errors(include_url=False, include_input=False, include_context=False)
            message = "; ".join(
                f"{'.'.join(str(part) for part in e['loc']) or 'arguments'}: {entry_message(e)}" for e in places
            )
            raise ArgumentsInvalidError(message) from error
        bound = {name: values[field] for field, name in self.names}
        return bound | {name: secret.read() for name, secret in self.secrets}


def read_arguments(function: Callable[..., object]) -> ToolArguments:
    """Read the signature of *function*; raises DeclarationError where it can't be offered."""
    where = f"{function.__module__}.{function.__qualname__}"
    hints = _hints(function, where)
    described = parse_docstring(function).parameters
    fields: dict[str, Any] = {}
    system: list[str] = []
    secrets: list[tuple[str, Secret]] = []
    context: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        _must_be_offerable(parameter, hint, where)
        if _is_context(hint):
            context = _only_one(context, parameter.name, where)
            continue
        if (secret := _secret_of(hint, f"{where}: parameter {parameter.name}")) is not None:
            secrets.append((parameter.name, secret))
            continue
        if _is_system(hint):
            system.append(parameter.name)
        fields[_PREFIX + parameter.name] = _field(parameter, hint, described.get(parameter.name))
    model = _model(function.__name__, fields, where)
    return ToolArguments(
        model=model,
        schema=_schema(model),
        names=tuple((field, field.removeprefix(_PREFIX)) for field in fields),
        system=tuple(system),
        context=context,
        secrets=tuple(secrets),
    )


def context_parameter(function: Callable[..., object], where: str) -> str | None:
    """Return the name of the parameter that takes the ToolContext; raises DeclarationError where there are two."""
    hints = _hints(function, where)
    found: str | None = None
    for name in inspect.signature(function).parameters:
        if _is_context(hints.get(name)):
            found = _only_one(found, name, where)
    return found


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in get_args(hint)


def _hints(function: Callable[..., object], where: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        msg = f"{where}: {error}; types of a tool's parameters must be importable where the tool is defined"
        raise DeclarationError(msg) from error


def _must_be_offerable(parameter: inspect.Parameter, hint: Any, where: str) -> None:
    if parameter.kind not in _NAMEABLE:
        msg = f"{where}: parameter {parameter.name} can't be passed by name; tools take named parameters only"
        raise DeclarationError(msg)
    if hint is None:
        msg = f"{where}: parameter {parameter.name} has no type; the schema a model sees is made of types"
        raise DeclarationError(msg)


def _only_one(found: str | None, name: str, where: str) -> str:
    if found is not None:
        msg = f"{where}: two parameters take the ToolContext, {found} and {name}"
        raise DeclarationError(msg)
    return name


def _is_system(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(
        mark is SystemParameter or isinstance(mark, SystemParameter) for mark in get_args(hint)
    )


def _secret_of(hint: Any, where: str) -> Secret | None:
    """Return what the parameter is filled with from outside; raises DeclarationError for one that is no text."""
    marks = get_args(hint) if get_origin(hint) is Annotated else ()
    found = next((mark for mark in marks if isinstance(mark, Secret)), None)
    if found is not None and marks[0] is not str:
        msg = f"{where} takes a secret and is not a str"
        raise DeclarationError(msg)
    return found


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> tuple[Any, Any]:
    """Return type and default as create_model wants them; a description written in the type wins over the docstring."""
    named = Annotated[hint, Field(alias=parameter.name, description=_own_description(hint) or description)]
    if parameter.default is inspect.Parameter.empty:
        return named, ...
    return named, parameter.default


def _own_description(hint: Any) -> str | None:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark.description for mark in marks if isinstance(mark, FieldInfo) and mark.description), None)


def _model(name: str, fields: dict[str, Any], where: str) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        return create_model(name, __config__=config, **fields)
    except PydanticUserError as error:
        msg = f"{where}: {error.message}"
        raise DeclarationError(msg) from error


def _schema(model: type[BaseModel]) -> JsonObject:
    try:
        schema = model.model_json_schema(schema_generator=_WithoutTitles)
    except PydanticUserError as error:
        msg = f"{model.__name__}: {error.message}"
        raise DeclarationError(msg) from error
    schema.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema
