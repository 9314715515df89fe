"""`@tool` makes of a typed function what agents may be allowed to call; `Tool.from_schema` brings its own schema.

A tool says what it is and the tool-access service decides whether it may run; what is not declared is the strictest
(irreversible, untrusted). The decorated function still is what it was: call it directly in its own tests.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

from towpath.declared_places import declared_place
from towpath.errors import DeclarationError
from towpath.tools.arguments import ToolArguments, read_arguments, schema_arguments
from towpath.tools.context import ToolContext
from towpath.tools.docstrings import parse_docstring
from towpath.tools.functions import check_function, check_options, describe_options, place_of, read_word
from towpath.tools.functions import underlying_function as underlying
from towpath.tools.probes import Probe, read_probe
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.near_names import suggest_or_list
from towpath_contracts.tools.call_summaries import placeholders
from towpath_contracts.tools.calls import EffectClass, ToolHazard, ToolSpec
from towpath_contracts.tools.readers import OutputReaders, declared_readers
from towpath_contracts.tools.reports import Reports

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_TIMEOUT_S = 30.0

Readers = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Who may know an output: "anybody", names, or parts with their readers (`towpath_contracts.tools.readers`)."""

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*$")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class ToolOptions(TypedDict, total=False):
    """What may be said of a tool beside its name, text and arguments; `tool` says what each means."""

    toolset: str
    effect_class: EffectClass | str
    timeout: str | float
    operation: str
    trusted_output: bool
    trusted_fields: Sequence[str]
    readers: Readers | None
    sinks: Sequence[str] | None
    hazards: Sequence[ToolHazard | str]
    sensitive: bool
    polling: bool
    cost_usd: float
    reports: Reports
    workspace: Literal["", "read", "scratch"]
    summary: str
    probe: Callable[..., Any] | None


class ToolKeywords(ToolOptions, total=False):
    """The keywords of `tool`."""

    name: str | None
    description: str | None


class Tool(Generic[P, R]):
    """A function with its ToolSpec. Calling it calls the function; `probe` finds out whether a call happened."""

    def __init__(
        self, function: Callable[P, R], spec: ToolSpec, arguments: ToolArguments, probe: Probe | None = None
    ) -> None:
        self.function = function
        self.spec = spec
        self.arguments = arguments
        self.probe = probe
        self.is_async = inspect.iscoroutinefunction(function)
        self.standing = ""
        """What the platform made of the proposal: `accepted`, `unchanged`, `pending`, `refused`; empty before."""
        functools.update_wrapper(self, underlying(function))

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        schema: JsonObject,
        function: Callable[P, R],
        *,
        system_parameters: Sequence[str] = (),
        **options: Unpack[ToolOptions],
    ) -> "Tool[P, R]":
        """Declare a tool whose arguments are described by *schema*, a JSON Schema of an object.

        *function* is called with the arguments as they were given, by keyword and without those left out; it may take
        `**arguments`, and a ToolContext. *system_parameters* are filled by the platform. Raises DeclarationError.
        """
        check_function(function)
        where = place_of(function)
        check_options(options, ToolOptions.__annotations__, where, name, "Tool.from_schema")
        arguments = schema_arguments(schema, function, tuple(system_parameters), where)
        return _make(function, arguments, where, {**options, "name": name, "description": description})

    @property
    def name(self) -> str:
        """The name that agents and the matrix know it by."""
        return self.spec.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, outside any run."""
        return self.function(*args, **kwargs)

    def bind(self, args: JsonObject, context: ToolContext) -> dict[str, Any]:
        """Return the function's keyword arguments for *args* and *context*; raises ArgumentsInvalidError."""
        bound = self.arguments.bind(args)
        if self.arguments.context is not None:
            bound[self.arguments.context] = context
        return bound

    def __repr__(self) -> str:
        written = underlying(self.function)
        return f"<tool {self.spec.name} of {written.__module__}.{written.__qualname__}>"


AnyTool = Tool[Any, Any]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    toolset: str = "default",
    description: str | None = None,
    effect_class: EffectClass | str = EffectClass.IRREVERSIBLE,
    timeout: str | float = DEFAULT_TIMEOUT_S,
    operation: str = "call",
    trusted_output: bool = False,
    trusted_fields: Sequence[str] = (),
    readers: Readers | None = None,
    sinks: Sequence[str] | None = None,
    hazards: Sequence[ToolHazard | str] = (),
    sensitive: bool = False,
    polling: bool = False,
    cost_usd: float = 0.0,
    reports: Reports = "",
    workspace: Literal["", "read", "scratch"] = "",
    summary: str = "",
    probe: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolKeywords]) -> Any:
    """Declare a tool; as `@tool` or `@tool(name="orders.find", effect_class="pure", …)`.

    The name is the function's unless given and may be dotted. Description and parameter texts come from the docstring,
    the schema from the annotations; a parameter `Annotated[T, SystemParameter()]` is filled by the platform, one
    annotated `ToolContext` gets the context. `timeout` is seconds or text such as "30s". `summary` is a template over
    the arguments that people see ("Refund {order_id}"). A `reconcilable` tool has a `probe`: it takes the tool's own
    arguments, or some of them, and says Happened, DidNotHappen or Unclear about an earlier start.

    `sinks` are the arguments that say where something goes ("to", "items.account"), `hazards` are "destroy", "spend"
    and "credentials", `trusted_fields` the parts of the result that are a system of record, `readers` those who may
    know the result ("anybody", names, or `{"fields": "participants"}`): docs/tools.md, "Where values come from".
    `reports` is "tests" or "artifacts" for a result of that shape: docs/runs.md, "Progress".
    `workspace` gives it the run's files in a folder, `ToolContext.workspace`: to "read", or as a "scratch" copy whose
    changes go back into the run. `cost_usd` is what one call costs; budgets count it. Raises DeclarationError.
    """
    if function is not None:
        return _declare(function, options)
    return lambda declared: _declare(declared, options)


