"""The file that names MCP servers: how each is reached, and what its tools count as.

What a tool is allowed to be taken for (pure, trusted, which operation) stands here, in the operator's hand, and
never comes from the server. All problems are reported at once, with file and line.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from towpath.errors import RefusedError
from towpath.networks.spec_files import locate_problems, read_yaml
from towpath.project.secret_references import holds_reference, reference_fault
from towpath.tools.declaration import seconds
from towpath.tools.egress_rules import pattern_faults
from towpath.tools.sandbox import Sandbox, SandboxMode, default_egress, default_mode
from towpath_contracts.base import Token
from towpath_contracts.problems.given_values import in_words_of_a_file
from towpath_contracts.problems.input_faults import details_of
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.calls import MAX_RESULT_BYTES, ToolHazard
from towpath_contracts.tools.readers import OutputReaders, declared_readers
from towpath_contracts.tools.reports import Reports

CODE = "mcp_invalid"
KIND = "McpServers"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_OF_PROGRAMS = ("args", "env", "cwd", "sandbox", "network", "egress", "files", "writable")

Seconds = Annotated[float, BeforeValidator(seconds, json_schema_input_type=float | str)]
"""A number of seconds, or text such as "30s"."""


class _ConfigModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolOverride(_ConfigModel):
    """What the operator says of one tool, whatever its server says. `timeout` replaces the server's."""

    effect_class: Literal["pure", "idempotent", "irreversible"] = "irreversible"
    operation: str = Field(default="call", min_length=1, max_length=64)
    trusted_output: bool = False
    trusted_fields: tuple[str, ...] = ()
    readers: Annotated[tuple[OutputReaders, ...], BeforeValidator(declared_readers, json_schema_input_type=Any)] = ()
    sinks: tuple[str, ...] | None = None
    hazards: tuple[ToolHazard, ...] = ()
    sensitive: bool = False
    polling: bool = False
    reports: Reports = ""
    description: str | None = Field(default=None, max_length=4_096)
    summary: str = Field(default="", max_length=256)
    timeout: Annotated[Seconds, Field(gt=0, le=3_600)] | None = None


