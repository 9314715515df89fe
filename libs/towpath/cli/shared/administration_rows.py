"""The rows of commands that look after a platform, a machine or a project, and print something of their own."""

from datetime import datetime
from typing import Any, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict


class JsonSchemaFile(BaseModel):
    """A JSON Schema, with whatever its dialect has."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    dialect: str = Field(alias="$schema")
    title: str
    description: str


class CheckRow(TypedDict):
    """One check; `good` is null where it is only worth knowing."""

    check: str
    good: bool | None
    detail: str
    remedy: str


class ProblemRow(TypedDict):
    """A kind of problem, by its stable code."""

    code: str
    status: int
    title: str
    remedy: str
    retryable: bool


class ProblemExampleRow(TypedDict):
    """How a problem comes about, and what mends it."""

    cause: str
    example: str


class VersionRow(TypedDict):
    """The versions of Towpath and of the interpreter that runs it."""

    towpath: str
    python: str


class StoppedPlatformRow(TypedDict):
    """The process of the platform that was stopped, and its data folder; no process where none ran there."""

    data: str
    pid: int | None


class KeyRow(TypedDict):
    """An API key without its secret; `key` is the secret, said once by `towpath keys create`."""

    prefix: str
    caller: str
    project: str
    scopes: list[str]
    roles: list[str]
    note: str
    created_by: str
    created_with: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    key: NotRequired[str | None]
    warnings: NotRequired[list[str]]
    schema_version: NotRequired[int]


class RevokedKeyRow(TypedDict):
    """A key that is refused from now on."""

    prefix: str
    revoked: bool


class KeyFileRow(TypedDict):
    """A file with a key; `made` is false where it was there already."""

    file: str
    made: bool


class PublicKeyRow(TypedDict):
    """The public half of an nkey."""

    public: str


class MigrationRow(TypedDict):
    """A migration of the database; `newer` ones are unknown to this version."""

    owner: str
    version: str
    name: str
    applied: bool
    newer: bool
    checksum: str


class RewrittenTableRow(TypedDict):
    """A table that is written anew, with the bytes that it has now; nobody reads or writes it meanwhile."""

    table: str
    bytes: int


class PlannedMigrationRow(TypedDict):
    """A migration that is missing; services of versions before `oldest` refuse to start once it is applied."""

    owner: str
    version: str
    name: str
    oldest: str | None
    checksum: str
    rewrites: list[RewrittenTableRow]
    old_versions_go_on: bool


class RestoredRow(TypedDict):
    """What was marked in a database that came from a backup."""

    lost_since: datetime
    runs: int
    calls: int
    projects: int
    already: bool


class StreamRow(TypedDict):
    """A stream as it was declared; `changes` is what had to be done."""

    stream: str
    replicas: int
    consumers: list[str]
    changes: list[str]


class WorkerCredentialRow(TypedDict):
    """What one worker credential serves."""

    name: str
    project: str
    toolsets: list[str]


class AgentCredentialRow(TypedDict):
    """Which agent in user code one credential answers for."""

    name: str
    project: str
    agent: str


class ClientCredentialRow(TypedDict):
    """Which program submits over NATS with one credential, and whether it may also pause and resume runs."""

    name: str
    operates: bool


class DrainedFields(TypedDict):
    """What is to be done next with a worker that was drained."""

    changed: bool
    next: str


class LogLineRow(TypedDict):
    """A line that a process of the platform has written."""

    process: str
    line: str


class ContextRow(TypedDict):
    """A context: a platform by name. Its key is never printed."""

    name: str
    selected: bool
    server: str
    has_key: bool
    description: str


class ContextFileField(TypedDict):
    """Where contexts are kept."""

    file: str


class NoContextRow(TypedDict):
    """No context is selected any more."""

    selected: None


class RemovedContextRow(TypedDict):
    """A context that was forgotten, and the one that is selected now."""

    removed: str
    selected: str | None


class CompletionRow(TypedDict):
    """Where completions were written, and what loads them."""

    shell: str
    file: str
    loaded_by: str


class SettingRow(TypedDict):
    """A setting in force; `origin`, what says so, is printed with --origin, and `secret` of the platform's settings."""

    name: str
    value: Any
    secret: NotRequired[bool]
    origin: NotRequired[str]