def _declare(function: Callable[..., Any], options: ToolKeywords) -> AnyTool:
    if isinstance(function, Tool):
        where = place_of(function.function)
        msg = f"{where}: @tool goes on a plain function, and this is the tool {function.name} already"
        raise DeclarationError(msg)
    if isinstance(function, str):
        msg = f"{declared_place()}: @tool takes its name by keyword: write @tool(name={function!r})"
        raise DeclarationError(msg)
    check_function(function)
    where = place_of(function)
    check_options(options, ToolKeywords.__annotations__, where, options.get("name") or underlying(function).__name__)
    return _make(function, read_arguments(function), where, dict(options))


def _make(function: Callable[..., Any], arguments: ToolArguments, where: str, options: Mapping[str, Any]) -> AnyTool:
    """Return the tool of *function*; raises DeclarationError for an option that can't be."""
    given = {**_DEFAULTS, **options}
    written, schema = underlying(function), arguments.schema
    name, description = given["name"], given["description"]
    try:
        effect_class = read_word(EffectClass, given["effect_class"], "effect_class")
        probe = _probe(given["probe"], function, effect_class, where)
        spec = ToolSpec(
            name=name if name is not None else written.__name__,
            toolset=given["toolset"],
            description=description if description is not None else parse_docstring(written).description,
            parameters=schema,
            system_params=arguments.system,
            effect_class=effect_class,
            timeout_ms=round(seconds(given["timeout"], "timeout") * 1000),
            operation=given["operation"],
            trusted_output=given["trusted_output"],
            trusted_fields=_listed("trusted_fields", given["trusted_fields"]),
            readers=_readers(given["readers"], schema),
            sinks=_sinks(given["sinks"], schema),
            hazards=tuple(read_word(ToolHazard, one, "hazards") for one in _listed("hazards", given["hazards"])),
            sensitive=given["sensitive"],
            polling=given["polling"],
            cost_usd=given["cost_usd"],
            reports=given["reports"],
            workspace=given["workspace"],
            summary=_summary(given["summary"], schema),
            has_probe=probe is not None,
        )
    except (ValueError, DeclarationError) as error:
        said = str(error) if isinstance(error, DeclarationError) else describe_options(error, given)
        msg = said if said.startswith(where) else f"{where}: {said}"
        raise DeclarationError(msg) from error
    return Tool(function, spec, arguments, probe)


_DEFAULTS: ToolKeywords = {
    "name": None,
    "toolset": "default",
    "description": None,
    "effect_class": EffectClass.IRREVERSIBLE,
    "timeout": DEFAULT_TIMEOUT_S,
    "operation": "call",
    "trusted_output": False,
    "trusted_fields": (),
    "readers": None,
    "sinks": None,
    "hazards": (),
    "sensitive": False,
    "polling": False,
    "cost_usd": 0.0,
    "reports": "",
    "workspace": "",
    "summary": "",
    "probe": None,
}


def _listed(option: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return *words*; raises DeclarationError for a text, which would be read letter by letter."""
    if isinstance(words, str):
        msg = f"{option} is a list: write {option}=[{words!r}]"
        raise DeclarationError(msg)
    return tuple(words)


def _sinks(sinks: Sequence[str] | None, schema: JsonObject) -> tuple[str, ...] | None:
    """Return the declared sinks; raises an error for one that is no argument: it would guard nothing."""
    if sinks is None:
        return None
    named = _listed("sinks", sinks)
    _check_arguments("sinks", named, schema)
    return named


def _summary(template: str, schema: JsonObject) -> str:
    """Return the template; raises DeclarationError where it names what is no argument."""
    _check_arguments("summary", placeholders(template), schema)
    return template


def _readers(written: Readers | None, schema: JsonObject) -> tuple[OutputReaders, ...]:
    """Return who may know the output; raises an error for readers in an argument that the tool does not have."""
    found = declared_readers(written)
    _check_arguments("readers", [path for part in found for path in part.args], schema)
    return found


def _check_arguments(of: str, paths: Sequence[str], schema: JsonObject) -> None:
    names = schema.get("properties", {})
    for path in paths:
        if path.partition(".")[0] not in names:
            msg = f"{of} names {path!r}, which is no argument{suggest_or_list(path, names)}"
            raise DeclarationError(msg)


def _probe(
    probe: Callable[..., Any] | None, function: Callable[..., Any], effect_class: str, where: str
) -> Probe | None:
    """Return the tool's probe; raises DeclarationError for a class that needs one and has none, or the other way."""
    reconcilable = effect_class == EffectClass.RECONCILABLE
    if probe is None and reconcilable:
        msg = (
            f"{where}: a reconcilable tool needs probe=, a function that tells whether a call happened; "
            "without one declare it irreversible"
        )
        raise DeclarationError(msg)
    if probe is not None and not reconcilable:
        msg = f"{where}: a probe is asked for reconcilable tools only, and this one is {effect_class}"
        raise DeclarationError(msg)
    return None if probe is None else read_probe(probe, function, where)


def seconds(duration: str | float, parameter: str = "") -> float:
    """Read a duration: a number of seconds, or text such as "500ms", "30s", "5m", "1h".

    Raises ValueError, which names the *parameter* that it was given for.
    """
    if not isinstance(duration, str):
        return float(duration)
    match = _DURATION.match(duration)
    if match is None:
        where = f"{parameter}: " if parameter else ""
        msg = f"{where}{duration!r} is not a duration; write e.g. 30s, 500ms, 5m"
        raise ValueError(msg)
    return float(match.group(1)) * _UNIT_S[match.group(2)]