class ServerConfig(_ConfigModel):
    """One MCP server: a `command` (stdio) or a `url` (streamable HTTP), and what is made of its tools.

    A program runs in a `sandbox` as the worker's operator says, unless this does; `network` (all of it), `egress`
    (`HOST:PORT`, through a proxy), `files` (to read) and `writable` are what it may reach from there.
    `env` and `headers` may hold `${env:NAME}` and `${file:PATH}`, which only the worker resolves. `recheck` is how old
    the server's list of tools may be when one of them is called. `plain_http` lets secrets travel unencrypted.
    """

    command: str | None = Field(default=None, min_length=1, max_length=4_096)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: Path | None = None
    sandbox: SandboxMode | None = None
    network: bool = False
    egress: tuple[str, ...] | None = None
    files: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    url: str | None = Field(default=None, max_length=4_096)
    headers: dict[str, str] = Field(default_factory=dict)
    plain_http: bool = False
    protocol: Literal["auto", "legacy"] = "auto"
    toolset: Token | None = None
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    timeout: Annotated[Seconds, Field(gt=0, le=3_600)] = 30.0
    start_timeout: Annotated[Seconds, Field(gt=0, le=600)] = 30.0
    recheck: Annotated[Seconds, Field(ge=0, le=86_400)] = 60.0
    max_output_bytes: int = Field(default=4 * 1024 * 1024, ge=1_024, le=MAX_RESULT_BYTES)
    tools: dict[str, ToolOverride] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            msg = "a server has either a command or a url"
            raise ValueError(msg)
        wrong = ("headers", "plain_http") if self.url is None else _OF_PROGRAMS
        given = [name for name in wrong if name in self.model_fields_set]
        if given:
            msg = f"{', '.join(given)} does not belong to a server with a {'command' if self.url is None else 'url'}"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _egress_that_can_be_meant(self) -> Self:
        faults = pattern_faults(self.egress or ())
        if self.network and self.egress:
            faults.append("network: true would go past it")
        if faults:
            msg = f"egress: {'; '.join(faults)}"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _references_in_their_place(self) -> Self:
        for text in (self.command or "", *self.args, self.url or ""):
            if holds_reference(text):
                msg = "a secret can't stand in a command, its args or a url, where others see it; use env or headers"
                raise ValueError(msg)
        for text in (*self.env.values(), *self.headers.values()):
            fault = reference_fault(text)
            if fault:
                raise ValueError(fault)
        return self

    @model_validator(mode="after")
    def _safe_url(self) -> Self:
        if self.url is None:
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            msg = "a url begins with http:// or https:// and names a host"
            raise ValueError(msg)
        if parts.username or parts.password:
            msg = "a url holds no user or password; use headers"
            raise ValueError(msg)
        if parts.scheme == "http" and self.headers and parts.hostname not in LOOPBACK and not self.plain_http:
            msg = "headers would travel unencrypted; use https, or say plain_http: true"
            raise ValueError(msg)
        return self

    def sandbox_in(self, folder: Path) -> Sandbox:
        """Return the sandbox of the program; *folder* is where relative paths begin."""
        of_all = () if self.network else default_egress()
        return Sandbox(
            mode=self.sandbox or default_mode(),
            network=self.network,
            egress=of_all if self.egress is None else self.egress,
            files=tuple(folder / path.expanduser() for path in self.files),
            writable=tuple(folder / path.expanduser() for path in self.writable),
        )

    def takes(self, tool: str) -> bool:
        """Return whether the operator lets *tool* of this server be offered at all: deny beats allow."""
        named = any(fnmatchcase(tool, pattern) for pattern in self.allow)
        return named and not any(fnmatchcase(tool, pattern) for pattern in self.deny)

    def override(self, tool: str) -> ToolOverride:
        """Return what the operator sets for *tool*; the strictest where nothing is set."""
        return self.tools.get(tool, ToolOverride())


class ServersFile(_ConfigModel):
    """The whole file. `folder` is where it lies: relative paths begin there."""

    kind: Literal["McpServers"] = "McpServers"
    servers: dict[Token, ServerConfig] = Field(min_length=1, max_length=64)
    folder: Path = Field(default=Path(), exclude=True)

    @model_validator(mode="after")
    def _own_toolsets(self) -> Self:
        taken: dict[str, str] = {}
        for name, server in self.servers.items():
            toolset = server.toolset or name
            other = taken.setdefault(toolset, name)
            if other != name:
                msg = f"the servers {other} and {name} share the toolset {toolset}; a toolset has one server"
                raise ValueError(msg)
        return self


def load_servers(path: str | Path) -> ServersFile:
    """Read the file; raises RefusedError `mcp_invalid` with every problem and its `file:line`."""
    place = Path(path)
    written, lines, _ = read_yaml(place, CODE)
    try:
        read = ServersFile.model_validate(_without_folder(written))
    except ValidationError as error:
        raise RefusedError(
            locate_problems(CODE, place, lines, in_words_of_a_file(details_of(error, ServersFile), written))
        ) from None
    problems = [
        ProblemDetail(pointer=f"/servers/{name}/tools/{tool}", detail=f"allow and deny leave {tool} out")
        for name, server in read.servers.items()
        for tool in server.tools
        if not server.takes(tool)
    ]
    if problems:
        raise RefusedError(locate_problems(CODE, place, lines, problems))
    return read.model_copy(update={"folder": place.absolute().parent.resolve()})


def _without_folder(written: dict[str, Any]) -> dict[str, Any]:
    """A file can't say where it lies: `folder` in it is an unknown key like any other."""
    return {("folder (unknown)" if key == "folder" else key): value for key, value in written.items()}
