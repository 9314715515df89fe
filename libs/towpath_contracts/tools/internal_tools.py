"""The tools that the platform itself applies: plan, workspace, and outputs of the run's own calls.

They are registered, permitted, limited and audited like any other tool; only who runs them differs: no worker
does, the run machine applies them as a transition of the run. They reach nothing outside the run, so none of their
arguments is a destination; what they return came from wherever it came from, so it is never trusted.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.glob_patterns import MAX_PATTERN
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_contracts.tools.workspace import MAX_PATH, MAX_WRITE_CHARS

PLATFORM_TOOLSET = "platform"
"""Toolset of internal tools; no worker may offer one in it."""

PLATFORM_OWNER = "towpath"
PLATFORM_WORKER = "platform"
"""What the log names as the worker of a call that the run machine applied."""

PLAN_OBJECTIVE = 240
PLAN_TITLE = 160
PLAN_TEXT = 512
"""Characters of a step's details, and of each of its notes."""

MAX_PLAN_STEPS = 64
MAX_STEP_NOTES = 32
MAX_PLAN_BYTES = 64 * 1024
"""A whole plan, as JSON: each change of it is an event that holds all of it, and a prompt shows it."""

MAX_LIST_BYTES = 28 * 1024
"""A list in an answer, as JSON: within the context limit (32 KiB unless a task says so) a model sees it whole."""

MAX_ANSWER_BYTES = 256 * 1024
"""Any answer of an internal tool, as JSON; a read of 48,000 characters has less, whatever its script."""

MAX_FAILURE_CHARS = 2_000
"""Of the text of a refusal: a model has made the arguments that it repeats."""

STEP_STATUSES = ("pending", "in_progress", "blocked", "done")
READ_CHARS = 12_000
"""Characters that one read returns unless it says otherwise."""

MAX_READ_CHARS = MAX_WRITE_CHARS
MAX_READ_BYTES = 4 * MAX_READ_CHARS
"""Of the text of one read as JSON, where a control character has six."""

MAX_MATCHES = 100

READ_BYTES = 12_000
"""Bytes of an output that one read returns unless it says otherwise."""

MAX_OUTPUT_READ = 48_000
SEARCH_MATCHES = 20
MAX_SEARCH_MATCHES = 100
MAX_SEARCH_CHARS = 512

_PATH: JsonObject = {"type": "string", "maxLength": MAX_PATH, "description": "relative path, / between segments"}
_STEP_ID: JsonObject = {"type": "string", "maxLength": 16, "description": "id of a step, such as S001"}
_TITLE: JsonObject = {"type": "string", "maxLength": PLAN_TITLE}
_DETAILS: JsonObject = {"type": "string", "maxLength": PLAN_TEXT}


def _spec(name: str, operation: str, description: str, properties: JsonObject, *required: str) -> ToolSpec:
    more: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return ToolSpec(
        name=name,
        toolset=PLATFORM_TOOLSET,
        operation=operation,
        description=description,
        parameters={**more, "required": list(required)} if required else more,
        effect_class=EffectClass.IDEMPOTENT,
        sinks=(),
        internal=True,
    )


_PLAN = (
    _spec(
        "plan_setup",
        "write",
        "Set up the plan of this run, with its first steps. Replaces a plan that is completed or abandoned.",
        {
            "objective": {"type": "string", "maxLength": PLAN_OBJECTIVE},
            "steps": {
                "type": "array",
                "maxItems": MAX_PLAN_STEPS,
                "items": {
                    "type": "object",
                    "properties": {"title": _TITLE, "details": _DETAILS},
                    "required": ["title"],
                    "additionalProperties": False,
                },
            },
        },
        "objective",
    ),
    _spec("plan_add_step", "write", "Add a step to the plan.", {"title": _TITLE, "details": _DETAILS}, "title"),
    _spec(
        "plan_update_step",
        "write",
        "Change the title or the details of a step.",
        {"step_id": _STEP_ID, "title": _TITLE, "details": _DETAILS},
        "step_id",
    ),
    _spec(
        "plan_mark_step",
        "write",
        "Set the status of a step, with a note of what was found. When every step is done the plan is completed.",
        {"step_id": _STEP_ID, "status": {"type": "string", "enum": list(STEP_STATUSES)}, "note": _DETAILS},
        "step_id",
        "status",
    ),
    _spec("plan_clear", "write", "Abandon the plan; its steps are gone.", {}),
    _spec("plan_read", "read", "Read the whole plan.", {}),
)

