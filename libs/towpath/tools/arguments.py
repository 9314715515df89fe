"""Turns a function's signature into the JSON Schema that is offered, and arguments into what the function takes.

What is offered and what is checked come from one pydantic model, or from one JSON Schema, so they can't differ; unknown
arguments are refused; a parameter that can't be passed by name, or has no type, can't be offered at all. Nothing is
changed on the way beyond what the declared type asks for: a text is no number, and 100 stays 100 for a float.
"""

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_json

from towpath.declared_places import checks_keywords
from towpath.errors import DeclarationError
from towpath.tools.context import ToolContext
from towpath.tools.docstrings import parse_docstring
from towpath.tools.functions import bound_keywords, place_of, underlying_function
from towpath.tools.secrets import Secret
from towpath_contracts.base import JsonObject
from towpath_contracts.json_schema import schema_faults, unusable_schema
from towpath_contracts.problems.input_faults import located_message
from towpath_contracts.problems.near_names import suggest_or_list

_PREFIX = "argument_"
"""Before every field name, so that parameters named like a member of BaseModel (`copy`, `json`, `_x`) are possible."""

_NAMEABLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@checks_keywords
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
    filled: frozenset[str] = frozenset()
    """Parameters whose default is made anew for each call that does not give them."""

    def bind(self, args: JsonObject) -> dict[str, Any]:
        """Return keyword arguments for *args*, converted to the declared types, and the secrets.

        Of one that is not given the function's own default holds, unless it could be changed by a call or is a Field.
        Raises ArgumentsInvalidError, SecretMissingError.
        """
        values, filled = self._validated(args), self.filled
        bound = {
            name: _as_given(getattr(values, field), args.get(name))
            for field, name in self.names
            if name in args or name in filled
        }
        return bound | {name: secret.read() for name, secret in self.secrets}

    def _validated(self, args: JsonObject) -> BaseModel:
        try:
            # From JSON: there a text may be a date or a Decimal, and still no number.
            return self.model.model_validate_json(to_json(args), strict=True)
        except ValidationError as error:
            if all(map(_is_whole_number, error.errors(include_url=False, include_context=False))):
                return self.model.model_validate(args)  # JSON has one kind of number: 5.0 is an integer there
            places = error.errors(include_url=False, include_input=False, include_context=False)
            message = "; ".join(located_message(one, "arguments") for one in places)
            raise ArgumentsInvalidError(message) from error


