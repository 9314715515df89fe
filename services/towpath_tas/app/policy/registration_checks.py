"""What a worker's registration may say, before it is compared with what is stored.

A registration that could never work is refused whole, with all its problems. A row is made of each of its tools, and
decisions read them: so what each row repeats is short.
"""

from towpath_contracts.networks.child_tools import platform_tool
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.schema_bounds.size import SchemaTooCostlyError
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import PLATFORM_OWNER, PLATFORM_WORKER
from towpath_contracts.tools.reserved_names import as_read, is_platform_tool_name
from towpath_contracts.tools.workers import RegisterTools
from towpath_tas.adapters.cel import matches
from towpath_tas.core.tools.arguments import ArgumentChecker, SchemaTooDeepError
from towpath_tas.core.tools.registry import spec_digest

MAX_TOOLS = 512
"""Tools in one registration; a worker with more should be several workers."""

MAX_ACTOR_CHARS = 256
"""Of the worker's and the owner's name: each tool and each entry of the audit has them."""


def checked_digests(request: RegisterTools) -> dict[str, str]:
    """Return the digests of the proposed specs by name; raises ProblemError for a registration that can't work."""
    check_registration(request)
    return {spec.name: spec_digest(spec) for spec in request.tools}


def check_registration(request: RegisterTools) -> None:
    """Refuse a registration that could never work, with all its problems."""
    problems = _actor_problems(request)
    if len(request.tools) > MAX_TOOLS:
        problems.append(ProblemDetail(pointer="/tools", detail=f"at most {MAX_TOOLS} tools at once"))
    names = [spec.name for spec in request.tools]
    for place, spec in enumerate(request.tools[:MAX_TOOLS]):
        problems.extend(_spec_problems(spec, f"/tools/{place}", request.toolset, names.count(spec.name)))
    if problems:
        raise ProblemError(problem("request_invalid", tell_faults(problems), errors=tuple(problems)))


def _spec_problems(spec: ToolSpec, at: str, toolset: str, times: int) -> list[ProblemDetail]:
    problems = []
    if spec.internal or is_platform_tool_name(spec.toolset) or _reads_as_platform_tool(spec.name):
        detail = f"{spec.name}: names, toolset and kind of the platform's own tools are taken"
        problems.append(ProblemDetail(pointer=f"{at}/name", code="tool_reserved", detail=detail))
    if spec.toolset != toolset:
        problems.append(ProblemDetail(pointer=f"{at}/toolset", detail=f"{spec.name} is not of toolset {toolset}"))
    if times > 1:
        problems.append(ProblemDetail(pointer=f"{at}/name", detail=f"{spec.name} is offered {times} times"))
    try:
        ArgumentChecker(spec.parameters, matches)
    except ValueError as error:
        code, text = "", str(error)
        if isinstance(error, SchemaTooDeepError):
            code = "schema_too_deep"
        elif isinstance(error, SchemaTooCostlyError):
            code, text = "schema_too_costly", f"the schema {error}"
        problems.append(ProblemDetail(pointer=f"{at}/parameters", code=code, detail=f"{spec.name}: {text}"))
    return problems


def _reads_as_platform_tool(name: str) -> bool:
    """A model and a person read `Plan_Setup` as `plan_setup`."""
    return is_platform_tool_name(name) or platform_tool(as_read(name).replace("-", "_")) is not None


def _actor_problems(request: RegisterTools) -> list[ProblemDetail]:
    """The log names both as who registered a tool and who ran it: neither may read as the platform itself."""
    problems = []
    for field, name in (("owner", request.owner), ("worker", request.worker)):
        if len(name) > MAX_ACTOR_CHARS:
            detail = f"the {field} has {len(name)} characters; at most {MAX_ACTOR_CHARS} are taken"
            problems.append(ProblemDetail(pointer=f"/{field}", detail=detail))
        elif as_read(name) in (PLATFORM_OWNER, PLATFORM_WORKER):
            detail = f"{name} is an actor of the platform"
            problems.append(ProblemDetail(pointer=f"/{field}", code="actor_reserved", detail=detail))
    return problems