class CreatedProjectRow(TypedDict):
    """The files of a project that was made, and the commands that go on from there."""

    folder: str
    created: list[str]
    next: list[str]


class WrittenFilesRow(TypedDict):
    """Files that were written or changed, and what to do next."""

    written: list[str]
    next: str


class SchemaKindRow(TypedDict):
    """A kind of file that has a schema."""

    kind: str
    description: str


class PathRow(TypedDict):
    """A file that was written."""

    path: str


class ProcessRow(TypedDict):
    """A process of the platform; servers have no address of their own for health."""

    pid: int | None
    restarts: int
    log: str
    health_url: NotRequired[str]


class StartPolicyRow(TypedDict):
    """The policy that is in force at the start; version 0 is none, which denies every call."""

    version: int
    rules: int
    source: str
    applied_by: str


class LoadedNetworksRow(TypedDict):
    """What was read from the folder of networks; tools that may wait for a person are null where nobody could say.

    `stayed` are networks whose files were refused, of which runs go on with the version that was published before.
    `warnings` are lines that were told of files with tools, and of equipped tools that no worker has.
    """

    networks: int
    agents: int
    tools: int
    stayed: int
    need_approval: int | None
    refused: int
    warnings: int


class ReadyPlatformRow(TypedDict):
    """Where everything of a platform is once it is ready, without any password, and what it was started with.

    `project` and `sample` are a file and a folder, and empty where there is none; `models` are the providers that have
    a key, and `is_bare` says that neither tools nor networks were named.
    """

    schema_version: int
    pid: int
    started_at: datetime
    data: str
    logs: str
    gateway_url: str | None
    sign_in_url: str | None
    authorization_file: str
    nats_url: str
    nats_passwords: str
    database_url: str
    sample: str
    refused_files: dict[str, list[str]]
    processes: dict[str, ProcessRow]
    policy: NotRequired[StartPolicyRow]
    project: str
    loaded: NotRequired[LoadedNetworksRow]
    models: list[str]
    is_bare: bool
    ready_s: float
    ephemeral: bool


class McpServerRow(TypedDict):
    """How an editor reaches the platform: by a command, or by its address."""

    type: NotRequired[str]
    command: NotRequired[str]
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]
    url: NotRequired[str]
    headers: NotRequired[dict[str, str]]


class EditorSettingsRow(TypedDict):
    """What to write into the settings of an editor, under the name that it gives to servers."""

    mcpServers: NotRequired[dict[str, McpServerRow]]
    servers: NotRequired[dict[str, McpServerRow]]


class NamedRuleRow(TypedDict):
    """A rule of the policy."""

    name: str
    effect: str


class AddedToolRow(TypedDict):
    """A tool of a server that was added; `rules` are those of the project that name it."""

    tool: str
    effect_class: str
    description: str
    notes: list[str]
    rules: list[NamedRuleRow]


class AddedServerRow(TypedDict):
    """A server that was added, the files that it was written into, and what is left to do."""

    server: str
    written: list[str]
    tools: list[AddedToolRow]
    refused: dict[str, str]
    next: list[str]


class FloodRow(TypedDict):
    """Runs that were submitted at once: how they ended, how many a second, and seconds from submit to end."""

    runs: int
    statuses: dict[str, int]
    submitted_s: float
    took_s: float
    runs_per_s: float
    p50_s: float
    p95_s: float


class AgentCardRow(TypedDict):
    """An agent card, as version 1.0 of A2A has it."""

    name: str
    description: str
    version: str
    skills: list[dict[str, Any]]
    supportedInterfaces: list[dict[str, Any]]
    capabilities: dict[str, Any]
    securitySchemes: dict[str, Any]
    securityRequirements: list[dict[str, Any]]
    defaultInputModes: list[str]
    defaultOutputModes: list[str]
