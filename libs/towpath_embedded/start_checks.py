"""What `towpath up` is given, what it looks at before it starts anything, and what it stops at with --strict."""

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from towpath.missing_files import missing_file
from towpath.tools.sandbox import SandboxMode, refusal
from towpath_contracts.problems.registry import Problem, ProblemDetail, ProblemError, problem

MAX_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The arguments of `towpath up`; a port that is None is any free one."""

    data: Path
    gateway_port: int | None
    nats_port: int | None
    ephemeral: bool = False
    as_json: bool = False
    logs: bool = False
    workers: tuple[str, ...] = ()
    policy: Path | None = None
    profile: str = ""
    networks: Path | None = None
    mcp: Path | None = None
    agents: tuple[str, ...] = ()
    sandbox: SandboxMode = "none"
    servers_only: bool = False
    single_person: bool = False
    sample: bool = False
    strict: bool = False
    project: str = ""
    attach: bool = False
    only: str = ""


def check_files(options: UpOptions) -> None:
    """Raise ProblemError for what *options* name that is not there or can't be, or does not go together."""
    for option, port in (("--port", options.gateway_port), ("--nats-port", options.nats_port)):
        if port is not None and not 0 <= port <= MAX_PORT:
            detail = f"{option}: {port} is no port: there are those up to {MAX_PORT}"
            raise ProblemError(problem("request_invalid", detail, remedy=f"Write e.g. {option} auto."))
    for option, path in (("--policy", options.policy), ("--networks", options.networks), ("--mcp", options.mcp)):
        if path is not None and not path.exists():
            raise ProblemError(problem("file_missing", f"{option}: {missing_file(path)}"))
    for worker in options.workers:
        path = Path(worker)
        if (path.suffix == ".py" or "/" in worker) and not path.is_file():  # of a module only its import knows
            raise ProblemError(problem("file_missing", f"--worker: {missing_file(path)}"))
    if options.sample and (options.policy is not None or options.profile or options.networks is not None):
        detail = (
            "--sample brings a policy and a network of its own: --policy, --profile or --networks are given as well"
        )
        raise ProblemError(problem("request_invalid", detail, remedy="Give --sample, or files of your own."))
    if options.profile and options.policy is not None:
        name, path = options.profile, options.policy
        remedy = (
            f"For both, write `profile: {name}` into {path} and start: towpath up --policy {shlex.quote(str(path))}. "
            f"With --profile {name} alone no rule of {path} holds."
        )
        raise ProblemError(problem("request_invalid", "--policy and --profile are both given", remedy=remedy))
    if options.sandbox == "required" and (why := refusal()):
        raise ProblemError(problem("sandbox_unavailable", f"--sandbox required: {why}"))


def check_only(options: UpOptions) -> None:
    """Raise ProblemError for what *options* say to a whole platform beside --only."""
    given = {"--sample": options.sample, "--ephemeral": options.ephemeral, "--strict": options.strict}
    if named := [name for name, value in given.items() if value]:
        detail = f"--only starts services beside servers that run already, so it takes no {' or '.join(named)}"
        raise ProblemError(problem("request_invalid", detail, remedy="Leave one of them out."))


def check_attached(options: UpOptions) -> None:
    """Raise ProblemError for what *options* say to a start beside --attach, which starts nothing."""
    given = {
        "--worker": options.workers,
        "--policy": options.policy,
        "--profile": options.profile,
        "--networks": options.networks,
        "--mcp": options.mcp,
        "--agent": options.agents,
        "--ephemeral": options.ephemeral,
        "--single-person": options.single_person,
        "--strict": options.strict,
        "--only": options.only,
    }
    if named := [name for name, value in given.items() if value]:
        detail = f"--attach starts nothing, so it takes no {' or '.join(named)}"
        remedy = "Leave that out; or stop the platform, and start it with these: towpath down, towpath up …"
        raise ProblemError(problem("request_invalid", detail, remedy=remedy))


def check_syntax(workers: Sequence[str]) -> None:
    """Raise ProblemError for files of *workers* that are no Python, all of them at once: nothing has to be imported."""
    faults = [fault for worker in workers if (fault := _syntax_fault(Path(worker)))]
    if faults:
        raise ProblemError(problem("project_invalid", "; ".join(faults)))


def _syntax_fault(path: Path) -> str:
    if path.suffix != ".py" or not path.is_file():
        return ""
    try:
        with warnings.catch_warnings(action="ignore"):  # told where the file is imported
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        from towpath.module_sources import describe_import_fault  # knows packages: not on the way to readiness

        return describe_import_fault(str(path), error)
    except OSError:  # its import says why
        return ""
    return ""


def refused_at_start(faults: Mapping[str, Sequence[str]]) -> Problem:
    """Return why --strict starts nothing: the *faults* of each file, which were told as they were found."""
    every = [fault for found in faults.values() for fault in found]
    errors = tuple(ProblemDetail(pointer="", code="refused", detail=fault) for fault in every)
    detail = f"--strict stops where a file is refused, and above is told why: {', '.join(faults)}"
    return problem("project_invalid", detail, errors=errors)
