"""From a server's list of tools to what is offered to the platform: specs, refusals, and warnings for people.

Every discovered tool is irreversible, untrusted and closed until the operator's file says otherwise. Its `definition`
is the digest of everything that the server says of it, so that nothing about it can change unnoticed. A discovered tool
calls its server only while the platform has accepted exactly this definition; a changed one is a new object. Secrets
that the server was given are taken out of what it says, since models read it and the platform stores it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import mcp_types
from pydantic import BaseModel, ValidationError

from towpath.project.mcp_servers import ServerConfig, ToolOverride
from towpath.tools.arguments import ToolArguments
from towpath.tools.context import ToolContext
from towpath.tools.declaration import Tool
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_worker.adapters.mcp.tool_checks import (
    MAX_TOOLS,
    DiscoveredToolRefusedError,
    check_name,
    check_schema,
    clean_text,
    skeleton,
    suspicions,
)

MAX_OFFER_BYTES = 300_000
"""Of all tools of a server together: they travel in one message, and checking a schema takes its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferableTool:
    """A tool that can be offered. `tool` is its name with the server; `hints` is what the server claims of it."""

    tool: str
    spec: ToolSpec
    output_schema: JsonObject | None
    hints: JsonObject = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerListing:
    """The tools of one listing: offered, refused with the reason, and left out by the operator."""

    found: tuple[OfferableTool, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def sort_listing(
    toolset: str, config: ServerConfig, listed: Sequence[mcp_types.Tool], hide: Callable[[str], str] = str
) -> ServerListing:
    """Sort what a server lists. Tools whose names could be taken for each other are refused, all of them.

    *hide* takes the secrets out of a text that the server was given.
    """
    wanted = [tool for tool in listed if config.takes(tool.name)]
    alike = Counter(skeleton(tool.name) for tool in wanted)
    found: list[OfferableTool] = []
    refused: dict[str, str] = {}
    room = MAX_OFFER_BYTES
    for place, tool in enumerate(wanted):
        try:
            check_name(tool.name)
            if alike[skeleton(tool.name)] > 1:
                _refuse("its name can be taken for another tool's of this server")
            if place >= MAX_TOOLS:
                _refuse(f"a server may have {MAX_TOOLS} tools; leave some out with allow or deny")
            said = tool.model_dump_json(by_alias=True, exclude_none=True)
            room -= len(said)  # before anything costs time
            if room < 0:
                _refuse(f"the tools of this server are longer than {MAX_OFFER_BYTES} bytes together")
            offered = _listed_tool(toolset, config, _without_secrets(tool, said, hide))
            shown = canonical_json([offered.spec.description, offered.spec.parameters, offered.output_schema])
            if hide(shown) != shown:
                _refuse("a secret of its server stands between hidden characters of its definition")
            found.append(offered)
        except DiscoveredToolRefusedError as error:
            refused[hide(tool.name)[:64].encode("ascii", "backslashreplace").decode()] = str(error)
    names = {tool.name for tool in listed}
    return ServerListing(
        found=tuple(found),
        refused=refused,
        left_out=tuple(sorted(name[:64] for name in names if not config.takes(name))),
        missing=tuple(sorted(set(config.tools) - names)),
    )


def _without_secrets(tool: mcp_types.Tool, said: str, hide: Callable[[str], str]) -> mcp_types.Tool:
    """Return *tool*, which is *said*, without the secrets in it; it is called by its name, so none may be in that."""
    told = hide(said)
    if told == said:
        return tool
    try:
        hidden = mcp_types.Tool.model_validate_json(told)
    except ValidationError:
        _refuse("its definition has a secret of its server in its form")
    check_name(hidden.name)
    return hidden


def definition_of(tool: mcp_types.Tool) -> str:
    """Return the digest of everything that the server says of *tool*; ValueError where it is not plain JSON."""
    return digest(tool.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"icons", "meta"}))


def _listed_tool(toolset: str, config: ServerConfig, tool: mcp_types.Tool) -> OfferableTool:
    override = config.override(tool.name)
    described = clean_text(tool.description or "")
    warnings = [*described.warnings, *suspicions(described.text)]
    hints = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations is not None else {}
    try:
        spec = _spec(toolset, config, tool, override, described.text)
    except (ValidationError, ValueError) as error:
        if isinstance(error, DiscoveredToolRefusedError):
            raise
        _refuse(f"it can't be offered: {str(error)[:300]}")
    return OfferableTool(
        tool=tool.name,
        spec=spec,
        output_schema=_output_schema(tool, warnings),
        hints=hints,
        warnings=tuple(warnings),
    )


def _spec(toolset: str, config: ServerConfig, tool: mcp_types.Tool, override: ToolOverride, described: str) -> ToolSpec:
    return ToolSpec(
        name=f"{toolset}.{tool.name}",
        toolset=toolset,
        description=described if override.description is None else override.description,
        parameters=check_schema(tool.input_schema),
        operation=override.operation,
        effect_class=EffectClass(override.effect_class),
        timeout_ms=round((override.timeout or config.timeout) * 1000),
        trusted_output=override.trusted_output,
        trusted_fields=override.trusted_fields,
        readers=override.readers,
        sinks=override.sinks,
        hazards=override.hazards,
        sensitive=override.sensitive,
        polling=override.polling,
        reports=override.reports,
        summary=override.summary,
        discovered=True,
        definition=definition_of(tool),
    )


def _output_schema(tool: mcp_types.Tool, warnings: list[str]) -> JsonObject | None:
    if tool.output_schema is None:
        return None
    try:
        canonical_json(tool.output_schema)
        return check_schema(tool.output_schema, of_arguments=False)
    except (DiscoveredToolRefusedError, ValueError) as error:
        warnings.append(f"its output schema is not used: {error}")
        return None


def _refuse(reason: str) -> NoReturn:
    raise DiscoveredToolRefusedError(reason)


class _UncheckedArguments(BaseModel):
    """Arguments go to the server as they are: the platform has checked them against the schema that it stored."""


class DiscoveredTool(Tool[Any, Any]):
    """One tool of an MCP server. *caller* sends a call to the server: `await caller(tool, args, context)`."""

    def __init__(self, found: OfferableTool, caller: Any) -> None:
        async def call(args: JsonObject, context: ToolContext) -> Any:
            return await caller(self, args, context)

        call.__name__ = found.tool
        nothing = ToolArguments(
            model=_UncheckedArguments, schema=found.spec.parameters, names=(), system=(), context=None
        )
        super().__init__(call, found.spec, nothing)
        self.found = found

    def bind(self, args: JsonObject, context: ToolContext) -> dict[str, Any]:
        """Return what `call` takes."""
        return {"args": args, "context": context}

    @property
    def accepted(self) -> bool:
        """Whether the platform has accepted this definition."""
        return self.standing in {"accepted", "unchanged"}