def read_arguments(function: Callable[..., object]) -> ToolArguments:
    """Read the signature of *function*; raises DeclarationError where it can't be offered."""
    where = place_of(function)
    hints = _hints(function, where)
    described = parse_docstring(underlying_function(function)).parameters
    settled = bound_keywords(function)
    filled: set[str] = set()
    fields: dict[str, Any] = {}
    system: list[str] = []
    secrets: list[tuple[str, Secret]] = []
    context: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in settled:
            continue
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
        if _is_made_anew(parameter.default):
            filled.add(parameter.name)
        _must_have_fitting_default(parameter, hint, where)
        fields[_PREFIX + parameter.name] = _field(parameter, hint, described.get(parameter.name))
    model = _model(underlying_function(function).__name__, fields, where)
    return ToolArguments(
        model=model,
        schema=_schema(model, where),
        filled=frozenset(filled),
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


def schema_arguments(
    schema: JsonObject, function: Callable[..., object], system: tuple[str, ...], where: str
) -> ToolArguments:
    """Return how *function* is called with what *schema* describes; raises DeclarationError where they don't fit."""
    if schema.get("type") != "object":
        msg = f'{where}: the JSON Schema of arguments describes an object: {{"type": "object", "properties": …}}'
        raise DeclarationError(msg)
    if fault := unusable_schema(schema):
        msg = f"{where}: {fault}"
        raise DeclarationError(msg)
    context = context_parameter(function, where)
    settled = bound_keywords(function)
    parameters = [one for one in inspect.signature(function).parameters.values() if one.name not in settled | {context}]
    properties = list(schema.get("properties", {}))
    taken = [one.name for one in parameters if one.kind in _NAMEABLE]
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        for name in properties:
            if name not in taken:
                hint = suggest_or_list(name, taken)
                msg = f"{where}: the JSON Schema has {name!r}, which the function does not take{hint}"
                raise DeclarationError(msg)
    required = schema.get("required", ())
    for one in parameters:
        if one.kind in _NAMEABLE and one.default is inspect.Parameter.empty and one.name not in required:
            msg = f"{where}: the function needs {one.name!r}, which the JSON Schema does not require"
            raise DeclarationError(msg)
    for name in system:
        if name not in properties:
            hint = suggest_or_list(name, properties)
            msg = f"{where}: system_parameters has {name!r}, which the JSON Schema does not{hint}"
            raise DeclarationError(msg)
    return _SchemaArguments(model=BaseModel, schema=schema, names=(), system=system, context=context)


class _SchemaArguments(ToolArguments):
    """Arguments that a JSON Schema describes: the function takes them as they were given."""

    def bind(self, args: JsonObject) -> dict[str, Any]:
        """Return *args* themselves; raises ArgumentsInvalidError."""
        if faults := schema_faults(self.schema, args):
            raise ArgumentsInvalidError("; ".join(faults))
        return dict(args)


def _is_whole_number(entry: Any) -> bool:
    given = entry["input"]
    return entry["type"] == "int_type" and isinstance(given, float) and given.is_integer()


def _as_given(value: Any, given: Any) -> Any:
    """Return *value* with each whole number as it was given, also in lists and objects: JSON's 100 is no 100.0."""
    if type(value) is float and type(given) is int:
        return given
    if type(value) is list and type(given) is list and len(value) == len(given):
        return [_as_given(*pair) for pair in zip(value, given, strict=True)]
    if type(value) is dict and type(given) is dict and value.keys() == given.keys():
        return {name: _as_given(one, given[name]) for name, one in value.items()}
    return value


def _is_made_anew(default: Any) -> bool:
    """Return whether a default is described by a Field, or could be changed by the call that gets it."""
    return isinstance(default, FieldInfo) or type(default).__hash__ is None


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in get_args(hint)


def _hints(function: Callable[..., object], where: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(underlying_function(function), include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"{where}: {_unknown_type(underlying_function(function), error.name or 'that')}"
        ) from error


def _unknown_type(function: Callable[..., object], name: str) -> str:
    """Return which parameter has a type of which Python knows no *name* there, and what to do about it."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    noted = inspect.get_annotations(function)
    found = [one for one, hint in noted.items() if isinstance(hint, str) and word.search(hint)]
    place = "a parameter" if not found else "the result" if found[0] == "return" else f"parameter {found[0]}"
    cure = f"import {name} at the head of the file, and not below `if TYPE_CHECKING:`"
    return f"{place} has the type {name}, which Python does not know there; {cure}"


def _must_be_offerable(parameter: inspect.Parameter, hint: Any, where: str) -> None:
    if parameter.kind not in _NAMEABLE:
        raise DeclarationError(f"{where}: {_named_instead(parameter, hint)}")
    if hint is None and parameter.name == "self":
        msg = f"{where}: @tool inside a class has no object to call; make the tool of a bound method: tool(shop.refund)"
        raise DeclarationError(msg)
    if hint is None:
        msg = (
            f"{where}: parameter {parameter.name} has no type, and the schema that a model sees is made of types; "
            f"write one, as in {parameter.name}: str"
        )
        raise DeclarationError(msg)


def _must_have_fitting_default(parameter: inspect.Parameter, hint: Any, where: str) -> None:
    """Raise DeclarationError for a default that a call could not give: the function would get it all the same.

    None is let pass, as in `day: str = None`, and so is whatever is no plain value, which no model could be offered.
    """
    default = parameter.default.default if isinstance(parameter.default, FieldInfo) else parameter.default
    if type(default) not in {bool, int, float, str, list, dict}:
        return
    try:
        TypeAdapter(hint).validate_python(default)
    except PydanticUserError:  # a type that JSON can't say is told as such
        return
    except ValidationError:
        shown = getattr(get_args(hint)[0] if get_origin(hint) is Annotated else hint, "__name__", str(hint))
        msg = (
            f"{where}: the default of {parameter.name} is {default!r}, which does not fit its type {shown}; "
            "change one of them"
        )
        raise DeclarationError(msg) from None


def _named_instead(parameter: inspect.Parameter, hint: Any) -> str:
    """Return why a model can't name *parameter* in a call, and how it is written so that it can."""
    name = parameter.name
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        of = getattr(hint, "__name__", "str")
        return f"*{name} can't be passed by name; take a list: {name}: list[{of}]"
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{name} says no names; name each parameter, or describe them with Tool.from_schema"
    return f"parameter {name} stands before the / and can't be passed by name; take the / out"


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
        raise DeclarationError(_type_fault(fields, where)) from error


def _type_fault(fields: dict[str, Any], where: str) -> str:
    """Return which parameter has a type that JSON can't have."""
    for field, (hint, _) in fields.items():
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint  # without its name
        try:
            TypeAdapter(kind).json_schema()
        except PydanticUserError as error:
            shown = getattr(kind, "__name__", str(kind))
            typed_dict = " (in Python 3.11 a TypedDict has to be that of typing_extensions)"
            return (
                f"{where}: parameter {field.removeprefix(_PREFIX)} has the type {shown}, which JSON can't say; use "
                "str, numbers, bool, lists, dates, enums, dataclasses or pydantic models"
                + (typed_dict if error.code == "typed-dict-version" else "")
            )
    return f"{where}: its parameters can't be written as JSON"


def _schema(model: type[BaseModel], where: str) -> JsonObject:
    try:
        schema = model.model_json_schema(schema_generator=_WithoutTitles)
    except PydanticUserError as error:
        fields = {_PREFIX + one.alias: (one.annotation, None) for one in model.model_fields.values() if one.alias}
        raise DeclarationError(_type_fault(fields, where)) from error
    schema.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema
