"""`@tool`: a plain typed function becomes something that agents may be allowed to call.

A tool says what it is and the tool-access service decides whether it may run; what is not declared is the strictest
(irreversible, untrusted). The decorated function still is what it was: call it directly in its own tests.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

from towpath.errors import DeclarationError
from towpath.tools.arguments import ToolArguments, read_arguments
from towpath.tools.context import ToolContext
from towpath.tools.docstrings import parse_docstring
from towpath.tools.probes import Probe, read_probe
from towpath_contracts.base import JsonObject
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
        functools.update_wrapper(self, function)

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
        return f"<tool {self.spec.name} of {self.function.__module__}.{self.function.__qualname__}>"


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


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
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
        return _declare(function)
    return lambda declared: _declare(declared, **options)


def _declare(
    function: Callable[..., Any],
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
) -> AnyTool:
    if isinstance(function, Tool) or not inspect.isfunction(function):
        msg = f"@tool goes on a plain function, not on {function!r}"
        raise DeclarationError(msg)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        msg = f"{function.__qualname__}: a tool returns one result; a generator can't be a tool"
        raise DeclarationError(msg)
    arguments = read_arguments(function)
    found = _probe(probe, function, str(effect_class))
    try:
        spec = ToolSpec(
            name=name if name is not None else function.__name__,
            toolset=toolset,
            description=description if description is not None else parse_docstring(function).description,
            parameters=arguments.schema,
            system_params=arguments.system,
            effect_class=EffectClass(effect_class),
            timeout_ms=round(seconds(timeout) * 1000),
            operation=operation,
            trusted_output=trusted_output,
            trusted_fields=tuple(trusted_fields),
            readers=_readers(readers, arguments.schema),
            sinks=_sinks(sinks, arguments.schema),
            hazards=tuple(ToolHazard(hazard) for hazard in hazards),
            sensitive=sensitive,
            polling=polling,
            cost_usd=cost_usd,
            reports=reports,
            workspace=workspace,
            summary=summary,
            has_probe=found is not None,
        )
    except ValueError as error:  # pydantic's ValidationError is one too
        msg = f"{function.__module__}.{function.__qualname__}: {error}"
        raise DeclarationError(msg) from error
    return Tool(function, spec, arguments, found)


def _sinks(sinks: Sequence[str] | None, schema: JsonObject) -> tuple[str, ...] | None:
    """Return the declared sinks; raises an error for one that is no argument: it would guard nothing."""
    if sinks is None:
        return None
    if isinstance(sinks, str):
        msg = f"sinks is a list of arguments: write sinks=({sinks!r},)"
        raise DeclarationError(msg)
    _check_arguments("sinks", sinks, schema)
    return tuple(sinks)


def _readers(written: Readers | None, schema: JsonObject) -> tuple[OutputReaders, ...]:
    """Return who may know the output; raises an error for readers in an argument that the tool does not have."""
    found = declared_readers(written)
    _check_arguments("readers", [path for part in found for path in part.args], schema)
    return found


def _check_arguments(of: str, paths: Sequence[str], schema: JsonObject) -> None:
    names = schema.get("properties", {})
    for path in paths:
        if path.partition(".")[0] not in names:
            msg = f"{of} names {path!r}, which is no argument; there are {', '.join(names) or 'none'}"
            raise DeclarationError(msg)


def _probe(probe: Callable[..., Any] | None, function: Callable[..., Any], effect_class: str) -> Probe | None:
    """Return the tool's probe; raises DeclarationError for a class that needs one and has none, or the other way."""
    where = f"{function.__module__}.{function.__qualname__}"
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


def seconds(duration: str | float) -> float:
    """Read a duration: a number of seconds, or text such as "500ms", "30s", "5m", "1h". Raises ValueError."""
    if not isinstance(duration, str):
        return float(duration)
    match = _DURATION.match(duration)
    if match is None:
        msg = f"{duration!r} is not a duration; write e.g. 30s, 500ms, 5m"
        raise ValueError(msg)
    return float(match.group(1)) * _UNIT_S[match.group(2)]