_WORKSPACE = (
    _spec("workspace_list", "read", "List the files and folders of a folder.", {"path": _PATH}),
    _spec(
        "workspace_read",
        "read",
        "Read a text file, from a line on.",
        {
            "path": _PATH,
            "from_line": {"type": "integer", "minimum": 1},
            "max_chars": {"type": "integer", "minimum": 1, "maximum": MAX_READ_CHARS},
        },
        "path",
    ),
    _spec(
        "workspace_write",
        "write",
        "Write a text file: create a new one, overwrite or append to one that is there.",
        {
            "path": _PATH,
            "content": {"type": "string", "maxLength": MAX_WRITE_CHARS},
            "mode": {"type": "string", "enum": ["create", "overwrite", "append"]},
        },
        "path",
        "content",
    ),
    _spec(
        "workspace_edit",
        "write",
        "Replace a piece of a text file. The piece must be there exactly once, unless all of them are meant.",
        {
            "path": _PATH,
            "old": {"type": "string", "minLength": 1, "maxLength": MAX_WRITE_CHARS},
            "new": {"type": "string", "maxLength": MAX_WRITE_CHARS},
            "all": {"type": "boolean"},
        },
        "path",
        "old",
        "new",
    ),
    _spec(
        "workspace_glob",
        "read",
        "Find files by their paths: * and ? within a segment, ** over several.",
        {"pattern": {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN}},
        "pattern",
    ),
    _spec(
        "workspace_grep",
        "read",
        "Find the lines that hold a text, in all files or those of a glob pattern.",
        {
            "text": {"type": "string", "minLength": 1, "maxLength": 512},
            "pattern": {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN},
            "ignore_case": {"type": "boolean"},
        },
        "text",
    ),
    _spec("workspace_delete", "write", "Delete a file, or a folder with all that is in it.", {"path": _PATH}, "path"),
)

_OUTPUT_ID: JsonObject = {"type": "string", "maxLength": 64, "description": "execution_id of a call of this run"}
_OFFSET: JsonObject = {"type": "integer", "minimum": 0, "description": "byte to begin at"}

_OUTPUTS = (
    _spec(
        "output_read",
        "read",
        "Read a part of a tool output of this run that was shown shortened. next_offset is where the next part begins.",
        {
            "execution_id": _OUTPUT_ID,
            "offset": _OFFSET,
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_OUTPUT_READ, "description": "bytes"},
        },
        "execution_id",
    ),
    _spec(
        "output_search",
        "read",
        "Find a text in a tool output of this run. Returns offsets of matches, for output_read, and some text around.",
        {
            "execution_id": _OUTPUT_ID,
            "text": {"type": "string", "minLength": 1, "maxLength": MAX_SEARCH_CHARS},
            "ignore_case": {"type": "boolean"},
            "offset": _OFFSET,
            "max_matches": {"type": "integer", "minimum": 1, "maximum": MAX_SEARCH_MATCHES},
        },
        "execution_id",
        "text",
    ),
)

PLAN_TOOLS = frozenset(spec.name for spec in _PLAN)
WORKSPACE_TOOLS = frozenset(spec.name for spec in _WORKSPACE)

OUTPUT_TOOLS: dict[str, ToolSpec] = {spec.name: spec for spec in _OUTPUTS}
"""Every agent has them, without being equipped and without a rule: they read what its run was given already."""

INTERNAL_TOOLS: dict[str, ToolSpec] = {spec.name: spec for spec in (*_PLAN, *_WORKSPACE, *_OUTPUTS)}
"""Every project has them, without anybody registering them."""
